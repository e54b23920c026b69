// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/stream_tier.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

constexpr std::byte kPoison{0xcb};  // as a float and as an integer, an unlikely value

Allocation opened(Allocation made) {
  made.opened = true;
  return made;
}

}  // namespace

StreamTier::StreamTier(StreamClock& clock, Bytes limit, Bytes addresses, OpensAhead ahead)
    : clock_(clock),
      driver_(clock.driver()),
      budget_(limit),
      pages_(clock, budget_, addresses, ahead),
      by_granule_(pages_.addresses().count / driver_.facts().granule) {
  expect_done(driver_, driver_.create_stream(own_.handle), "making a stream");
  own_ = number(own_.handle);
}

StreamTier::~StreamTier() { static_cast<void>(driver_.destroy_stream(own_.handle)); }

// ---- Blocks -------------------------------------------------------------------------------------

StreamTier::StreamBlock* StreamTier::block_at(std::uint64_t address) const {
  const std::uint64_t granule =
      (address - to_value(pages_.base())) / driver_.facts().granule;  // wraps around below the base
  return granule < by_granule_.size() ? by_granule_[granule].load(std::memory_order_acquire)
                                      : nullptr;
}

DeviceBlock* StreamTier::find(const void* address) const {
  return block_at(reinterpret_cast<std::uint64_t>(address));
}

StreamTier::StreamBlock& StreamTier::make_block(DeviceAddress address, Bytes pages) {
  if (StreamBlock* const known = block_at(to_value(address))) return *known;
  StreamBlock& block = blocks_.emplace_back();
  block.address = reinterpret_cast<std::byte*>(to_value(address));  // NOLINT: never followed
  block.pages = pages;
  const std::uint64_t granule = driver_.facts().granule;
  const std::uint64_t first = (to_value(address) - to_value(pages_.base())) / granule;
  for (std::uint64_t i = 0; i < pages.count / granule; ++i) {
    by_granule_[first + i].store(&block, std::memory_order_release);
  }
  return block;
}

void StreamTier::hold(StreamBlock& block) {
  block.mapped = true;
  live_ += block.pages;
  peak_live_ = std::max(peak_live_, live_);
}

void StreamTier::let_go(StreamBlock& block) {
  block.mapped = block.accessible = block.sealed = false;
  live_ -= block.pages;
}

Allocation StreamTier::hand_out(StreamBlock& block, Bytes bytes, const Fence& before,
                                const NumberedStream& stream) {
  hold(block);
  block.bytes = bytes.count;
  block.accessible = block.intact = true;
  block.uses.restart(clock_, before, stream);
  return {.pointer = block.address, .block = &block, .short_by = {}};
}

Allocation StreamTier::allocate(Bytes bytes, Overbooking overbooking,
                                const NumberedStream& stream) {
  const Bytes whole = pages_.pages_for(bytes);
  trim_cache();
  if (const auto freed = freed_.take(whole, stream.slot)) {
    return hand_out(make_block(freed->address, whole), bytes, freed->fence, stream);
  }
  if (const auto ready = take_prepared(whole)) {
    return opened(hand_out(make_block(ready->address, whole), bytes, ready->fence, stream));
  }
  const auto address = vacant_addresses(whole);
  if (!address) return {};
  allowance_.takes(whole);
  StreamBlock& block = make_block(*address, whole);
  if (const auto before = pages_.recall(*address)) return hand_out(block, bytes, *before, stream);
  if (open(block, overbooking, Haste::kNow)) return opened(hand_out(block, bytes, {}, stream));
  freed_.add_vacant(*address, whole);
  return lacking(whole);
}

std::optional<DeviceAddress> StreamTier::vacant_addresses(Bytes pages) {
  const auto vacant = freed_.take_vacant(pages);
  return vacant ? vacant : pages_.carve(pages);
}

// ---- Blocks for allocations to come -------------------------------------------------------------

// Where an opening ahead failed, the card may be full: nothing is opened for a guess then.
void StreamTier::expect(std::span<const Bytes> blocks) {
  const std::vector<Bytes> lacking = prepared_.arrange(blocks);
  while (prepared_.size() > blocks.size() - lacking.size()) give_up_prepared();
  if (!pages_.opens_ahead()) return;
  for (const Bytes pages : lacking) {
    if (!prepare(pages)) return;
  }
}

