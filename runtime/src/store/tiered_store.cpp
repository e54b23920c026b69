// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/store/tiered_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {

namespace {

#ifdef MADV_POPULATE_READ
constexpr int kPopulateToRead = MADV_POPULATE_READ;
constexpr int kPopulateToWrite = MADV_POPULATE_WRITE;
#else
constexpr int kPopulateToRead = 22;  // in headers older than the kernel
constexpr int kPopulateToWrite = 23;
#endif

// Two of them are the most that write_aside has in memory at a time: one is on its way to the disk
// while the next is copied.
constexpr std::uint64_t kPart = kMiB.count / 2;

// The two spools have one budget, and never ask each other at once: both grow under one lock.
SpoolOptions beside(SpoolOptions options, std::function<Bytes()> other) {
  options.beside = std::move(other);
  return options;
}

// It is in the same directory, of which the other one warns.
SpoolOptions of_mapped_places(SpoolOptions options) {
  options.direct = false;
  options.warn = {};
  return options;
}

std::uint64_t to_value(StoredId id) { return static_cast<std::uint64_t>(id); }

std::string describe(StoredId id) { return fmt::format("stored {}", to_value(id)); }

/// Writes the pages of a mapped file to the disk and waits; an errno.
int write_back(int descriptor, off_t offset, off_t bytes) {
  // Not msync, which has the disk write its cache too: the file does not outlive the process.
  const int error = ::sync_file_range(descriptor, offset, bytes,
                                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                          SYNC_FILE_RANGE_WAIT_AFTER) == 0
                        ? 0
                        : errno;
  const auto fault = fault_at("spool.write");
  return error == 0 && fault ? fault->error : error;
}

/// Has the kernel write the pages again, which after a failed write-back it counts as clean and may
/// drop. Others may write into them meanwhile, so each gets the byte that it has, if it still has
/// it.
void make_dirty(std::byte* begin, std::uint64_t length) {
  for (std::uint64_t page = 0; page < length; page += kExtentGranule) {
    const std::atomic_ref<std::byte> first(begin[page]);
    std::byte value = first.load(std::memory_order_relaxed);
    first.compare_exchange_strong(value, value, std::memory_order_relaxed);
  }
}

}  // namespace

TieredStore::TieredStore(TieredStoreOptions options, std::unique_ptr<Transfers> transfers)
    : options_(std::move(options)),
      spool_(beside(options_.spool, [this] { return mapped_.usage().capacity; })),
      mapped_(of_mapped_places(beside(options_.spool, [this] { return spool_.usage().capacity; }))),
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
  Spool& other = &spool == &spool_ ? mapped_ : spool_;
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
  if (place.disk.bytes != 0) {
    Spool& spool = place.state == State::kMapped ? mapped_ : spool_;
    if (place.mapped != nullptr) ::munmap(std::exchange(place.mapped, nullptr), place.disk.bytes);
    spool.free(std::exchange(place.disk, Extent{}));
  }
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
    const std::optional<Extent> extent = extent_for_locked(bytes, mapped_);
    if (!extent) return std::nullopt;
    place.disk = *extent;
    if (!map_locked(place)) {
      mapped_.free(place.disk);
      return std::nullopt;
    }
  }
  std::byte* const data = place.host != nullptr ? place.host : place.mapped;
  return Mapped{.id = add_locked(place), .data = data};
}

bool TieredStore::map_locked(Place& place) {
  if (!mapped_.reserves()) {
    refuse_locked(
        "the file system of the spool cannot reserve space (fallocate); set SPILLWAY_SPOOL_DIR to "
        "a directory on another");
    return false;
  }
  void* const range = ::mmap(nullptr, place.disk.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             mapped_.descriptor(), static_cast<off_t>(place.disk.offset));
  if (range == MAP_FAILED) {
    refuse_locked(fmt::format("a file cannot be mapped: {}", std::strerror(errno)));
    return false;
  }
  place.mapped = static_cast<std::byte*>(range);
  return true;
}

TieredStore::Place TieredStore::mapped_place(StoredId id) {
  const std::lock_guard lock(mutex_);
  const Place& place = place_locked(id);
  SPILLWAY_CHECK(place.state == State::kMapped, describe(id));
  return place;
}

int TieredStore::put_aside_part(const Place& place, std::uint64_t begin, std::uint64_t length) {
  if (in_child_) return 0;  // what it wrote is in memory alone
  const auto offset = static_cast<off_t>(place.disk.offset + begin);
  const auto bytes = static_cast<off_t>(length);
  {
    // The kernel tells the first who asks that a write failed, whosever it was: pages that it
    // counts as clean since then may not be on the disk. So one asks at a time, and each is written
    // anew.
    const std::lock_guard lock(writing_);
    if (write_failed_) make_dirty(place.mapped + begin, length);
    if (const int error = write_back(mapped_.descriptor(), offset, bytes); error != 0) {
      write_failed_ = true;
      make_dirty(place.mapped + begin, length);
      return error;
    }
  }
  if (::madvise(place.mapped + begin, length, MADV_DONTNEED) != 0) return errno;
  ::posix_fadvise(mapped_.descriptor(), offset, bytes, POSIX_FADV_DONTNEED);
  return 0;
}

