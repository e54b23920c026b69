// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/vmm_pages.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

constexpr const char* kLettingPeers = "letting another card reach its memory";

}  // namespace

VmmPages::VmmPages(StreamClock& clock, MemoryBudget& budget, Bytes addresses, OpensAhead ahead)
    : driver_(clock.driver()),
      clock_(clock),
      budget_(budget),
      granule_(driver_.facts().granule),
      addresses_(granule_ == 0 ? Bytes{} : round_up(addresses, granule_)),
      opener_(driver_, ahead) {
  if (granule_ == 0) {
    throw UserError(
        fmt::format("The device {} cannot map memory at addresses of the program's "
                    "choice (virtual memory management), which a budget of it needs. To "
                    "hold the CPU's memory: SPILLWAY_BUDGET=cpu:8GiB.",
                    driver_.facts().name));
  }
  const DeviceStatus status = driver_.reserve(addresses_, granule_, base_);
  if (!status.done()) {
    throw UserError(
        fmt::format("The device {} has no {} of addresses: {}. A limit on address space "
                    "(ulimit -v) may be too low.",
                    driver_.facts().name, to_string(addresses_), driver_.text(status)));
  }
}

VmmPages::~VmmPages() {
  opener_.discard();
  for (auto at = mapped_.begin(); at != mapped_.end();) {
    const DeviceAddress block = (at++)->first;  // first: the block may have no pages
    static_cast<void>(end_opening(block));
  }
  settle_exchanges();
  // A lost device has taken everything with it: there is nothing to give back, and nobody to tell.
  static_cast<void>(driver_.synchronize());
  for (const Leaving& left : leaving_) {
    if (left.closing == nullptr || left.closing->take_back()) {
      mapped_[left.block] = left.pages;
    } else {
      add_ready(left.pages);
    }
  }
  for (const auto& [block, pages] : mapped_) {
    static_cast<void>(driver_.unmap(block, pages.bytes));
    static_cast<void>(driver_.release(pages.handle));
    budget_.give_back(pages.bytes);
  }
  for (const auto& [bytes, handles] : ready_) {
    for (const PagesHandle handle : handles) {
      static_cast<void>(driver_.release(handle));
      budget_.give_back({bytes});
    }
  }
  static_cast<void>(driver_.free_reservation(base_, addresses_));
}

std::optional<DeviceAddress> VmmPages::carve(Bytes bytes) {
  const Bytes whole = pages_for(bytes);
  if (carved_ + whole > addresses_) return std::nullopt;
  const DeviceAddress block = base_ + carved_;
  carved_ += whole;
  return block;
}

std::optional<VmmPages::Pages> VmmPages::take_ready(Bytes bytes) {
  const auto found = ready_.find(bytes.count);
  if (found == ready_.end()) return std::nullopt;
  Pages pages{found->second.back(), bytes};
  found->second.pop_back();
  if (found->second.empty()) ready_.erase(found);
  ready_bytes_ -= bytes;
  return pages;
}

void VmmPages::add_ready(const Pages& pages) {
  ready_[pages.bytes.count].push_back(pages.handle);
  ready_bytes_ += pages.bytes;
}

void VmmPages::give_back(const Pages& pages) {
  const MappingTime::Scope held_up(mapping_time_);
  expect_done(driver_, driver_.release(pages.handle), "giving memory back");
  budget_.give_back(pages.bytes);
}

Bytes VmmPages::trim(Bytes bytes) {
  Bytes returned{};
  while (returned < bytes && !ready_.empty()) {
    // The largest first: the fewest calls.
    const Bytes size{ready_.rbegin()->first};
    give_back(*take_ready(size));
    returned += size;
  }
  return returned;
}

bool VmmPages::pay(Bytes bytes, Overbooking overbooking) {
  settle_exchanges();
  auto promise = budget_.try_reserve(bytes, Overbooking::kRefuse);
  if (!promise) {
    const Bytes missing = missing_for(bytes);
    if (overbooking == Overbooking::kRefuse && ready_bytes_ < missing) return false;
    trim(missing);
    promise = budget_.try_reserve(bytes, overbooking);
  }
  if (promise) promise->spend(bytes);
  return promise.has_value();
}

// Null: there is no ready handle, and the budget has no room for another.
std::shared_ptr<PageOpening> VmmPages::pay_for(DeviceAddress block, Bytes bytes,
                                               Overbooking overbooking) {
  SPILLWAY_CHECK(!mapped_.contains(block), "a block that has pages is opened");
  const auto ready = take_ready(bytes);
  if (!ready && !pay(bytes, overbooking)) return nullptr;
  ++(ready ? recycled_handles_ : created_handles_);
  return std::make_shared<PageOpening>(driver_, block, bytes,
                                       ready ? std::optional(ready->handle) : std::nullopt);
}

