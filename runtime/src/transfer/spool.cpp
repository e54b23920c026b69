// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/spool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <system_error>
#include <thread>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {
namespace {

// Growth starts small, so that a run that spills little takes little, and doubles, so that one that
// spills much seldom waits for the file system. 1 GiB is reserved in milliseconds on ext4 and xfs.
constexpr std::uint64_t kFirstGrowth = 64 * kMiB.count;
constexpr std::uint64_t kLastGrowth = kGiB.count;

// Left free on the disk by a default budget: room for logs and checkpoints of everyone else.
constexpr std::uint64_t kReserve = kGiB.count;
constexpr std::uint64_t kReserveShare = 20;  // one twentieth: 5 %

std::string errno_text(int error) {
  return fmt::format("{} (errno {})", std::generic_category().message(error), error);
}

/// The errno of an armed fault, after its delay; 0 without one.
int fault_error(std::string_view point) {
  const std::optional<Fault> fault = fault_at(point);
  if (!fault) {
    return 0;
  }
  if (fault->delay_us > 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(fault->delay_us));
  }
  return fault->error;
}

bool lies_in_memory(const struct statfs& file_system) {
  // f_type is signed on some architectures and the magic of ramfs has the top bit set.
  const auto type = static_cast<std::uint32_t>(file_system.f_type);
  constexpr std::uint32_t kRamfsMagic = RAMFS_MAGIC;
  return type == TMPFS_MAGIC || type == kRamfsMagic;
}

[[noreturn]] void throw_open_error(const std::string& directory, int error) {
  std::string what = errno_text(error);
  switch (error) {
    case ENOENT:
      what = "the directory does not exist";
      break;
    case ENOTDIR:
      what = "it is not a directory";
      break;
    case EROFS:
      what = "the file system is read-only";
      break;
    case EACCES:
    case EPERM:
      what = "no permission to create a file there";
      break;
    default:
      break;
  }
  throw UserError(fmt::format(
      "Cannot open the spool file in '{}': {}. Set SPILLWAY_SPOOL_DIR to a writable directory on a "
      "disk with free space.",
      directory, what));
}

/// A new file without a name, read-write, mode 0600. Returns -errno on failure.
int open_unnamed(const std::string& directory) {
  if (const int error = fault_error("spool.open"); error != 0) {
    return -error;
  }
  // O_EXCL: it cannot be linked into a directory later either.
  const int descriptor =
      ::open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
  return descriptor >= 0 ? descriptor : -errno;
}

/// The same where the file system has no O_TMPFILE: a name for some microseconds.
int open_and_unlink(const std::string& directory) {
  if (const int error = fault_error("spool.open"); error != 0) {
    return -error;
  }
  std::string path = directory + "/.spillway-XXXXXX";
  const int descriptor = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor < 0) {
    return -errno;
  }
  if (::unlink(path.c_str()) != 0) {
    const int error = errno;
    ::close(descriptor);
    return -error;
  }
  return descriptor;
}

int open_spool_file(const std::string& directory) {
  struct stat status {};
  if (::stat(directory.c_str(), &status) != 0) {
    throw_open_error(directory, errno);
  }
  if (!S_ISDIR(status.st_mode)) {
    throw_open_error(directory, ENOTDIR);
  }
  int descriptor = open_unnamed(directory);
  // The answers of file systems and kernels without O_TMPFILE; see open(2).
  if (descriptor == -EOPNOTSUPP || descriptor == -EISDIR || descriptor == -ENOENT ||
      descriptor == -EINVAL) {
    descriptor = open_and_unlink(directory);
  }
  if (descriptor < 0) {
    throw_open_error(directory, -descriptor);
  }
  if (::fchmod(descriptor, S_IRUSR | S_IWUSR) != 0) {
    const int error = errno;
    ::close(descriptor);
    throw_open_error(directory, error);
  }
  return descriptor;
}

/// Whether the file system says that direct I/O works at our granule; nothing if it does not say.
std::optional<bool> stated_direct_support(int descriptor) {
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(descriptor, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    return status.stx_dio_offset_align != 0 && status.stx_dio_offset_align <= kExtentGranule &&
           status.stx_dio_mem_align <= kExtentGranule;
  }
#else
  static_cast<void>(descriptor);
#endif
  return std::nullopt;
}

