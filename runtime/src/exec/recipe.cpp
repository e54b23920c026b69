// SPDX-License-Identifier: Apache-2.0
#include "recipe.hpp"

#include <algorithm>

namespace spillway::runtime {

using residency::ResidencyState;

namespace {

// Ops in a chain, and in a whole recipe. A block of normalisation, scale, shift and activation
// takes four.
constexpr std::uint32_t kDeepest = 8;
constexpr std::size_t kMostOps = 16;

// A storage that died has no owner any more, and may be there still until a copy of it ends.
bool lives_as_then(const Making::Source& source) {
  const StorageRecord& record = *source.record;
  return record.id == source.id && record.version.load() == source.version &&
         (record.owner.load() != nullptr || record.orphaned.load());
}

// Foreign code may write an exempt storage, and one that was given away, at any time.
bool can_be_read(const StorageRecord& record) {
  const ResidencyState state = record.state.load();
  return state != ResidencyState::kExempt && !record.always_dirty.load() && record.kept.load() == 0;
}

class Search {
 public:
  bool add(const Made& made, const StorageRecord& of) {
    if (made.by == nullptr || ++ops_ > kMostOps || !made.by->usable()) return false;
    recipe_.cost += made.by->cost();
    return std::ranges::all_of(made.by->sources(), [&](const Making::Source& source) {
      // What is itself dropped is made on the way, too: to wait for it would make a chain of what
      // lives, whose length nobody bounds.
      const bool there = lives_as_then(source) && source.record != &of &&
                         source.record->state.load() != ResidencyState::kDropped;
      if (there) return read(*source.record, source.version);
      recipe_.made += source.bytes;
      return add(source.made, of);
    });
  }
  Recipe take() { return std::move(recipe_); }

 private:
  bool read(StorageRecord& record, std::uint32_t version) {
    if (!can_be_read(record)) return false;
    if (std::ranges::find(recipe_.reads, &record, &HeldSource::record) != recipe_.reads.end())
      return true;
    recipe_.reads.push_back({&record, version});
    recipe_.read += record.bytes;
    return true;
  }

  Recipe recipe_;
  std::size_t ops_ = 0;
};

}  // namespace

std::optional<Recipe> recipe_of(const StorageRecord& record) {
  if (record.made.by == nullptr || record.made_version != record.version.load())
    return std::nullopt;
  Search search;
  if (!search.add(record.made, record)) return std::nullopt;
  return search.take();
}

bool is_read(const Making::Source& source, const std::vector<HeldSource>& held) {
  return source.record->id == source.id && std::ranges::any_of(held, [&](const HeldSource& each) {
           return each.record == source.record && each.version == source.version;
         });
}

Making::Source source_of(StorageRecord& record) {
  const std::uint32_t version = record.version.load();
  Making::Source source{
      .record = &record, .id = record.id, .version = version, .bytes = record.bytes, .made = {}};
  const bool known = record.made.by != nullptr && record.made_version == version;
  if (known && record.made.by->depth() < kDeepest) source.made = record.made;
  return source;
}

}  // namespace spillway::runtime