bool StreamTier::prepare(Bytes pages) {
  const auto address = vacant_addresses(pages);
  if (!address) return false;
  const auto before = pages_.recall(*address);
  if (before || open(make_block(*address, pages), Overbooking::kRefuse, Haste::kAhead)) {
    allowance_.takes(pages);
    prepared_.add({*address, pages, before.value_or(Fence{})});
    return true;
  }
  freed_.add_vacant(*address, pages);
  return false;
}

// Nothing: there is none of that size, or its pages could not be had after all.
std::optional<FreedBlock> StreamTier::take_prepared(Bytes pages) {
  const auto ready = prepared_.take(pages);
  if (!ready) return std::nullopt;
  const auto opening = pages_.opening(ready->address);
  if (opening == nullptr || finish(*opening)) return ready;
  static_cast<void>(pages_.end_opening(ready->address));
  freed_.add_vacant(ready->address, pages);
  return std::nullopt;
}

// The one that is needed last. Returns its bytes; zero: there is none.
Bytes StreamTier::give_up_prepared() {
  const auto block = prepared_.take_last();
  if (!block) return {};
  if (pages_.end_opening(block->address)) pages_.close(block->address, block->fence);
  freed_.add_vacant(block->address, block->pages);
  return block->pages;
}

// In this order: pages that are ready, the budget's, those of blocks that nobody has.
bool StreamTier::open(StreamBlock& block, Overbooking overbooking, Haste haste) {
  pages_.look();
  if (haste == Haste::kAhead) return open_ahead(block, overbooking);
  do {
    if (take_pages(block, Overbooking::kRefuse, Haste::kNow)) return true;
  } while (pages_.settle() != Bytes{});
  bool has_more = give_up_freed(block.pages);
  while (has_more || pages_.settle() != Bytes{}) {
    if (take_pages(block, Overbooking::kRefuse, Haste::kNow)) return true;
    has_more = false;
  }
  return overbooking == Overbooking::kAllow && take_pages(block, overbooking, Haste::kNow);
}

// Nobody waits for it: what has to be unmapped first, the thread unmaps, and the next look finds
// it.
bool StreamTier::open_ahead(StreamBlock& block, Overbooking overbooking) {
  if (take_pages(block, Overbooking::kRefuse, Haste::kAhead)) return true;
  if (give_up_idle(block.pages) && take_pages(block, Overbooking::kRefuse, Haste::kAhead)) {
    return true;
  }
  return overbooking == Overbooking::kAllow && take_pages(block, overbooking, Haste::kAhead);
}

bool StreamTier::take_pages(StreamBlock& block, Overbooking overbooking, Haste haste) {
  return haste == Haste::kAhead ? pages_.open_ahead(address_of(block), block.pages, overbooking)
                                : pages_.open(address_of(block), block.pages, overbooking);
}

Bytes StreamTier::give_up_oldest() {
  const auto block = freed_.take_oldest();
  if (!block) return {};
  give_up(*block);
  return block->pages;
}

void StreamTier::give_up(const FreedBlock& block) {
  pages_.close(block.address, block.fence);
  freed_.add_vacant(block.address, block.pages);
}

// Where the budget has room for them and yet they are not there, the card is full. What was to be
// opened ahead and is not begun is there at once.
bool StreamTier::give_up_freed(Bytes bytes) {
  const Bytes available = budget_.available();
  const Bytes at_once = available + pages_.ready();
  const bool card_is_full = available >= bytes;
  const auto room = [&] {
    const Bytes gone = pages_.leaving() + pages_.ready();
    return card_is_full ? gone : gone + budget_.available();
  };
  while (room() < bytes) {
    if (give_up_oldest() == Bytes{} && give_up_prepared() == Bytes{}) break;
  }
  return budget_.available() + pages_.ready() > at_once;
}

// Who opens ahead of need waits for no work of the device, so that alone counts which it has let go
// of; of the rest an op may have its block again.
bool StreamTier::give_up_idle(Bytes bytes) {
  const Bytes available = budget_.available();
  const Bytes at_once = available + pages_.ready();
  const Bytes there = available >= bytes ? pages_.ready() : at_once;  // else the card is full
  const std::vector<FreedBlock> idle = idle_blocks();
  const Bytes coming = there + pages_.leaving();  // some of which others gave up for it before
  Bytes room = coming;
  for (const FreedBlock& block : idle) room += block.pages;
  if (room < bytes) return false;
  room = coming;
  for (auto next = idle.begin(); room < bytes; ++next) {
    freed_.remove(*next);
    give_up(*next);
    room += next->pages;
  }
  pages_.look();  // without a thread their pages are ready then
  return budget_.available() + pages_.ready() > at_once;
}

