// SPDX-License-Identifier: Apache-2.0
// The device tier over a card's memory: a block is a range of addresses for life, with one handle
// of pages (VmmPages), and a fence of all that used it.
//
//     allocate    a freed block of the size: its stream's own at once, another's after its fence;
//                 else one that was made ready, or addresses that have pages put behind them
//     expect      makes blocks ready that the next ops will allocate, with room that is free or of
//                 freed blocks: a thread puts pages behind them (PreparedBlocks)
//     evict       the pages leave when the host has seen the fence; until then the bytes can be had
//                 again as they are
//     restore     those pages, or others, which are idle since the host saw that
//     ... ahead   a thread puts them behind the block (PageOpener); copies into it wait for that
//     free        the block is anyone's of its size; its pages stay as CacheAllowance says
//
// Pages whose fence has not passed are `coming`: nobody's, and not yet to be had. Every allocation
// is a block of its own in whole granules; small ones are another allocator's affair.
//
// No function waits for the device but `release_idle` and `read_back`. Errors: DeviceFailure. What
// is not any thread's by the interfaces is guarded by the owner's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/block_uses.hpp"
#include "spillway/runtime/device/cache_allowance.hpp"
#include "spillway/runtime/device/freed_blocks.hpp"
#include "spillway/runtime/device/prepared_blocks.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/device/stream_uses.hpp"
#include "spillway/runtime/device/vmm_pages.hpp"
#include "spillway/runtime/memory/device_tier.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {

class StreamTier final : public DeviceTier, public StreamUses {
 public:
  /// `addresses`: for all blocks together, for life. Throws UserError where the device cannot map.
  StreamTier(StreamClock& clock, Bytes limit, Bytes addresses,
             OpensAhead ahead = OpensAhead::kAtOnce);
  ~StreamTier() override;
  StreamTier(const StreamTier&) = delete;
  StreamTier& operator=(const StreamTier&) = delete;

  // StreamUses.
  NumberedStream number(DeviceStream stream) override { return {stream, clock_.slot_of(stream)}; }
  Allocation allocate(Bytes bytes, Overbooking overbooking, const NumberedStream& stream) override;
  void begin_use(DeviceBlock& block, const NumberedStream& stream) override {
    as_stream(block).uses.begin(clock_, stream);
  }
  void end_use(DeviceBlock& block, const NumberedStream& stream) noexcept override {
    as_stream(block).uses.join(clock_.fence(stream.slot));
  }
  void order_after_uses(DeviceBlock& block, const NumberedStream& stream) override {
    clock_.order_after(stream.handle, uses(block));
  }
  void made(DeviceBlock& block, const NumberedStream& stream) override {
    as_stream(block).uses.arrives(clock_.fence(stream.slot));
  }
  [[nodiscard]] Bytes bytes_opening() const override { return pages_.bytes_opening(); }
  void allow_peer(int ordinal) override { pages_.allow_peer(ordinal); }
  void begin_captures() override { clock_.begin_captures(); }
  void end_captures() noexcept override { clock_.end_captures(); }
  void begin_use_anywhere(DeviceBlock& block) override {
    as_stream(block).uses.begin_anywhere(clock_);
  }
  void launched(const NumberedStream& stream, Bytes allocated) noexcept override;
  void begin_unknown_uses(const NumberedStream& stream) override {
    clock_.order_after(stream.handle, clock_.fence_of_all());
  }
  void end_unknown_uses(const NumberedStream& stream) noexcept override {
    unknown_uses_.join(clock_.fence(stream.slot));
  }
  void wait_for_all() override;
  void read_back(DeviceBlock& block, Bytes bytes, std::byte* to) override;

  // For copies of a block. Any thread, while one is under way.
  /// A copy of the block, either way, begins after this has passed.
  [[nodiscard]] Fence uses(const DeviceBlock& block) const {
    Fence all = as_stream(block).uses.fence(clock_);
    all.join(unknown_uses_.fence(clock_));
    return all;
  }
  /// What a copy into the block has to wait for on the host, or null. Under the owner's lock.
  [[nodiscard]] std::shared_ptr<PageOpening> opening(const DeviceBlock& block) const {
    return pages_.opening(address_of(block));
  }
  /// Ends that wait now. False: the block has no pages. Any thread.
  bool finish(PageOpening& opening) { return pages_.finish(opening); }
  /// A copy into the block is in its stream: who uses the block starts after the fence.
  void arrives(DeviceBlock& block, const Fence& fence) { as_stream(block).uses.arrives(fence); }

  // DeviceTier.
  /// For work of the default stream.
  Allocation allocate(Bytes bytes, Overbooking overbooking) override {
    return allocate(bytes, overbooking, number(DeviceStream{0}));
  }
  void expect(std::span<const Bytes> blocks) override;
  void free_later(std::byte* pointer) noexcept override;
  void take_freed(std::vector<DeviceBlock*>& records) override;
  void free_block(DeviceBlock& block) override;

  void seal(DeviceBlock& block) override { block.sealed = true; }
  [[nodiscard]] bool unseal(DeviceBlock& block) override;
  void evict(DeviceBlock& block) override;
  Allocation restore(DeviceBlock& block, Overbooking overbooking) override;
  Allocation restore_apart(DeviceBlock& block, Overbooking overbooking) override {
    return restore_pages(as_stream(block), overbooking, Haste::kNow);
  }
  Allocation restore_ahead(DeviceBlock& block, Overbooking overbooking) override {
    return restore_pages(as_stream(block), overbooking, Haste::kAhead);
  }
  [[nodiscard]] bool land(DeviceBlock& block) override;
  [[nodiscard]] DeviceBlock* spare(const DeviceBlock& like) override;
  [[nodiscard]] DeviceBlock* take_freed_like(const DeviceBlock& like) override;
  void abandon_landing(DeviceBlock& /*block*/) override {}

