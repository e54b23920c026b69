// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/store/tiered_store.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::runtime {

namespace {

// The two spools have one budget, and ask each other what they take of it.
SpoolOptions beside(SpoolOptions options, std::function<Bytes()> other) {
  options.beside = std::move(other);
  return options;
}

std::uint64_t to_value(StoredId id) { return static_cast<std::uint64_t>(id); }

std::string describe(StoredId id) { return fmt::format("stored {}", to_value(id)); }

}  // namespace

TieredStore::TieredStore(TieredStoreOptions options, std::unique_ptr<Transfers> transfers)
    : options_(std::move(options)),
      spool_(beside(options_.spool, [this] { return mapped_.spool().capacity(); })),
      mapped_(beside(options_.spool, [this] { return spool_.capacity(); })),
      transfers_(std::move(transfers)) {
  host_.set_limit(options_.host_budget);
}

TieredStore::~TieredStore() {
  transfers_.reset();
  for (auto& [id, place] : places_) static_cast<void>(free_locked(place));
}

TieredStore::Place& TieredStore::place_locked(StoredId id) {
  const auto found = places_.find(to_value(id));
  SPILLWAY_CHECK(found != places_.end() && !found->second.dropped, describe(id));
  return found->second;
}

const TieredStore::Place& TieredStore::place_locked(StoredId id) const {
  const auto found = places_.find(to_value(id));
  SPILLWAY_CHECK(found != places_.end() && !found->second.dropped, describe(id));
  return found->second;
}

std::optional<Extent> TieredStore::extent_for_locked(Bytes bytes, Spool& spool) {
  if (in_child_) {  // its parent counts the extents of the same file
    refuse_locked("a forked process gets nothing of its parent's spool");
    return std::nullopt;
  }
  std::optional<Extent> extent = spool.allocate(bytes);
  // A child may have mapped what its parent has dropped since.
  Spool& other = &spool == &spool_ ? mapped_.spool() : spool_;
  if (!extent && !forked_ && other.trim()) extent = spool.allocate(bytes);
  if (!extent) {
    refuse_locked(
        fmt::format("host memory has no room: need {}, have {} of {}; {}", to_string(bytes),
                    to_string(saturating_sub(host_.budget().limit(), host_.budget().used())),
                    to_string(host_.budget().limit()), spool.full_reason()));
  }
  return extent;
}

void TieredStore::refuse_locked(std::string reason) {
  ++statistics_.refused;
  full_reason_ = std::move(reason);
}

StoredId TieredStore::add_locked(const Place& place) {
  places_.emplace(++last_id_, place);
  return StoredId{last_id_};
}

std::optional<StoredId> TieredStore::reserve(Bytes bytes, Tier fastest, const char* made_by) {
  SPILLWAY_CHECK(bytes.count != 0 && fastest != Tier::kDevice, to_string(bytes));
  const std::lock_guard lock(mutex_);
  Place place{.bytes = bytes, .made_by = made_by};
  if (fastest == Tier::kHost) place.host = host_.allocate(bytes);
  if (place.host == nullptr) {
    const std::optional<Extent> extent = extent_for_locked(bytes, spool_);
    if (!extent) return std::nullopt;
    place.disk = *extent;
  }
  return add_locked(place);
}

std::string TieredStore::full_reason() const {
  const std::lock_guard lock(mutex_);
  return full_reason_;
}

void TieredStore::submit(StoredId id, Direction direction, std::byte* memory, const Place& begun,
                         TransferDone done) {
  const TransferId transfer = transfers_->submit(Transfer{.direction = direction,
                                                          .memory = memory,
                                                          .extent = begun.disk,
                                                          .descriptor = spool_.descriptor(),
                                                          .length = begun.bytes.count},
                                                 std::move(done));
  const std::lock_guard lock(mutex_);
  // It may have ended, and the place with it.
  const auto found = places_.find(to_value(id));
  if (found != places_.end()) found->second.transfer = std::max(found->second.transfer, transfer);
}

TieredStore::Place TieredStore::begin_copy_locked(Place& place) {
  ++place.in_flight;
  return place;
}

void TieredStore::store(StoredId id, const std::byte* from, StoreDone done) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    Place& empty = place_locked(id);
    SPILLWAY_CHECK(empty.state == State::kEmpty, describe(id));
    empty.state = State::kStoring;
    place = begin_copy_locked(empty);
  }
  if (options_.verify) place.checksum = XXH3_64bits(from, place.bytes.count);
  if (place.host != nullptr) {
    std::memcpy(place.host, from, place.bytes.count);
    end_store(id, place, 0);
    done(0);
    return;
  }
  try {
    // A transfer out only reads.
    submit(id, Direction::kOut, const_cast<std::byte*>(from), place,
           [this, id, place, done = std::move(done)](const TransferResult& result) {
             end_store(id, place, result.error);
             done(result.error);
           });
  } catch (...) {
    end_store(id, place, EAGAIN);
    throw;
  }
}

