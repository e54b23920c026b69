// SPDX-License-Identifier: Apache-2.0
// Pages of a card's memory, put behind addresses that are for life: one handle for each block.
//
//            open, open_ahead             close(fence)            the host has seen the fence
//     ready  ------------------> mapped ------------------> leaving ------------------> ready
//       ^  |trim                   ^__________ recall __________|
//     create, release: the driver
//
// One handle a block, since mapping costs per handle and not per byte. A handle that left its block
// is kept and taken by the next block of the same size: creating memory is dearer than mapping it.
// Unmapping waits for no work of the device, so pages stay mapped until the *host* has seen the
// fence of all that used them; until then `recall` has them back with their bytes.
//
// A block whose fence has passed is unmapped by PageOpener's thread, too, or by whoever needs its
// pages first.
//
// A block that is opened ahead of need has paid for its pages and is counted as mapped at once, but
// a thread (PageOpener) makes the calls, and gives ready handles of other sizes back where the
// budget has no room else (PageExchanges). Who uses the block asks `opening` before, and `finish`es
// that where it cannot wait. Closing a block ends its opening first: nothing that leaves, is ready
// or is recalled is still being opened.
//
// Held is what is mapped, leaving or ready, in whole granules: all of it is memory that the driver
// counts for this process, and is paid for with the budget before it is created. The recycler lets
// handles of other sizes go when the budget or the card has no room for a new one.
//
// Errors: memory that is not there is an answer; anything else that fails is a DeviceFailure. What
// fails ahead of need is told by the opening; until a block was opened again, all are opened at
// once then, so that room is made for it as for others.
// Not thread-safe: guarded by its owner's lock, which the thread never takes. It shares nothing
// with this but openings and the driver.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/mapping_time.hpp"
#include "spillway/runtime/device/page_closing.hpp"
#include "spillway/runtime/device/page_exchanges.hpp"
#include "spillway/runtime/device/page_opener.hpp"
#include "spillway/runtime/device/page_opening.hpp"
#include "spillway/runtime/device/stream_clock.hpp"
#include "spillway/runtime/memory/memory_budget.hpp"

namespace spillway::runtime {

class VmmPages {
 public:
  /// Reserves `addresses` of the device's. Throws UserError where the device cannot map memory or
  /// does not give that many.
  VmmPages(StreamClock& clock, MemoryBudget& budget, Bytes addresses,
           OpensAhead ahead = OpensAhead::kAtOnce);
  /// Waits for what is leaving or being opened, and gives everything back.
  ~VmmPages();
  VmmPages(const VmmPages&) = delete;
  VmmPages& operator=(const VmmPages&) = delete;

  [[nodiscard]] DeviceAddress base() const { return base_; }
  [[nodiscard]] Bytes addresses() const { return addresses_; }
  /// What a block of `bytes` holds.
  [[nodiscard]] Bytes pages_for(Bytes bytes) const { return round_up(bytes, granule_); }
  /// Addresses for a block of `bytes`, without pages. Nothing if they are used up.
  std::optional<DeviceAddress> carve(Bytes bytes);

  /// Pages for a block that has none; their content is undefined. False: the budget or the card has
  /// no room, and nothing has changed but that ready handles may be gone.
  [[nodiscard]] bool open(DeviceAddress block, Bytes bytes,
                          Overbooking overbooking = Overbooking::kRefuse);
  /// As `open`, but the calls may be made later, on another thread: `opening`.
  [[nodiscard]] bool open_ahead(DeviceAddress block, Bytes bytes, Overbooking overbooking);
  /// How far that has come; null where the block was opened at once.
  [[nodiscard]] std::shared_ptr<PageOpening> opening(DeviceAddress block) const;
  /// Makes the calls of an opening that its user cannot wait for. False: it failed. Any thread.
  bool finish(PageOpening& opening) {
    const MappingTime::Scope held_up(mapping_time_);
    return opening.finish();
  }
  /// Takes the opening of a block back if it has not begun, else waits for its end. False: the
  /// block has no pages, and has given back what it paid.
  [[nodiscard]] bool end_opening(DeviceAddress block);
  /// Where no thread opens: opens the block that waits for it first. False if there is none.
  bool open_next() { return opener_.open_next(); }
  /// Ends the thread that opens, until it is needed again. Nothing is being opened.
  void stop_thread() {
    const MappingTime::Scope held_up(mapping_time_);
    opener_.stop();
  }

  /// Nobody uses the block after the fence. Its opening has ended.
  void close(DeviceAddress block, const Fence& fence);
  /// The block is mapped as it was, if its pages have not left yet: tells the fence of those who
  /// used it before.
  std::optional<Fence> recall(DeviceAddress block);