// With ready handles of other sizes, which a thread gives back first. Null: they do not suffice, or
// none is needed.
std::shared_ptr<PageOpening> VmmPages::pay_by_exchange(DeviceAddress block, Bytes bytes) {
  settle_exchanges();
  const Bytes missing = missing_for(bytes);
  if (missing.count == 0 || ready_bytes_ < missing || ready_.contains(bytes.count)) return nullptr;
  Bytes given{};
  std::vector<PageExchanges::Given> others;
  std::vector<PagesHandle> handles;
  while (given < missing) {
    // The one that leaves the least over, else the fewest.
    const auto least = ready_.lower_bound((missing - given).count);
    const Pages other =
        *take_ready({least != ready_.end() ? least->first : ready_.rbegin()->first});
    given += other.bytes;
    others.push_back({other.handle, other.bytes});
    handles.push_back(other.handle);
  }
  const bool paid = pay(saturating_sub(bytes, given), Overbooking::kRefuse);
  SPILLWAY_CHECK(paid, "an exchange is paid for");
  ++created_handles_;
  auto opening =
      std::make_shared<PageOpening>(driver_, block, bytes, std::nullopt, std::move(handles));
  exchanges_.add({opening, std::move(others), saturating_sub(given, bytes)});
  return opening;
}

void VmmPages::note_mapped(DeviceAddress block, Pages pages) {
  mapped_bytes_ += pages.bytes;
  mapped_[block] = std::move(pages);
}

bool VmmPages::open(DeviceAddress block, Bytes bytes, Overbooking overbooking) {
  const Bytes whole = pages_for(bytes);
  auto opening = pay_for(block, whole, overbooking);
  return opening != nullptr && open_now(block, whole, std::move(opening));
}

bool VmmPages::open_now(DeviceAddress block, Bytes bytes, std::shared_ptr<PageOpening> opening) {
  const auto lacks_memory = [&] {
    return opening->status().outcome == DeviceOutcome::kOutOfMemory && !opening->handle();
  };
  // Others may hold the card's memory, which tables of pages take, too; what nobody needs of ours
  // makes room.
  if (!finish(*opening) && lacks_memory() && trim(bytes) != Bytes{}) {
    opening = std::make_shared<PageOpening>(driver_, block, bytes, std::nullopt);
  }
  if (finish(*opening)) {
    note_mapped(block, {*opening->handle(), bytes});
    opens_ahead_ = true;
    return true;
  }
  take_account_of_failed(*opening, bytes);
  if (!lacks_memory()) expect_done(driver_, opening->status(), opening->doing());
  return false;
}

bool VmmPages::open_ahead(DeviceAddress block, Bytes bytes, Overbooking overbooking) {
  if (!opens_ahead_) return open(block, bytes, overbooking);
  const Bytes whole = pages_for(bytes);
  auto opening = opener_.has_thread() ? pay_by_exchange(block, whole) : nullptr;
  if (opening == nullptr) opening = pay_for(block, whole, overbooking);
  if (opening == nullptr) return false;
  if (!opener_.add(opening)) return open_now(block, whole, std::move(opening));
  note_mapped(block, {{}, whole, std::move(opening)});
  return true;
}

Bytes VmmPages::bytes_opening() const {
  Bytes sum = exchanges_.surplus();
  for (const auto& [block, pages] : mapped_) {
    if (pages.opening != nullptr && !pages.opening->over()) sum += pages.bytes;
  }
  return sum;
}

std::shared_ptr<PageOpening> VmmPages::opening(DeviceAddress block) const {
  const auto found = mapped_.find(block);
  return found == mapped_.end() ? nullptr : found->second.opening;
}

// Memory that could not be given back the card still holds.
void VmmPages::take_account_of_failed(const PageOpening& opening, Bytes bytes) {
  if (!opening.begun()) {
    take_account_of_not_begun(opening, bytes);
  } else if (!opening.handle()) {
    budget_.give_back(bytes);
  }
}

void VmmPages::take_account_of_not_begun(const PageOpening& opening, Bytes bytes) {
  if (opening.handle()) return add_ready({*opening.handle(), bytes});
  Bytes paid = bytes;
  if (const auto exchange = exchanges_.take(opening)) {
    paid += exchange->surplus;
    for (const PageExchanges::Given& other : exchange->given) {
      add_ready({other.handle, other.bytes});
      paid -= other.bytes;
    }
  }
  budget_.give_back(paid);
}

// Waits for the thread, where that has begun.
bool VmmPages::take_back(PageJob& job) {
  const MappingTime::Scope held_up(mapping_time_);
  return job.take_back();
}

bool VmmPages::end_opening(DeviceAddress block) {
  const auto found = mapped_.find(block);
  SPILLWAY_CHECK(found != mapped_.end(), "a block without pages is asked for its opening");
  const auto opening = std::exchange(found->second.opening, nullptr);
  if (opening == nullptr) return true;
  take_back(*opening);
  if (opening->done()) {
    found->second.handle = *opening->handle();
    return true;
  }
  const Bytes bytes = found->second.bytes;
  mapped_.erase(found);
  mapped_bytes_ -= bytes;
  take_account_of_failed(*opening, bytes);
  opens_ahead_ = opens_ahead_ && opening->status().done();
  return false;
}

