// SPDX-License-Identifier: Apache-2.0
// Reads and writes the wire format of protocol buffers: as much of it as a graph needs.
//
// A message is a row of fields, each a number, a wire type and a value. The reader hands out views
// into the bytes that it was given, which must outlive them. Readers ignore fields they do not
// know; who changes a message copies those as `Field::whole`. Not thread-safe, no shared state.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::tf {

/// The bytes are no message of the expected kind.
class MalformedMessage : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct Field {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;  ///< of kVarint
  std::string_view bytes;   ///< of kBytes
  std::string_view whole;   ///< the field as it stands in the message, tag included
};

class FieldReader {
 public:
  explicit FieldReader(std::string_view message) : rest_(message) {}

  /// False at the end. Throws MalformedMessage where a field ends too early or has a wire type
  /// that is none (groups are not read: no message of a graph has one).
  bool next(Field& field);

 private:
  std::string_view take(std::uint64_t bytes);

  std::string_view rest_;
};

void append_varint_field(std::string& message, std::uint32_t number, std::uint64_t value);
void append_bytes_field(std::string& message, std::uint32_t number, std::string_view bytes);

/// Appends the numbers of one occurrence of a repeated varint field, packed or not.
void read_repeated(const Field& field, std::vector<std::uint64_t>& numbers);

}  // namespace spillway::tf