  /// Work of another card of the process may reach every block from now on, where it is mapped.
  /// Where it may not, blocks that are opened later are this card's alone.
  void allow_peer(int ordinal);

  /// Gives the budget what openings gave back besides what they took.
  void settle_exchanges() { budget_.give_back(exchanges_.take_surplus()); }
  /// Looks for blocks whose fence has passed: a thread takes their pages; without one they are
  /// ready at once, as is what it has taken.
  void look();
  /// Looks, and where that made nothing ready takes the pages of the first of them. Returns how
  /// many bytes became ready, or the budget's: none if all wait for work.
  Bytes settle();
  /// Waits on the host for the pages that began to leave first. False if none are leaving.
  bool settle_one();
  /// Gives ready handles back to the driver, until `bytes` are returned or none is left.
  Bytes trim(Bytes bytes);

  [[nodiscard]] Bytes mapped() const { return mapped_bytes_; }
  [[nodiscard]] Bytes leaving() const { return leaving_bytes_; }
  [[nodiscard]] Bytes ready() const { return ready_bytes_; }
  /// Of what is paid for, at most what the driver does not count yet, as a thread is at it.
  [[nodiscard]] Bytes bytes_opening() const;
  /// That openings give back besides what they take: the budget's when they are done.
  [[nodiscard]] Bytes surplus() const { return exchanges_.surplus(); }
  /// Whether `open_ahead` leaves the calls to a thread: not since an opening failed.
  [[nodiscard]] bool opens_ahead() const { return opens_ahead_; }
  /// How long calls that map memory, or the thread that was at them, held up those who called any
  /// of this. Any thread.
  [[nodiscard]] std::int64_t mapping_ns() const { return mapping_time_.nanoseconds(); }
  /// That were created, or are to be.
  [[nodiscard]] std::uint64_t created_handles() const { return created_handles_; }
  [[nodiscard]] std::uint64_t recycled_handles() const { return recycled_handles_; }

 private:
  struct Pages {
    PagesHandle handle{};
    Bytes bytes{};
    std::shared_ptr<PageOpening> opening{};  // set: it knows the handle
  };
  struct Leaving {
    DeviceAddress block{};
    Pages pages;
    Fence fence;
    std::shared_ptr<PageClosing> closing{};  // set: the fence has passed
  };

  std::optional<Pages> take_ready(Bytes bytes);
  [[nodiscard]] bool pay(Bytes bytes, Overbooking overbooking);
  std::shared_ptr<PageOpening> pay_for(DeviceAddress block, Bytes bytes, Overbooking overbooking);
  std::shared_ptr<PageOpening> pay_by_exchange(DeviceAddress block, Bytes bytes);
  bool open_now(DeviceAddress block, Bytes bytes, std::shared_ptr<PageOpening> opening);
  bool take_back(PageJob& job);
  void allow_access_again(DeviceAddress block, Bytes bytes);
  void note_mapped(DeviceAddress block, Pages pages);
  void take_account_of_failed(const PageOpening& opening, Bytes bytes);
  void take_account_of_not_begun(const PageOpening& opening, Bytes bytes);
  /// By how much the budget would be exceeded.
  [[nodiscard]] Bytes missing_for(Bytes bytes) const {
    return saturating_sub(budget_.used() + bytes, budget_.limit());
  }
  void give_back(const Pages& pages);
  [[nodiscard]] bool has_passed(const Fence& fence) noexcept;
  void add_ready(const Pages& pages);
  std::deque<Leaving>::iterator make_ready(std::deque<Leaving>::iterator at);
  [[nodiscard]] bool hand_over(Leaving& leaving);

  DeviceDriver& driver_;
  StreamClock& clock_;
  MemoryBudget& budget_;
  const std::uint64_t granule_;
  DeviceAddress base_{};
  const Bytes addresses_;
  Bytes carved_{};
  std::map<DeviceAddress, Pages> mapped_;
  std::deque<Leaving> leaving_;                              // first to leave first
  std::map<std::uint64_t, std::vector<PagesHandle>> ready_;  // by size
  PageExchanges exchanges_;
  MappingTime mapping_time_;
  Bytes mapped_bytes_{};
  Bytes leaving_bytes_{};
  Bytes ready_bytes_{};
  std::uint64_t created_handles_ = 0;
  std::uint64_t recycled_handles_ = 0;
  bool opens_ahead_ = true;  // false: an opening failed, and none was well since
  PageOpener opener_;
};

}  // namespace spillway::runtime
