// SPDX-License-Identifier: Apache-2.0
#include "wire.hpp"

namespace spillway::tf {
namespace {

constexpr unsigned kLongestVarint = 10;

std::uint64_t take_varint(std::string_view& rest) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < kLongestVarint; ++i) {
    if (i == rest.size()) throw MalformedMessage("a number ends too early");
    const auto byte = static_cast<unsigned char>(rest[i]);
    value |= std::uint64_t{byte & 0x7FU} << (7 * i);
    if ((byte & 0x80U) == 0) {
      rest.remove_prefix(i + 1);
      return value;
    }
  }
  throw MalformedMessage("a number is longer than ten bytes");
}

void append_varint(std::string& message, std::uint64_t value) {
  while (value >= 0x80) {
    message.push_back(static_cast<char>(value | 0x80));
    value >>= 7;
  }
  message.push_back(static_cast<char>(value));
}

}  // namespace

std::string_view FieldReader::take(std::uint64_t bytes) {
  if (bytes > rest_.size()) throw MalformedMessage("a field is longer than its message");
  const std::string_view taken = rest_.substr(0, bytes);
  rest_.remove_prefix(bytes);
  return taken;
}

bool FieldReader::next(Field& field) {
  if (rest_.empty()) return false;
  const std::string_view begin = rest_;
  const std::uint64_t tag = take_varint(rest_);
  field = Field{};
  field.number = static_cast<std::uint32_t>(tag >> 3);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.value = take_varint(rest_);
      break;
    case WireType::kFixed64:
      take(8);
      break;
    case WireType::kBytes:
      field.bytes = take(take_varint(rest_));
      break;
    case WireType::kFixed32:
      take(4);
      break;
    default:
      throw MalformedMessage("a field has an unknown wire type");
  }
  if (field.number == 0) throw MalformedMessage("a field has the number 0");
  field.whole = begin.substr(0, begin.size() - rest_.size());
  return true;
}

void append_varint_field(std::string& message, std::uint32_t number, std::uint64_t value) {
  append_varint(message, std::uint64_t{number} << 3);
  append_varint(message, value);
}

void append_bytes_field(std::string& message, std::uint32_t number, std::string_view bytes) {
  append_varint(message, std::uint64_t{number} << 3 | 2U);
  append_varint(message, bytes.size());
  message.append(bytes);
}

void read_repeated(const Field& field, std::vector<std::uint64_t>& numbers) {
  if (field.type == WireType::kVarint) {
    numbers.push_back(field.value);
    return;
  }
  std::string_view packed = field.bytes;
  while (!packed.empty()) numbers.push_back(take_varint(packed));
}

}  // namespace spillway::tf
