// SPDX-License-Identifier: Apache-2.0
#include "spillway/base/text_column.hpp"

#include <functional>
#include <limits>
#include <optional>

#include "spillway/base/error.hpp"

namespace spillway {
namespace {

constexpr std::size_t kFewestSlots = 16;

std::size_t hash_of(std::string_view text) { return std::hash<std::string_view>{}(text); }

}  // namespace

std::uint32_t TextColumn::intern(std::string_view text) {
  if (2 * (ends_.size() + 1) > slots_.size()) grow_slots();
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_of(text) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (this->text(slots_[slot] - 1) == text) return slots_[slot] - 1;
  }
  SPILLWAY_CHECK(ends_.size() < std::numeric_limits<std::uint32_t>::max(), "too many texts");
  characters_ += text;
  ends_.push_back(characters_.size());
  slots_[slot] = static_cast<std::uint32_t>(ends_.size());
  return slots_[slot] - 1;
}

void TextColumn::grow_slots() {
  slots_.assign(slots_.empty() ? kFewestSlots : 2 * slots_.size(), 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t id = 0; id < ends_.size(); ++id) {
    std::size_t slot = hash_of(text(id)) & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = id + 1;
  }
}

bool TextColumn::operator==(const TextColumn& other) const {
  if (size() != other.size()) return false;
  // Ids may differ where the texts first appeared in another order: each maps to one of the other.
  std::vector<std::optional<std::uint32_t>> twin(distinct());
  for (std::size_t row = 0; row < size(); ++row) {
    std::optional<std::uint32_t>& known = twin[ids_[row]];
    if (known == other.ids_[row]) continue;
    if ((*this)[row] != other[row]) return false;
    known = other.ids_[row];
  }
  return true;
}

}  // namespace spillway
