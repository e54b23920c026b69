// SPDX-License-Identifier: Apache-2.0
#include "json_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

using nlohmann::json;

// Far above what one op can touch, and small enough that its parsed row is of no weight.
constexpr std::size_t kMostRowItems = std::size_t{1} << 20;
constexpr std::size_t kMostKeys = 32;

/// Takes nlohmann's events, which come as the functions without further comment below, and keeps
/// the one state there is: how deep the text is, and in which row and field.
class RowParser {
 public:
  RowParser(std::span<const std::string_view> members, std::span<const JsonRows> rows,
            JsonRowTarget& target)
      : members_(members), rows_(rows), target_(target) {
    SPILLWAY_CHECK(members.size() + rows.size() <= kMostKeys, "too many members");
    for (const JsonRows& list : rows) SPILLWAY_CHECK(list.keys.size() <= kMostKeys, "many keys");
  }

  bool null() { return on_scalar(JsonScalar::null()); }
  bool boolean(bool value) { return on_scalar(JsonScalar::flag(value)); }
  bool number_integer(std::int64_t value) {
    return on_scalar(JsonScalar::other_number(std::to_string(value)));
  }
  bool number_unsigned(std::uint64_t value) { return on_scalar(JsonScalar::whole(value)); }
  bool number_float(double /*value*/, const std::string& text) {
    return on_scalar(JsonScalar::other_number(text));
  }
  bool string(const std::string& value) { return on_scalar(JsonScalar::text(value)); }
  static bool binary(const json::binary_t& /*value*/) { return false; }  // not in JSON text

  bool start_object(std::size_t /*size*/) {
    if (depth_ == kInList) {
      depth_ = kInRow;
      seen_ = 0;
      target_.on_row(list_);
      return true;
    }
    require(depth_ == kOutside,
            depth_ == kInDocument ? "is an object" : "an entry holds an object");
    depth_ = kInDocument;
    return true;
  }
  bool key(const std::string& name) {
    if (depth_ == kInDocument) {
      start_member(name);
    } else {
      field_ = note_key(name, rows_[list_].keys, {}, seen_);
    }
    return true;
  }
  bool end_object() {
    if (depth_ == kInDocument) {
      depth_ = kOutside;
      return true;
    }
    target_.on_row_end(list_, seen_);
    ++row_;
    depth_ = kInList;
    return true;
  }
  bool start_array(std::size_t /*size*/) {
    if (depth_ == kInDocument) {
      require(in_list_, "is a list");
      depth_ = kInList;
      return true;
    }
    require(depth_ != kOutside, "it is not an object");
    require(depth_ != kInList, "an entry is not an object");
    require(depth_ == kInRow, "lists are nested");
    if ((rows_[list_].lists >> field_ & 1) == 0) fail_field("is a list");
    depth_ = kInField;
    items_ = 0;
    return true;
  }
  bool end_array() {
    depth_ = depth_ == kInField ? kInRow : kInDocument;
    in_list_ = in_list_ && depth_ == kInRow;
    return true;
  }
  bool parse_error(std::size_t byte, const std::string& /*token*/,
                   const json::exception& /*error*/) {
    error_byte_ = byte;
    return false;
  }

  [[nodiscard]] std::size_t error_byte() const { return error_byte_; }

  /// Where in the document the parser stands.
  [[nodiscard]] std::string position() const {
    if (in_list_) return fmt::format("{} {}", rows_[list_].row, row_);
    return member_.empty() ? "the beginning" : fmt::format("\"{}\"", member_);
  }

 private:
  enum Depth { kOutside, kInDocument, kInList, kInRow, kInField };

  bool on_scalar(const JsonScalar& value) {
    switch (depth_) {
      case kOutside:
        throw UserError("it is not an object");
      case kInDocument:
        require(!in_list_, "is not a list");
        target_.on_member(key_, value);
        return true;
      case kInList:
        throw UserError("an entry is not an object");
      case kInRow:
        if ((rows_[list_].lists >> field_ & 1) != 0) fail_field("is not a list");
        target_.on_field(list_, field_, value);
        return true;
      case kInField:
        require(++items_ <= kMostRowItems, "an entry lists too much");
        target_.on_item(list_, field_, value);
        return true;
    }
    return false;
  }

