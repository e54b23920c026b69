// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/memory/slabs.hpp"

#include <algorithm>
#include <bit>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint32_t kStepsPerDoubling = 4;

}  // namespace

SlabSpan::SlabSpan(Block& block, std::uint32_t object_class, std::uint64_t object_bytes)
    : block_(&block),
      object_class_(object_class),
      object_bytes_(object_bytes),
      unused_(block.address),
      end_(block.address + block.bytes / object_bytes * object_bytes),
      asked_(block.bytes / object_bytes) {}

std::uint16_t& SlabSpan::asked(const void* object) {
  const auto offset = static_cast<const std::byte*>(object) - block_->address;
  // 32 bits divide faster.
  return asked_[static_cast<std::uint32_t>(offset) / static_cast<std::uint32_t>(object_bytes_)];
}

void* SlabSpan::take(std::uint64_t bytes) {
  ++live_;
  void* object = free_;
  if (object != nullptr) {
    free_ = *static_cast<void**>(object);
  } else {
    object = unused_;
    unused_ += object_bytes_;
  }
  asked(object) = static_cast<std::uint16_t>(bytes - 1);
  return object;
}

std::uint64_t SlabSpan::give(void* object) {
  const std::uint64_t bytes = std::uint64_t{asked(object)} + 1;
  *static_cast<void**>(object) = free_;
  free_ = object;
  --live_;
  return bytes;
}

Slabs::Slabs() : with_room_(class_of(kLargestObject) + 1), live_in_class_(with_room_.size()) {}

// Multiples of 64 up to 256, then four classes per doubling: at most a fifth is rounding.
std::uint32_t Slabs::class_of(std::uint64_t bytes) {
  const std::uint64_t units = (std::max<std::uint64_t>(bytes, 1) + kAlignment - 1) / kAlignment;
  if (units <= kStepsPerDoubling) return static_cast<std::uint32_t>(units - 1);
  const int bits = 63 - std::countl_zero(units - 1);  // 2^bits < units <= 2^(bits+1)
  const std::uint64_t base = std::uint64_t{1} << bits;
  const std::uint64_t step = base / kStepsPerDoubling;
  const auto within = static_cast<std::uint32_t>((units - base + step - 1) / step);
  return static_cast<std::uint32_t>(bits - 2) * kStepsPerDoubling + within + 3;
}

std::uint64_t Slabs::class_bytes(std::uint32_t object_class) {
  if (object_class < kStepsPerDoubling) return (object_class + 1) * kAlignment;
  const std::uint32_t index = object_class - kStepsPerDoubling;
  SPILLWAY_CHECK(index / kStepsPerDoubling < 32, "no slab is for objects of that class");
  const std::uint64_t base = kAlignment * kStepsPerDoubling << (index / kStepsPerDoubling);
  return base + base / kStepsPerDoubling * (index % kStepsPerDoubling + 1);
}

void* Slabs::allocate(std::uint64_t bytes) {
  auto& spans = with_room_[class_of(bytes)];
  if (spans.empty()) return nullptr;
  SlabSpan& span = *spans.back();
  void* object = span.take(std::max<std::uint64_t>(bytes, 1));
  live_ += {span.object_bytes()};
  live_in_class_[span.object_class()] += span.object_bytes();
  asked_ += {std::max<std::uint64_t>(bytes, 1)};
  if (span.full()) {
    span.listed = false;
    spans.pop_back();
  }
  return object;
}

std::uint64_t Slabs::span_bytes(std::uint64_t bytes) const {
  const std::uint32_t object_class = class_of(bytes);
  const std::uint64_t wanted =
      std::clamp(live_in_class_[object_class] / 4, kLeastSpanBytes, kMostSpanBytes);
  return round_up({std::max(wanted, 2 * class_bytes(object_class))}, kPage).count;
}

std::uint64_t Slabs::least_span_bytes(std::uint64_t bytes) {
  return round_up({class_bytes(class_of(bytes))}, kPage).count;
}

void Slabs::add_span(Block& block, std::uint64_t bytes) {
  const std::uint32_t object_class = class_of(bytes);
  const std::uint64_t object_bytes = class_bytes(object_class);
  SPILLWAY_CHECK(object_bytes >= bytes, std::to_string(bytes));
  SlabSpan* span = nullptr;
  if (unused_spans_.empty()) {
    span = &spans_.emplace_back(block, object_class, object_bytes);
  } else {
    span = unused_spans_.back();
    unused_spans_.pop_back();
    *span = SlabSpan(block, object_class, object_bytes);
  }
  span->listed = true;
  block.span = span;
  held_ += {block.resident};
  with_room_[object_class].push_back(span);
}

bool Slabs::free(Block& block, void* object) {
  SlabSpan& span = *block.span;
  asked_ -= {span.give(object)};
  live_ -= {span.object_bytes()};
  live_in_class_[span.object_class()] -= span.object_bytes();
  auto& spans = with_room_[span.object_class()];
  const std::size_t others = spans.size() - (span.listed ? 1 : 0);
  if (!span.empty() || others == 0) {
    if (!span.listed) {
      span.listed = true;
      spans.push_back(&span);
    }
    return false;  // the last span with room stays: freeing it would thrash on the next object
  }
  if (span.listed) spans.erase(std::find(spans.begin(), spans.end(), &span));
  forget(span);
  return true;
}

void Slabs::forget(SlabSpan& span) {
  span.listed = false;
  span.block().span = nullptr;
  held_ -= {span.block().resident};
  unused_spans_.push_back(&span);
}

Bytes Slabs::in_empty_spans() const {
  Bytes bytes{};
  for (const std::vector<SlabSpan*>& spans : with_room_) {
    for (const SlabSpan* const span : spans) {
      if (span->empty()) bytes += {span->block().resident};
    }
  }
  return bytes;
}

void Slabs::remove_empty_spans(std::vector<Block*>& blocks) {
  for (std::vector<SlabSpan*>& spans : with_room_) {
    std::erase_if(spans, [&](SlabSpan* span) {
      if (!span->empty()) return false;
      blocks.push_back(&span->block());
      forget(*span);
      return true;
    });
  }
}

}  // namespace spillway::runtime