/// Writes one block: some file systems accept the flag and refuse the write.
bool direct_write_works(int descriptor) {
  alignas(kExtentGranule) const std::array<std::byte, kExtentGranule> block{};
  return ::pwrite(descriptor, block.data(), block.size(), 0) == static_cast<ssize_t>(block.size());
}

/// Sets O_DIRECT if it works. The flag is set after opening, as an open that refuses O_DIRECT may
/// leave the file it created behind.
bool switch_to_direct(int descriptor) {
  const std::optional<bool> stated = stated_direct_support(descriptor);
  const int flags = ::fcntl(descriptor, F_GETFL);
  if (stated == false || flags < 0 || ::fcntl(descriptor, F_SETFL, flags | O_DIRECT) != 0) {
    return false;
  }
  if (stated == true || direct_write_works(descriptor)) {
    return true;
  }
  ::fcntl(descriptor, F_SETFL, flags);
  return false;
}

Bytes free_space(int descriptor) {
  struct statvfs status {};
  if (::fstatvfs(descriptor, &status) != 0) {
    return {0};
  }
  return {static_cast<std::uint64_t>(status.f_bavail) * status.f_frsize};
}

int reserve_range(int descriptor, std::uint64_t begin, std::uint64_t end) {
  int result = 0;
  do {
    result = ::fallocate(descriptor, 0, static_cast<off_t>(begin), static_cast<off_t>(end - begin));
  } while (result != 0 && errno == EINTR);
  return result == 0 ? 0 : errno;
}

int extend_unreserved(int descriptor, std::uint64_t begin, std::uint64_t end) {
  if (free_space(descriptor).count < end - begin) {
    return ENOSPC;
  }
  return ::ftruncate(descriptor, static_cast<off_t>(end)) == 0 ? 0 : errno;
}

Bytes default_budget(int descriptor) {
  const Bytes free = free_space(descriptor);
  return saturating_sub(free, {std::max(kReserve, free.count / kReserveShare)});
}

bool suits_a_spool(const std::string& directory) {
  struct stat status {};
  struct statfs file_system {};
  return !directory.empty() && ::stat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) &&
         ::access(directory.c_str(), W_OK | X_OK) == 0 &&
         ::statfs(directory.c_str(), &file_system) == 0 && !lies_in_memory(file_system);
}

/// True once every write end is closed. A descriptor that is not ours any more never ends: its
/// extents are lost rather than reused under a reader.
bool has_ended(int liveness_fd) {
  pollfd entry{liveness_fd, 0, 0};  // POLLHUP is reported unasked
  return ::poll(&entry, 1, 0) == 1 && (entry.revents & POLLHUP) != 0;
}

}  // namespace

std::string default_spool_directory(const std::function<void(std::string)>& warn) {
  const auto variable = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  const std::string home = variable("HOME");
  const std::array<std::string, 4> candidates{variable("TMPDIR"), "/var/tmp", "/tmp",
                                              home.empty() ? home : home + "/.cache"};
  const auto chosen = std::ranges::find_if(candidates, suits_a_spool);
  if (chosen != candidates.end()) {
    return *chosen;
  }
  if (warn) {
    warn(
        "No writable directory on a disk among $TMPDIR, /var/tmp, /tmp and $HOME/.cache: using "
        "/var/tmp. Set SPILLWAY_SPOOL_DIR to a directory on a disk.");
  }
  return "/var/tmp";
}

Spool::Spool(SpoolOptions options) : options_(std::move(options)), growth_step_(kFirstGrowth) {
  budget_ = {options_.budget.count / kExtentGranule * kExtentGranule};
}

Spool::~Spool() {
  if (descriptor_ >= 0) ::close(descriptor_);
  for (const Generation& generation : generations_) ::close(generation.liveness_fd);
}

void Spool::ensure_open() {
  Warnings warnings;
  {
    const std::lock_guard lock(mutex_);
    open_locked(warnings);
  }
  hand_out(warnings);
}

