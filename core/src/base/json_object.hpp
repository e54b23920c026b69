// SPDX-License-Identifier: Apache-2.0
// Members of small JSON documents, by name and kind, with errors that name the place:
// `links.host-to-disk: "latency_ns" is -5, not a whole number ...`. For documents that are read
// whole; traces and plans have a streaming reader.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway {

/// One object of a document. Refers to the document, which must live longer. All members throw
/// UserError on what is missing or of another kind.
class JsonObject {
 public:
  JsonObject(const nlohmann::json& value, std::string position);

  [[nodiscard]] bool has(const char* key) const { return value_.contains(key); }
  [[nodiscard]] std::vector<std::string> keys() const;
  [[nodiscard]] std::uint64_t whole(const char* key) const;
  [[nodiscard]] std::uint64_t whole_or(const char* key, std::uint64_t fallback) const;
  [[nodiscard]] double real(const char* key) const;
  [[nodiscard]] std::string text(const char* key) const;
  /// Any member but the allowed ones is an error.
  [[nodiscard]] JsonObject object(const char* key,
                                  std::initializer_list<std::string_view> allowed) const;
  [[nodiscard]] JsonObject object(const char* key) const;

  void allow(std::initializer_list<std::string_view> keys) const;
  void require_version(const char* key, int version) const;
  [[noreturn]] void fail(std::string_view key, std::string_view problem) const;

 private:
  [[nodiscard]] const nlohmann::json& at(const char* key) const;

  const nlohmann::json& value_;
  std::string position_;
};

/// Parses `text` and has `read` make something of it. Every error starts with `what`.
template <typename Read>
auto read_document(std::string_view text, const std::string& what, const Read& read) {
  // A member that stands twice is an error: the parser would silently keep the last.
  std::vector<std::vector<std::string>> open;
  const auto no_twice = [&open](int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start) open.emplace_back();
    if (event == Event::object_end) open.pop_back();
    if (event == Event::key) {
      const auto& key = value.get_ref<const std::string&>();
      for (const std::string& other : open.back()) {
        if (other == key) throw UserError("\"" + key + "\" stands twice");
      }
      open.back().push_back(key);
    }
    return true;
  };
  try {
    const auto document = nlohmann::json::parse(text.begin(), text.end(), no_twice);
    return read(JsonObject(document, ""));
  } catch (const UserError& error) {
    throw UserError(what + ": " + error.what() + ".");
  } catch (const nlohmann::json::parse_error& error) {
    throw UserError(what + ": at byte " + std::to_string(error.byte) + " of " +
                    std::to_string(text.size()) + " the text is not JSON.");
  } catch (const nlohmann::json::exception& error) {
    throw UserError(what + ": " + error.what() + ".");
  }
}

}  // namespace spillway