  [[nodiscard]] CopyRange copy_range(const DeviceBlock& block) const override {
    return {.begin = block.address, .bytes = {block.bytes}};
  }
  [[nodiscard]] const std::byte* bytes_in_copy(const DeviceBlock& block) const override {
    return block.address;
  }
  [[nodiscard]] Bytes resident(const DeviceBlock& block) const override;
  [[nodiscard]] Bytes held(const DeviceBlock& block) const override { return resident(block); }
  [[nodiscard]] Bytes needed(const DeviceBlock& block) const override;
  [[nodiscard]] Bytes rounding(const DeviceBlock& block) const override;
  [[nodiscard]] Bytes small_rounding() const override { return {}; }
  [[nodiscard]] Bytes coming() const override;
  [[nodiscard]] Bytes unavailable() override;
  bool settle() override { return pages_.settle() != Bytes{}; }
  [[nodiscard]] StreamUses* stream_uses() override { return this; }

  /// A child has no use of the card, and no thread of this one.
  void before_fork() override { pages_.stop_thread(); }
  void set_limit(Bytes limit) override { budget_.set_limit(limit); }
  Bytes obey_limit() override;
  void set_small_objects(SmallObjects /*small*/) override {}
  void set_poison(Poison poison) override { poison_ = poison; }
  void set_cache_slack(double share) override { allowance_.set_slack(share); }
  void release_idle() override;

  [[nodiscard]] const MemoryBudget& budget() const override { return budget_; }
  [[nodiscard]] Bytes live() const override { return live_; }
  [[nodiscard]] Bytes peak_live() const override { return peak_live_; }
  void reset_peak() override;
  [[nodiscard]] DeviceBlock* find(const void* address) const override;

  [[nodiscard]] std::int64_t mapping_ns() const override { return pages_.mapping_ns(); }
  [[nodiscard]] std::string description() const override;
  [[nodiscard]] MemoryRefusal refusal() const override;
  [[nodiscard]] const VmmPages& pages() const { return pages_; }
  /// For OpensAhead::kOnCall: opens the block that waits for it first. False if there is none.
  bool open_next() { return pages_.open_next(); }

 private:
  enum class Haste : bool { kNow, kAhead };
  struct StreamBlock : DeviceBlock {
    Bytes pages{};
    bool mapped = false;  // its pages are its user's
    BlockUses uses;       // by ops and by copies into it
    StreamBlock* next_freed = nullptr;
  };
  static StreamBlock& as_stream(DeviceBlock& block) { return static_cast<StreamBlock&>(block); }
  static const StreamBlock& as_stream(const DeviceBlock& block) {
    return static_cast<const StreamBlock&>(block);
  }
  static DeviceAddress address_of(const DeviceBlock& block) {
    return device_address(block.address);
  }

  [[nodiscard]] StreamBlock* block_at(std::uint64_t address) const;
  StreamBlock& make_block(DeviceAddress address, Bytes pages);
  [[nodiscard]] std::optional<DeviceAddress> vacant_addresses(Bytes pages);
  bool prepare(Bytes pages);
  std::optional<FreedBlock> take_prepared(Bytes pages);
  Bytes give_up_prepared();
  Allocation hand_out(StreamBlock& block, Bytes bytes, const Fence& before,
                      const NumberedStream& stream);
  Allocation restore_pages(StreamBlock& block, Overbooking overbooking, Haste haste);
  bool open(StreamBlock& block, Overbooking overbooking, Haste haste);
  bool open_ahead(StreamBlock& block, Overbooking overbooking);
  bool take_pages(StreamBlock& block, Overbooking overbooking, Haste haste);
  [[nodiscard]] Allocation lacking(Bytes pages) const;
  void hold(StreamBlock& block);
  void let_go(StreamBlock& block);
  void spoil(StreamBlock& block);
  /// Of the freed blocks, the one that was freed first gives up its pages. Returns their bytes;
  /// zero: there is none.
  Bytes give_up_oldest();
  /// Freed blocks give up their pages until so many bytes are leaving or ready, then prepared ones.
  /// Whether any are to be had at once.
  bool give_up_freed(Bytes bytes);
  /// Likewise freed blocks that no work uses, if they suffice.
  bool give_up_idle(Bytes bytes);
  void give_up(const FreedBlock& block);
  std::vector<FreedBlock> idle_blocks();
  void trim_cache();

  StreamClock& clock_;
  DeviceDriver& driver_;
  MemoryBudget budget_;
  VmmPages pages_;
  FreedBlocks freed_;
  PreparedBlocks prepared_;
  CacheAllowance allowance_;
  std::deque<StreamBlock> blocks_;  // addresses stay
  std::vector<std::atomic<StreamBlock*>> by_granule_;
  std::atomic<StreamBlock*> freed_later_{nullptr};
  BlockUses unknown_uses_;  // of any block
  NumberedStream own_;      // for what is done with a block that is nobody's
  Poison poison_ = Poison::kNo;
  Bytes live_{};
  Bytes peak_live_{};
};

}  // namespace spillway::runtime