void Spool::open_locked(Warnings& warnings) {
  if (descriptor_ >= 0) {
    return;
  }
  if (directory_.empty()) {
    const auto collect = [&warnings](std::string text) { warnings.push_back(std::move(text)); };
    directory_ = options_.directory.empty() ? default_spool_directory(collect) : options_.directory;
  }
  descriptor_ = open_spool_file(directory_);
  direct_ = options_.direct && switch_to_direct(descriptor_);
  struct statfs file_system {};
  if (::fstatfs(descriptor_, &file_system) == 0 && lies_in_memory(file_system)) {
    warnings.push_back(fmt::format(
        "The spool directory '{}' lies in memory (tmpfs): what is evicted there takes as much "
        "memory as before. Set SPILLWAY_SPOOL_DIR to a directory on a disk.",
        directory_));
  } else if (options_.direct && !direct_) {
    warnings.push_back(fmt::format(
        "The file system of the spool directory '{}' takes no direct I/O: transfers go through "
        "the page cache and may be slower. Set SPILLWAY_SPOOL_DIR to a directory on a local disk.",
        directory_));
  }
  settle_budget_locked(warnings);
}

void Spool::settle_budget_locked(Warnings& warnings) {
  if (options_.budget.count == 0) {
    const std::uint64_t part = default_budget(descriptor_).count / std::max(options_.sharers, 1U);
    budget_ = {part / kExtentGranule * kExtentGranule};
    if (options_.beside) beside_at_first_ = options_.beside();
  }
  // Growing past the file size limit would end the process with SIGXFSZ.
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
      limit.rlim_cur < budget_.count) {
    budget_ = {limit.rlim_cur / kExtentGranule * kExtentGranule};
    warnings.push_back(
        fmt::format("The file size limit (ulimit -f) is below the disk budget: the spool in '{}' "
                    "is held to {}.",
                    directory_, to_string(budget_)));
  }
}

std::optional<Extent> Spool::allocate(Bytes bytes) {
  Warnings warnings;
  std::optional<Extent> extent;
  {
    const std::lock_guard lock(mutex_);
    extent = allocate_locked(bytes, warnings);
  }
  hand_out(warnings);
  return extent;
}

std::optional<Extent> Spool::allocate_locked(Bytes bytes, Warnings& warnings) {
  SPILLWAY_CHECK(bytes.count > 0, "an extent of no bytes");
  open_locked(warnings);
  release_ended_generations_locked();
  // The first test keeps the sum in the second from overflowing.
  const Bytes limit = limit_locked();
  if (bytes > limit || extents_.end_after(bytes) > limit.count) {
    note_budget_full_locked(bytes);
    return std::nullopt;
  }
  const std::uint64_t needed_end = extents_.end_after(bytes);
  if (needed_end > capacity_ && !grow_locked(needed_end, warnings)) {
    return std::nullopt;
  }
  const Extent extent = extents_.allocate(bytes);
  live_.emplace(extent.offset, Live{extent.bytes, last_generation_});
  return extent;
}

bool Spool::grow_locked(std::uint64_t needed_end, Warnings& warnings) {
  std::uint64_t end =
      std::min(std::max(needed_end, capacity_ + growth_step_), limit_locked().count);
  int error = reserve_locked(end, warnings);
  if (error != 0 && end > needed_end) {
    // Ahead of need there is no room; for the need there may be.
    end = needed_end;
    error = reserve_locked(end, warnings);
  }
  if (error != 0) {
    note_disk_full_locked(error, needed_end);
    return false;
  }
  capacity_ = end;
  growth_step_ = std::min(growth_step_ * 2, kLastGrowth);
  return true;
}

/// Makes the file `end` bytes long with its space reserved. Returns an errno, 0 when done.
int Spool::reserve_locked(std::uint64_t end, Warnings& warnings) {
  int error = fault_error("spool.grow");
  if (error == 0 && reserves_) {
    error = reserve_range(descriptor_, capacity_, end);
  }
  if (reserves_ && (error == EOPNOTSUPP || error == ENOSYS)) {
    reserves_ = false;
    error = 0;
    warnings.push_back(
        fmt::format("The file system of the spool directory '{}' cannot reserve space (fallocate): "
                    "a full disk is noticed only while writing.",
                    directory_));
  }
  if (error == 0 && !reserves_) {
    error = extend_unreserved(descriptor_, capacity_, end);
  }
  if (error != 0) {
    // A reservation that failed half-way keeps what it got, on a disk that is full: give it back.
    static_cast<void>(::ftruncate(descriptor_, static_cast<off_t>(capacity_)) == 0);
  }
  return error;
}