void TieredStore::count_moved_locked(Bytes& counter, const Place& place) {
  counter += place.bytes;
  tally_.add(place.made_by, place.bytes);
}

void TieredStore::end_store(StoredId id, const Place& begun, int error) {
  HostPages freed;  // after the lock, here and below
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(to_value(id));
  place.state = error == 0 ? State::kStored : State::kEmpty;
  place.checksum = begun.checksum;
  if (error != 0) {
    ++statistics_.failed;
  } else {
    count_moved_locked(
        begun.host != nullptr ? statistics_.stored_on_host : statistics_.stored_on_disk, begun);
  }
  freed = end_copy_locked(id, place);
}

void TieredStore::load(StoredId id, std::byte* to, StoreDone done) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    Place& stored = place_locked(id);
    SPILLWAY_CHECK(stored.state == State::kStored, describe(id));
    place = begin_copy_locked(stored);
  }
  // A tensor being demoted lies on the host until no copy is in flight.
  if (place.host != nullptr) {
    std::memcpy(to, place.host, place.bytes.count);
    done(end_load(id, place, to, 0));
    return;
  }
  try {
    submit(id, Direction::kIn, to, place,
           [this, id, place, to, done = std::move(done)](const TransferResult& result) {
             done(end_load(id, place, to, result.error));
           });
  } catch (...) {
    end_load(id, place, to, EAGAIN);
    throw;
  }
}

int TieredStore::end_load(StoredId id, const Place& begun, const std::byte* to, int error) {
  if (error == 0 && options_.verify && XXH3_64bits(to, begun.bytes.count) != begun.checksum) {
    error = EBADMSG;
  }
  HostPages freed;
  const std::lock_guard lock(mutex_);
  if (error != 0) {
    ++statistics_.failed;
  } else {
    count_moved_locked(
        begun.host != nullptr ? statistics_.loaded_from_host : statistics_.loaded_from_disk, begun);
  }
  freed = end_copy_locked(id, places_.at(to_value(id)));
  return error;
}

bool TieredStore::cancel(StoredId id) {
  TransferId transfer = 0;
  {
    const std::lock_guard lock(mutex_);
    const Place& place = place_locked(id);
    if (place.state != State::kStoring || place.transfer == 0) return false;
    transfer = place.transfer;
  }
  if (!transfers_->cancel(transfer)) return false;
  HostPages freed;
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(to_value(id));
  place.state = State::kEmpty;
  ++statistics_.cancelled;
  freed = end_copy_locked(id, place);
  return true;
}

void TieredStore::hurry(StoredId id) {
  TransferId transfer = 0;
  {
    const std::lock_guard lock(mutex_);
    transfer = place_locked(id).transfer;
  }
  if (transfer != 0) transfers_->hurry(transfer);
}

bool TieredStore::demote(StoredId id, StoreDone done) {
  Place place;
  {
    const std::lock_guard lock(mutex_);
    Place& stored = place_locked(id);
    SPILLWAY_CHECK(stored.state == State::kStored && !stored.demoting, describe(id));
    if (stored.host == nullptr) return false;
    const std::optional<Extent> extent = spool_.allocate(stored.bytes);
    if (!extent) return false;
    stored.disk = *extent;
    stored.demoting = true;
    place = begin_copy_locked(stored);
  }
  try {
    submit(id, Direction::kOut, place.host, place,
           [this, id, done = std::move(done)](const TransferResult& result) {
             end_demotion(id, result.error);
             done(result.error);
           });
  } catch (...) {
    end_demotion(id, EAGAIN);
    throw;
  }
  return true;
}

void TieredStore::end_demotion(StoredId id, int error) {
  HostPages freed;
  const std::lock_guard lock(mutex_);
  Place& place = places_.at(to_value(id));
  place.demoting = false;
  if (error != 0) {
    ++statistics_.failed;
    spool_.free(std::exchange(place.disk, Extent{}));
  } else {
    count_moved_locked(statistics_.stored_on_disk, place);
  }
  freed = end_copy_locked(id, place);
}

// A demoted tensor keeps its host memory until no load reads it any more.
HostPages TieredStore::end_copy_locked(StoredId id, Place& place) {
  if (--place.in_flight != 0) return {};
  if (place.dropped) {
    HostPages freed = free_locked(place);
    places_.erase(to_value(id));
    return freed;
  }
  const bool demoted = place.host != nullptr && place.disk.bytes != 0;
  return demoted ? free_host_locked(place) : nullptr;
}

HostPages TieredStore::free_host_locked(Place& place) {
  if (place.host == nullptr) return nullptr;
  return host_.give_back(std::exchange(place.host, nullptr), place.bytes);
}

