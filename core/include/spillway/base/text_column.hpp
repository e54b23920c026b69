// SPDX-License-Identifier: Apache-2.0
// A column of texts of which few differ, such as the operators of a step: every distinct text is
// stored once, and a row is a 32-bit id. Ids count from 0 in order of first appearance.
//
// A value: copies share nothing, and two columns are equal if their rows have equal texts. A view
// that is handed out lives until the next change. At most 2^32 - 1 distinct texts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace spillway {

class TextColumn {
 public:
  [[nodiscard]] std::size_t size() const { return ids_.size(); }
  [[nodiscard]] std::string_view operator[](std::size_t row) const { return text(ids_[row]); }
  [[nodiscard]] std::uint32_t id(std::size_t row) const { return ids_[row]; }

  /// How many distinct texts were ever appended or assigned.
  [[nodiscard]] std::size_t distinct() const { return ends_.size(); }
  [[nodiscard]] std::string_view text(std::uint32_t id) const {
    const std::size_t begin = id == 0 ? 0 : ends_[id - 1];
    return std::string_view(characters_).substr(begin, ends_[id] - begin);
  }

  void push_back(std::string_view text) { ids_.push_back(intern(text)); }
  void assign(std::size_t row, std::string_view text) { ids_[row] = intern(text); }
  void pop_back() { ids_.pop_back(); }

  bool operator==(const TextColumn& other) const;

 private:
  std::uint32_t intern(std::string_view text);
  void grow_slots();

  std::vector<std::uint32_t> ids_;
  std::string characters_;            // the distinct texts, one after the other
  std::vector<std::size_t> ends_;     // of each in `characters_`
  std::vector<std::uint32_t> slots_;  // open addressing by hash: id + 1, or 0 where empty
};

}  // namespace spillway