bool Spool::trim() {
  const std::lock_guard lock(mutex_);
  release_ended_generations_locked();
  const std::uint64_t end = extents_.end();
  if (end >= capacity_ || ::ftruncate(descriptor_, static_cast<off_t>(end)) != 0) return false;
  capacity_ = end;
  return true;
}

void Spool::free(Extent extent) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(extent.offset);
  SPILLWAY_CHECK(found != live_.end() && found->second.bytes == extent.bytes,
                 fmt::format("{}+{} is not a live extent", extent.offset, extent.bytes));
  const std::uint64_t born = found->second.born;
  live_.erase(found);
  release_ended_generations_locked();
  if (readable_by_a_child_locked(born, last_generation_)) {
    quarantine_.push_back({extent, born, last_generation_});
    quarantined_ += Bytes{extent.bytes};
  } else {
    extents_.free(extent);
  }
}

void Spool::begin_fork_generation(int liveness_read_fd) {
  const std::lock_guard lock(mutex_);
  release_ended_generations_locked();
  generations_.push_back({++last_generation_, liveness_read_fd});
}

bool Spool::readable_by_a_child_locked(std::uint64_t born, std::uint64_t died) const {
  return std::ranges::any_of(generations_, [=](const Generation& generation) {
    return born < generation.number && generation.number <= died;
  });
}

void Spool::release_ended_generations_locked() {
  const auto ended = std::erase_if(generations_, [](const Generation& generation) {
    if (!has_ended(generation.liveness_fd)) {
      return false;
    }
    ::close(generation.liveness_fd);
    return true;
  });
  if (ended == 0) {
    return;
  }
  std::erase_if(quarantine_, [this](const Quarantined& entry) {
    if (readable_by_a_child_locked(entry.born, entry.died)) {
      return false;
    }
    quarantined_ -= Bytes{entry.extent.bytes};
    extents_.free(entry.extent);
    return true;
  });
}

Bytes Spool::limit_locked() const {
  return options_.beside ? saturating_sub(budget_ + beside_at_first_, options_.beside()) : budget_;
}

void Spool::note_budget_full_locked(Bytes bytes) {
  const Bytes tail = saturating_sub(limit_locked(), {extents_.end()});
  const Bytes have = std::max(tail, extents_.largest_hole());
  full_reason_ = fmt::format(
      "The disk budget is spent: need {} in one piece, have {}, short {}, of {} in '{}'{}. Raise "
      "SPILLWAY_DISK_BUDGET, or set SPILLWAY_SPOOL_DIR to a larger disk.",
      to_string(bytes), to_string(have), to_string(saturating_sub(bytes, have)), to_string(budget_),
      directory_,
      quarantined_.count == 0
          ? ""
          : fmt::format(" ({} kept for forked processes)", to_string(quarantined_)));
}

void Spool::note_disk_full_locked(int error, std::uint64_t needed_end) {
  const Bytes need{needed_end - capacity_};
  const Bytes have = free_space(descriptor_);
  full_reason_ = fmt::format(
      "The spool file in '{}' cannot grow: {}: need {} more, have {} free on the disk, short {}. "
      "Free space there, or set SPILLWAY_SPOOL_DIR to another disk.",
      directory_, errno_text(error), to_string(need), to_string(have),
      to_string(saturating_sub(need, have)));
}

void Spool::hand_out(const Warnings& warnings) const {
  if (options_.warn) {
    std::ranges::for_each(warnings, options_.warn);
  }
}

std::string Spool::full_reason() const {
  const std::lock_guard lock(mutex_);
  return full_reason_;
}

int Spool::descriptor() const {
  const std::lock_guard lock(mutex_);
  return descriptor_;
}

bool Spool::direct_io() const {
  const std::lock_guard lock(mutex_);
  return direct_;
}

bool Spool::reserves() const {
  const std::lock_guard lock(mutex_);
  return reserves_;
}

SpoolUsage Spool::usage() const {
  const std::lock_guard lock(mutex_);
  return {extents_.used_bytes() - quarantined_, quarantined_, capacity(), budget_};
}

}  // namespace spillway::runtime