int TieredStore::end_putting_aside(const Place& place, int error) {
  const std::lock_guard lock(mutex_);
  error == 0 ? count_moved_locked(statistics_.stored_on_disk, place) : void(++statistics_.failed);
  return error;
}

int TieredStore::put_aside(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped == nullptr) return 0;
  return end_putting_aside(place, put_aside_part(place, 0, place.disk.bytes));
}

void TieredStore::begin_writing_part(const Place& place, std::uint64_t begin,
                                     std::uint64_t length) {
  if (in_child_) return;
  ::sync_file_range(mapped_.descriptor(), static_cast<off_t>(place.disk.offset + begin),
                    static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
}

void TieredStore::begin_writing(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped != nullptr) begin_writing_part(place, 0, place.disk.bytes);
}

void TieredStore::give_back(StoredId id) {
  const Place place = mapped_place(id);
  if (place.mapped == nullptr || in_child_) return;
  ::madvise(place.mapped, place.disk.bytes, MADV_DONTNEED);
}

// By calls, since writing into the mapping would have the kernel read first what is overwritten,
// and take a fault for each page. Each is of a part: it holds the file's lock, for which the file's
// growth waits, and with that every call of the store.
void TieredStore::write_part(const Place& place, std::uint64_t begin, std::uint64_t length,
                             const std::byte* from) {
  const int file = in_child_ ? -1 : mapped_.descriptor();
  std::uint64_t written = 0;
  while (file >= 0 && written < length) {
    const ssize_t moved = ::pwrite(file, from + begin + written, std::min(kPart, length - written),
                                   static_cast<off_t>(place.disk.offset + begin + written));
    if (moved > 0) {
      written += static_cast<std::uint64_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      break;
    }
  }
  if (written < length) {
    std::memcpy(place.mapped + begin + written, from + begin + written, length - written);
  }
}

void TieredStore::write(StoredId id, const std::byte* from) {
  const Place place = mapped_place(id);
  if (place.mapped == nullptr) {
    std::memcpy(place.host, from, place.bytes.count);
  } else {
    write_part(place, 0, place.bytes.count, from);
  }
}

int TieredStore::write_aside(StoredId id, const std::byte* from) {
  const Place place = mapped_place(id);
  if (place.mapped == nullptr) {
    std::memcpy(place.host, from, place.bytes.count);
    return 0;
  }
  int error = 0;
  std::uint64_t aside = 0;  // so many bytes of it
  const auto put_aside_until = [&](std::uint64_t end) {
    if (end > aside) error = put_aside_part(place, aside, end - aside);
    if (error == 0) aside = end;
  };
  for (std::uint64_t begin = 0; error == 0 && begin < place.bytes.count; begin += kPart) {
    const std::uint64_t length = std::min(kPart, place.bytes.count - begin);
    write_part(place, begin, length, from);
    begin_writing_part(place, begin, length);
    put_aside_until(begin);
  }
  if (error == 0) put_aside_until(place.disk.bytes);
  // The rest stays in memory, and gets its bytes, lest half of the value be new. So does what was
  // on its way: it may have failed too, and then the kernel counts it as clean and may drop it.
  if (error != 0) write_part(place, aside, place.bytes.count - aside, from);
  return end_putting_aside(place, error);
}

int TieredStore::bring(StoredId id, Access access) {
  const Place place = mapped_place(id);
  if (place.mapped == nullptr) return 0;
  const int populate = access == Access::kRead ? kPopulateToRead : kPopulateToWrite;
  int error = 0;
  if (const auto fault = fault_at("spool.read")) error = fault->error;
  if (error == 0 && ::madvise(place.mapped, place.disk.bytes, populate) != 0) {
    // A kernel before 5.14 does not know it, and then each access brings a part.
    error = errno == EINVAL ? 0 : errno;
  }
  const std::lock_guard lock(mutex_);
  error == 0 ? count_moved_locked(statistics_.loaded_from_disk, place) : void(++statistics_.failed);
  return error;
}

void TieredStore::before_fork() {
  transfers_->before_fork();
  mutex_.lock();
}

void TieredStore::after_fork(bool in_child) {
  in_child_ |= in_child;
  forked_ = true;
  for (const auto& [id, place] : places_) {
    if (!in_child || place.mapped == nullptr) continue;
    void* const own =
        ::mmap(place.mapped, place.disk.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
               mapped_.descriptor(), static_cast<off_t>(place.disk.offset));
    // A child that then uses it ends, and does not write into its parent's.
    if (own == MAP_FAILED) ::munmap(place.mapped, place.disk.bytes);
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
          .disk = spool_.used_bytes() + mapped_.used_bytes(),
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