// Where the budget has room and the card has none, others hold its memory: as much of ours has to
// go.
Allocation StreamTier::lacking(Bytes pages) const {
  const Bytes kept = budget_.used() - pages_.ready();
  const Bytes missing = saturating_sub(kept + pages, budget_.limit());
  const bool refused = missing.count == 0;
  return {.pointer = nullptr,
          .block = nullptr,
          .short_by = refused ? pages : missing,
          .refused = refused};
}

// What is held beyond the limit, or beyond what the program has shown to need, goes back.
void StreamTier::trim_cache() {
  pages_.settle_exchanges();
  const Bytes over_limit = saturating_sub(budget_.used(), budget_.limit());
  const Bytes needed = allowance_.most(peak_live_) + prepared_.bytes();
  const Bytes excess = std::max(over_limit, saturating_sub(budget_.used(), needed));
  if (excess.count == 0) return;
  pages_.settle();
  Bytes going = pages_.trim(excess) + pages_.leaving();
  while (going < excess) {
    const bool has_room = over_limit <= going;
    Bytes given_up = give_up_oldest();
    if (given_up == Bytes{} && !has_room) given_up = give_up_prepared();
    if (given_up == Bytes{}) break;
    if (has_room) allowance_.gave_up(given_up);
    going += given_up;
  }
  // Of blocks whose opening was not begun the pages are ready already.
  if (over_limit.count != 0) pages_.trim(saturating_sub(budget_.used(), budget_.limit()));
}

Bytes StreamTier::obey_limit() {
  trim_cache();
  return saturating_sub(budget_.used(), budget_.limit());
}

// ---- Uses ---------------------------------------------------------------------------------------

void StreamTier::launched(const NumberedStream& stream, Bytes allocated) noexcept {
  try {
    clock_.launched(stream.slot, allocated);
  } catch (const DeviceFailure&) {
    // The next call that needs the device says it.
  }
}

// In a thread for it, since the calling one may use another device, or none yet, and goes on with
// that.
void StreamTier::wait_for_all() {
  DeviceStatus status;
  try {
    std::thread([&] {
      status = driver_.enter_thread();
      if (status.done()) status = driver_.synchronize();
    }).join();
  } catch (const std::system_error& error) {
    throw DeviceFailure(std::string("No thread could be made to wait for the device: ") +
                        error.what());
  }
  expect_done(driver_, status, "waiting for the device");
}

void StreamTier::read_back(DeviceBlock& block, Bytes bytes, std::byte* to) {
  clock_.order_after(own_.handle, uses(block));
  expect_done(driver_, driver_.copy_out(to, address_of(block), bytes, own_.handle),
              "reading memory back");
  expect_done(driver_, driver_.synchronize_stream(own_.handle), "reading memory back");
}

// ---- Freeing, leaving, coming back --------------------------------------------------------------

void StreamTier::free_later(std::byte* pointer) noexcept {
  StreamBlock* const block = block_at(reinterpret_cast<std::uint64_t>(pointer));
  block->next_freed = freed_later_.load(std::memory_order_relaxed);
  while (!freed_later_.compare_exchange_weak(block->next_freed, block)) {
  }
}

void StreamTier::take_freed(std::vector<DeviceBlock*>& records) {
  StreamBlock* block = freed_later_.exchange(nullptr);
  while (block != nullptr) {
    StreamBlock* const next = std::exchange(block->next_freed, nullptr);
    if (block->record != nullptr) {
      records.push_back(block);
    } else {
      free_block(*block);
    }
    block = next;
  }
}

// The last use may be of an op that is still open and is noted nowhere: so the fence is of now.
void StreamTier::free_block(DeviceBlock& freed) {
  StreamBlock& block = as_stream(freed);
  if (block.mapped && !pages_.end_opening(address_of(block))) let_go(block);
  if (!block.mapped) {
    freed_.add_vacant(address_of(block), block.pages);
    return;
  }
  block.uses.join({0, clock_.moment()});
  spoil(block);
  freed_.add({address_of(block), block.pages, uses(block)});
  let_go(block);
  block.intact = false;
}