  void start_member(const std::string& name) {
    refuse_other_kind(name);
    key_ = note_key(name, members_, rows_, members_seen_);
    member_ = name;
    in_list_ = key_ >= members_.size();
    if (in_list_) {
      list_ = key_ - members_.size();
      row_ = 0;
    }
  }

  // Every file of ours tells its format's version in a member named after its kind.
  void refuse_other_kind(std::string_view name) const {
    constexpr std::string_view kOurs = "spillway_";
    constexpr std::array<std::string_view, 3> kKinds = {"trace", "plan", "machine"};
    if (!name.starts_with(kOurs) || std::ranges::find(members_, name) != members_.end()) return;
    const std::string_view kind = name.substr(kOurs.size());
    if (std::ranges::find(kKinds, kind) == kKinds.end()) return;
    throw OtherKindOfFile(std::string(kind));
  }

  static std::size_t note_key(const std::string& name, std::span<const std::string_view> keys,
                              std::span<const JsonRows> lists, std::uint32_t& seen) {
    std::size_t key = 0;
    while (key < keys.size() && keys[key] != name) ++key;
    for (std::size_t i = 0; key == keys.size() + i && i < lists.size(); ++i) {
      if (lists[i].member != name) ++key;
    }
    if (key == keys.size() + lists.size()) {
      throw UserError(fmt::format("\"{}\" is not known", name));
    }
    if ((seen >> key & 1) != 0) throw UserError(fmt::format("\"{}\" stands twice", name));
    seen |= std::uint32_t{1} << key;
    return key;
  }

  static void require(bool condition, const char* problem) {
    if (!condition) throw UserError(problem);
  }
  [[noreturn]] void fail_field(std::string_view problem) const {
    throw UserError(fmt::format("\"{}\" {}", rows_[list_].keys[field_], problem));
  }

  std::span<const std::string_view> members_;
  std::span<const JsonRows> rows_;
  JsonRowTarget& target_;
  Depth depth_ = kOutside;
  bool in_list_ = false;  // the member is a list of rows
  std::string member_;
  std::size_t key_ = 0;    // of the member
  std::size_t list_ = 0;   // of `rows_`
  std::size_t row_ = 0;    // of the list
  std::size_t field_ = 0;  // of the row
  std::size_t items_ = 0;  // of the field
  std::uint32_t members_seen_ = 0;
  std::uint32_t seen_ = 0;
  std::size_t error_byte_ = 0;
};

}  // namespace

void JsonScalar::refuse_whole(std::string_view key, std::uint64_t most) const {
  const std::string shown = kind_ == Kind::kWhole  ? std::to_string(number_)
                            : kind_ == Kind::kText ? "a text"
                                                   : std::string(text_);
  throw UserError(fmt::format("\"{}\" is {}, not a whole number from 0 to {}", key, shown, most));
}

bool JsonScalar::as_flag(std::string_view key) const {
  if (kind_ != Kind::kFlag) throw UserError(fmt::format("\"{}\" is neither true nor false", key));
  return number_ != 0;
}

std::string_view JsonScalar::as_text(std::string_view key) const {
  if (kind_ != Kind::kText) throw UserError(fmt::format("\"{}\" is not a text", key));
  return text_;
}

std::uint64_t JsonScalar::as_hex(std::string_view key) const {
  constexpr int kHex = 16;
  const std::string_view text = as_text(key);
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, kHex);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  throw UserError(fmt::format("\"{}\" is \"{}\", not a hexadecimal number", key, text));
}

void parse_json_rows(std::string_view text, std::span<const std::string_view> members,
                     std::span<const JsonRows> rows, JsonRowTarget& target) {
  RowParser parser(members, rows, target);
  try {
    if (json::sax_parse(text.data(), text.data() + text.size(), &parser)) return;
  } catch (const OtherKindOfFile&) {
    throw;
  } catch (const UserError& error) {
    throw UserError(fmt::format("{}: {}", parser.position(), error.what()));
  } catch (const json::exception& error) {
    throw UserError(fmt::format("{}: {}", parser.position(), error.what()));
  }
  throw UserError(fmt::format("{}: at byte {} of {} the text is not JSON", parser.position(),
                              parser.error_byte(), text.size()));
}

std::string json_text(std::string_view text) {
  return json(text).dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace spillway
