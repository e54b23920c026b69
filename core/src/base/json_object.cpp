// SPDX-License-Identifier: Apache-2.0
#include "json_object.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace spillway {
namespace {

std::string shown(const nlohmann::json& value) {
  return value.is_number() ? value.dump() : value.type_name();
}

}  // namespace

JsonObject::JsonObject(const nlohmann::json& value, std::string position)
    : value_(value), position_(std::move(position)) {
  if (value.is_object()) return;
  throw UserError(position_.empty() ? "it is not an object" : position_ + " is not an object");
}

void JsonObject::fail(std::string_view key, std::string_view problem) const {
  throw UserError(
      fmt::format("{}{}\"{}\" {}", position_, position_.empty() ? "" : ": ", key, problem));
}

const nlohmann::json& JsonObject::at(const char* key) const {
  const auto found = value_.find(key);
  if (found == value_.end()) fail(key, "is missing");
  return *found;
}

std::vector<std::string> JsonObject::keys() const {
  std::vector<std::string> result;
  for (const auto& [key, member] : value_.items()) result.push_back(key);
  return result;
}

std::uint64_t JsonObject::whole(const char* key) const {
  const nlohmann::json& value = at(key);
  // Half of the range: such numbers are times too, which are signed.
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 1;
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > kMost) {
    fail(key, fmt::format("is {}, not a whole number from 0 to {}", shown(value), kMost));
  }
  return value.get<std::uint64_t>();
}

std::uint64_t JsonObject::whole_or(const char* key, std::uint64_t fallback) const {
  return has(key) ? whole(key) : fallback;
}

double JsonObject::real(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_number()) fail(key, fmt::format("is {}, not a number", shown(value)));
  return value.get<double>();
}

std::string JsonObject::text(const char* key) const {
  const nlohmann::json& value = at(key);
  if (!value.is_string()) fail(key, fmt::format("is {}, not a text", shown(value)));
  return value.get<std::string>();
}

JsonObject JsonObject::object(const char* key) const {
  return {at(key), position_.empty() ? key : fmt::format("{}.{}", position_, key)};
}

JsonObject JsonObject::object(const char* key,
                              std::initializer_list<std::string_view> allowed) const {
  JsonObject result = object(key);
  result.allow(allowed);
  return result;
}

void JsonObject::allow(std::initializer_list<std::string_view> keys) const {
  for (const std::string& key : this->keys()) {
    if (std::find(keys.begin(), keys.end(), key) == keys.end()) fail(key, "is not known");
  }
}

void JsonObject::require_version(const char* key, int version) const {
  if (whole(key) == static_cast<std::uint64_t>(version)) return;
  fail(key, fmt::format("is {}; this Spillway reads version {}", shown(at(key)), version));
}

}  // namespace spillway