HostPages TieredStore::free_locked(Place& place) {
  if (place.disk.bytes != 0) spool_.free(std::exchange(place.disk, Extent{}));
  if (place.mapped.data != nullptr) mapped_.unmap(std::exchange(place.mapped, MappedExtent{}));
  return free_host_locked(place);
}

void TieredStore::drop(StoredId id) {
  HostPages freed;
  const std::lock_guard lock(mutex_);
  Place& place = place_locked(id);
  if (place.in_flight != 0) {
    place.dropped = true;
    return;
  }
  freed = free_locked(place);
  places_.erase(to_value(id));
}

std::optional<TieredStore::Mapped> TieredStore::map(Bytes bytes, const char* made_by) {
  SPILLWAY_CHECK(bytes.count != 0, to_string(bytes));
  const std::lock_guard lock(mutex_);
  Place place{
      .bytes = bytes, .state = State::kMapped, .host = host_.allocate(bytes), .made_by = made_by};
  if (place.host == nullptr) {
    spool_.ensure_open();  // what is wrong with the directory is told by this one
    const std::optional<Extent> extent = extent_for_locked(bytes, mapped_.spool());
    if (!extent) return std::nullopt;
    std::string reason;
    place.mapped = mapped_.map(*extent, reason);
    if (place.mapped.data == nullptr) {
      mapped_.spool().free(*extent);
      refuse_locked(std::move(reason));
      return std::nullopt;
    }
  }
  std::byte* const data = place.host != nullptr ? place.host : place.mapped.data;
  return Mapped{.id = add_locked(place), .data = data};
}

TieredStore::Place TieredStore::mapped_place(StoredId id) {
  const std::lock_guard lock(mutex_);
  const Place& place = place_locked(id);
  SPILLWAY_CHECK(place.state == State::kMapped, describe(id));
  return place;
}

int TieredStore::end_move(Bytes StoreStatistics::*counter, const Place& place, int error) {
  const std::lock_guard lock(mutex_);
  error == 0 ? count_moved_locked(statistics_.*counter, place) : void(++statistics_.failed);
  return error;
}

int TieredStore::put_aside(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped.data == nullptr) return 0;
  return end_move(&StoreStatistics::stored_on_disk, place, mapped_.put_aside(place.mapped));
}

int TieredStore::bring(StoredId id, Access access) {
  const Place place = mapped_place(id);
  if (place.mapped.data == nullptr) return 0;
  return end_move(&StoreStatistics::loaded_from_disk, place, mapped_.bring(place.mapped, access));
}

void TieredStore::begin_writing(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped.data != nullptr) mapped_.begin_writing(place.mapped);
}

void TieredStore::give_back(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped.data != nullptr) mapped_.give_back(place.mapped);
}

void TieredStore::write(StoredId id, const std::byte* from) {
  const Place place = mapped_place(id);
  if (place.mapped.data == nullptr) {
    std::memcpy(place.host, from, place.bytes.count);
  } else {
    mapped_.write(place.mapped, from, place.bytes);
  }
}

int TieredStore::write_aside(StoredId id, const std::byte* from) {
  const Place place = mapped_place(id);
  if (place.mapped.data == nullptr) {
    std::memcpy(place.host, from, place.bytes.count);
    return 0;
  }
  return end_move(&StoreStatistics::stored_on_disk, place,
                  mapped_.write_aside(place.mapped, from, place.bytes));
}

void TieredStore::before_fork() {
  transfers_->before_fork();
  mutex_.lock();
}

void TieredStore::after_fork(bool in_child) {
  forked_ = true;
  if (in_child && !in_child_) {  // a child's own child has its pages
    in_child_ = true;
    mapped_.after_fork_in_child();
    for (const auto& [id, place] : places_) {
      if (place.mapped.data != nullptr) mapped_.make_own(place.mapped);
    }
  }
  mutex_.unlock();
}

Bytes TieredStore::bytes(StoredId id) const {
  const std::lock_guard lock(mutex_);
  return place_locked(id).bytes;
}

Tier TieredStore::tier(StoredId id) const {
  const std::lock_guard lock(mutex_);
  return place_locked(id).host != nullptr ? Tier::kHost : Tier::kDisk;
}

StoreUsage TieredStore::usage() const {
  const std::lock_guard lock(mutex_);
  return {.host = host_.budget().used(),
          .host_budget = host_.budget().limit(),
          .disk = spool_.used_bytes() + mapped_.spool().used_bytes(),
          .places = places_.size()};
}

StoreStatistics TieredStore::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::vector<MoveTally::Moved> TieredStore::top_movers(std::size_t count) const {
  const std::lock_guard lock(mutex_);
  return tally_.top(count);
}

}  // namespace spillway::runtime
