// SPDX-License-Identifier: Apache-2.0
// Streams a JSON document of rows, such as a trace or a plan, without building it in memory:
//
//     {"version": 2, "member": "text",
//      "ops": [{"name": "mm", "reads": [0, 1]}, ...],      a list of rows
//      ...}
//
// The document is an object; its members are scalars or lists of rows; a row is an object whose
// fields are scalars or lists of scalars. Anything else is refused, as are members and fields that
// are not known or stand twice: passing over one could lose a dependency. Nesting is bounded by the
// shape, so that hostile input cannot deepen anything.
//
// Parsing is nlohmann's; text of another encoding than UTF-8 is not JSON and is refused.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

#include "spillway/base/error.hpp"

namespace spillway {

/// A number, text, truth or null. Its accessors throw UserError naming the key: `"ns" is -5, ...`.
class JsonScalar {
 public:
  enum class Kind : std::uint8_t { kNull, kFlag, kWhole, kOtherNumber, kText };

  static JsonScalar null() { return {Kind::kNull, 0, "null"}; }
  static JsonScalar flag(bool value) { return {Kind::kFlag, value ? 1U : 0U, "a truth"}; }
  static JsonScalar whole(std::uint64_t value) { return {Kind::kWhole, value, {}}; }
  static JsonScalar other_number(std::string_view shown) { return {Kind::kOtherNumber, 0, shown}; }
  static JsonScalar text(std::string_view text) { return {Kind::kText, 0, text}; }

  static constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

  [[nodiscard]] std::uint64_t as_whole(std::string_view key, std::uint64_t most = kMost) const {
    if (kind_ != Kind::kWhole || number_ > most) refuse_whole(key, most);
    return number_;
  }
  [[nodiscard]] bool as_flag(std::string_view key) const;
  [[nodiscard]] std::string_view as_text(std::string_view key) const;
  /// Reads a text such as `7c1d2e3f40516273`.
  [[nodiscard]] std::uint64_t as_hex(std::string_view key) const;

 private:
  JsonScalar(Kind kind, std::uint64_t number, std::string_view text)
      : kind_(kind), number_(number), text_(text) {}
  [[noreturn]] void refuse_whole(std::string_view key, std::uint64_t most) const;

  Kind kind_;
  std::uint64_t number_;
  std::string_view text_;  // of the parser: valid during one call
};

/// One list of rows.
struct JsonRows {
  std::string_view member;                 ///< `ops`
  std::string_view row;                    ///< `op`: how one is called in errors
  std::span<const std::string_view> keys;  ///< at most 32
  std::uint32_t lists = 0;                 ///< bit i: keys[i] is a list of scalars
};

/// The receiver of the document's values, in the order of the text. Keys are positions in the
/// tables.
class JsonRowTarget {
 public:
  virtual ~JsonRowTarget() = default;
  virtual void on_member(std::size_t key, const JsonScalar& value) = 0;
  virtual void on_row(std::size_t rows) = 0;
  virtual void on_field(std::size_t rows, std::size_t key, const JsonScalar& value) = 0;
  virtual void on_item(std::size_t rows, std::size_t key, const JsonScalar& value) = 0;
  /// `seen`: bit i for each field that stood in the row.
  virtual void on_row_end(std::size_t rows, std::uint32_t seen) = 0;
};

/// A file of ours, but of another kind. The text is that kind: `plan`.
class OtherKindOfFile : public UserError {
 public:
  using UserError::UserError;
};

/// Throws UserError with the position, what the target throws included: `op 17: "ns" is ...`;
/// OtherKindOfFile where a member tells the version of another kind, as `spillway_plan` does.
/// Members and lists together are at most 32.
void parse_json_rows(std::string_view text, std::span<const std::string_view> members,
                     std::span<const JsonRows> rows, JsonRowTarget& target);

/// As JSON, with quotes; bytes that are no UTF-8 are replaced.
std::string json_text(std::string_view text);

}  // namespace spillway