// With a pattern, after all uses.
void StreamTier::spoil(StreamBlock& block) {
  if (poison_ == Poison::kNo) return;
  block.intact = false;
  try {
    clock_.order_after(own_.handle, uses(block));
    expect_done(driver_, driver_.fill(address_of(block), kPoison, block.pages, own_.handle),
                "overwriting memory");
    block.uses.join(clock_.fence(own_.slot));
  } catch (const DeviceFailure&) {
    // Nobody may read it any more, overwritten or not; the next call that needs the device says it.
  }
}

bool StreamTier::unseal(DeviceBlock& block) {
  block.sealed = false;
  return true;
}

void StreamTier::evict(DeviceBlock& evicted) {
  StreamBlock& block = as_stream(evicted);
  if (pages_.end_opening(address_of(block))) {
    spoil(block);
    pages_.close(address_of(block), uses(block));
  }
  let_go(block);
}

Allocation StreamTier::restore(DeviceBlock& block, Overbooking overbooking) {
  const Allocation made = restore_apart(block, overbooking);
  if (made.pointer != nullptr) block.accessible = true;
  return made;
}

Allocation StreamTier::restore_pages(StreamBlock& block, Overbooking overbooking, Haste haste) {
  const Allocation here{.pointer = block.address, .block = &block, .short_by = {}};
  if (block.mapped) return here;  // asked for again, while what has to end first goes on
  trim_cache();
  if (!pages_.recall(address_of(block))) {
    if (!open(block, overbooking, haste)) return lacking(block.pages);
    block.intact = false;
  }
  hold(block);
  return here;
}

DeviceBlock* StreamTier::spare(const DeviceBlock& like) {
  const auto address = vacant_addresses(as_stream(like).pages);
  if (!address) return nullptr;
  StreamBlock& block = make_block(*address, as_stream(like).pages);
  block.bytes = like.bytes;
  block.intact = false;
  return &block;
}

// Last freed first, as a stream takes its own: of the work that asks, most is of one stream.
DeviceBlock* StreamTier::take_freed_like(const DeviceBlock& like) {
  const auto freed = freed_.take_last(as_stream(like).pages);
  if (!freed) return nullptr;
  StreamBlock& block = make_block(freed->address, freed->pages);
  hold(block);
  block.bytes = like.bytes;
  block.accessible = true;
  block.intact = false;
  block.uses.arrives(freed->fence);
  return &block;
}

bool StreamTier::land(DeviceBlock& block) {
  block.accessible = true;
  return true;
}

// ---- What is told -------------------------------------------------------------------------------

Bytes StreamTier::resident(const DeviceBlock& block) const {
  return as_stream(block).mapped ? as_stream(block).pages : Bytes{};
}

Bytes StreamTier::needed(const DeviceBlock& block) const { return as_stream(block).pages; }

Bytes StreamTier::rounding(const DeviceBlock& block) const {
  return as_stream(block).mapped ? as_stream(block).pages - Bytes{block.bytes} : Bytes{};
}

Bytes StreamTier::coming() const { return pages_.leaving() + pages_.surplus(); }

// Those of the freed blocks that have pages and that no work uses, first to be freed first.
std::vector<FreedBlock> StreamTier::idle_blocks() {
  std::vector<Fence> fences;
  for (const FreedBlock& block : freed_.blocks()) fences.push_back(block.fence);
  const std::vector<bool> passed = clock_.passed(fences);
  std::vector<FreedBlock> idle;
  for (std::size_t i = 0; i < passed.size(); ++i) {
    if (passed[i]) idle.push_back(freed_.blocks()[i]);
  }
  return idle;
}

Bytes StreamTier::unavailable() {
  Bytes idle{};
  for (const FreedBlock& block : idle_blocks()) idle += block.pages;
  return coming() + prepared_.bytes() + freed_.bytes() - idle;
}

void StreamTier::release_idle() {
  allowance_.forget();
  while (give_up_oldest() != Bytes{} || give_up_prepared() != Bytes{}) {
  }
  while (pages_.settle_one()) {
  }
  pages_.trim(pages_.ready());
  pages_.settle_exchanges();
}

void StreamTier::reset_peak() {
  budget_.reset_peak();
  peak_live_ = live_;
}

std::string StreamTier::description() const {
  return fmt::format("{}, {} a page", driver_.facts().name,
                     to_string(Bytes{driver_.facts().granule}));
}

MemoryRefusal StreamTier::refusal() const {
  return {.by = "the device",
          .reason = fmt::format(
              "The device {} has no memory or no addresses left: other processes may hold it.",
              driver_.facts().name),
          .remedy = "End other processes that use the device."};
}

}  // namespace spillway::runtime