// Blocks are closed where nobody may throw, as when a device that is lost ends its copies: who
// settles says it.
bool VmmPages::has_passed(const Fence& fence) noexcept {
  try {
    return clock_.passed(fence);
  } catch (const DeviceFailure&) {
    return false;
  }
}

void VmmPages::close(DeviceAddress block, const Fence& fence) {
  const auto found = mapped_.find(block);
  SPILLWAY_CHECK(found != mapped_.end() && found->second.opening == nullptr,
                 "a block without pages is closed");
  mapped_bytes_ -= found->second.bytes;
  leaving_bytes_ += found->second.bytes;
  leaving_.push_back({block, found->second, fence});
  mapped_.erase(found);
  if (opener_.has_thread() && has_passed(fence)) static_cast<void>(hand_over(leaving_.back()));
}

// To the thread, if there is one. Its fence has passed.
bool VmmPages::hand_over(Leaving& leaving) {
  if (!opener_.has_thread()) return false;
  auto closing = std::make_shared<PageClosing>(driver_, leaving.block, leaving.pages.bytes);
  if (!opener_.add(closing)) return false;
  leaving.closing = std::move(closing);
  return true;
}

std::optional<Fence> VmmPages::recall(DeviceAddress block) {
  const auto found = std::ranges::find(leaving_, block, &Leaving::block);
  if (found == leaving_.end()) return std::nullopt;
  if (found->closing != nullptr && !take_back(*found->closing)) {
    make_ready(found);
    return std::nullopt;
  }
  leaving_bytes_ -= found->pages.bytes;
  mapped_bytes_ += found->pages.bytes;
  mapped_[block] = found->pages;
  const Fence fence = found->fence;
  leaving_.erase(found);
  return fence;
}

// Returns the one behind it. Out of the queue first, and of the sum: unmapping may throw, and
// nobody may wait for it again.
std::deque<VmmPages::Leaving>::iterator VmmPages::make_ready(std::deque<Leaving>::iterator at) {
  const Leaving leaving = std::move(*at);
  at = leaving_.erase(at);
  leaving_bytes_ -= leaving.pages.bytes;
  const MappingTime::Scope held_up(mapping_time_);
  if (leaving.closing != nullptr) leaving.closing->finish();
  const bool begun = leaving.closing != nullptr && leaving.closing->begun();
  expect_done(driver_,
              begun ? leaving.closing->status() : driver_.unmap(leaving.block, leaving.pages.bytes),
              "unmapping memory");
  add_ready(leaving.pages);
  return at;
}

// Tables of pages take memory of the card, which what nobody needs of ours makes room for.
void VmmPages::allow_access_again(DeviceAddress block, Bytes bytes) {
  const MappingTime::Scope held_up(mapping_time_);
  DeviceStatus status = driver_.allow_access(block, bytes);
  if (status.outcome == DeviceOutcome::kOutOfMemory && trim(bytes) != Bytes{}) {
    status = driver_.allow_access(block, bytes);
  }
  expect_done(driver_, status, kLettingPeers);
}

// A block that is being opened may have had its access before the peer was known.
void VmmPages::allow_peer(int ordinal) {
  expect_done(driver_, driver_.allow_peer(ordinal), kLettingPeers);
  try {
    for (const auto& [block, pages] : mapped_) {
      if (pages.opening == nullptr || finish(*pages.opening))
        allow_access_again(block, pages.bytes);
    }
    for (Leaving& leaving : leaving_) {  // what is recalled
      if (leaving.closing != nullptr && !take_back(*leaving.closing)) continue;
      leaving.closing = nullptr;
      allow_access_again(leaving.block, leaving.pages.bytes);
    }
  } catch (const DeviceFailure&) {
    driver_.forget_peer(ordinal);  // else no block could be opened any more
    throw;
  }
}

Bytes VmmPages::settle() {
  const Bytes before = ready_bytes_ + budget_.available();
  look();
  if (ready_bytes_ + budget_.available() == before) {
    const auto passed = [](const Leaving& one) { return one.closing != nullptr; };
    const auto first = std::ranges::find_if(leaving_, passed);
    if (first != leaving_.end()) make_ready(first);
  }
  return ready_bytes_ + budget_.available() - before;
}

void VmmPages::look() {
  settle_exchanges();
  if (leaving_.empty()) return;
  std::vector<Fence> fences;
  for (const Leaving& one : leaving_) {
    if (one.closing == nullptr) fences.push_back(one.fence);
  }
  const std::vector<bool> passed = clock_.passed(fences);
  auto next = passed.begin();
  for (auto at = leaving_.begin(); at != leaving_.end();) {
    const bool gone = at->closing != nullptr ? at->closing->over() : *next++ && !hand_over(*at);
    at = gone ? make_ready(at) : std::next(at);
  }
}

bool VmmPages::settle_one() {
  if (leaving_.empty()) return false;
  clock_.wait(leaving_.front().fence);
  make_ready(leaving_.begin());
  return true;
}

}  // namespace spillway::runtime
