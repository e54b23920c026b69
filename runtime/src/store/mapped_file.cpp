// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/store/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

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

// It is in the same directory, of which the other one warns.
SpoolOptions of_mapped_pages(SpoolOptions options) {
  options.direct = false;
  options.warn = {};
  return options;
}

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

MappedFile::MappedFile(SpoolOptions options) : spool_(of_mapped_pages(std::move(options))) {}

MappedExtent MappedFile::map(const Extent& extent, std::string& reason) {
  if (!spool_.reserves()) {
    reason =
        "the file system of the spool cannot reserve space (fallocate); set SPILLWAY_SPOOL_DIR to "
        "a directory on another";
    return {};
  }
  void* const range = ::mmap(nullptr, extent.bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
                             spool_.descriptor(), static_cast<off_t>(extent.offset));
  if (range == MAP_FAILED) {
    reason = fmt::format("a file cannot be mapped: {}", std::strerror(errno));
    return {};
  }
  return {.data = static_cast<std::byte*>(range), .extent = extent};
}

void MappedFile::unmap(const MappedExtent& mapped) {
  ::munmap(mapped.data, mapped.extent.bytes);
  spool_.free(mapped.extent);
}

int MappedFile::put_aside_part(const MappedExtent& mapped, std::uint64_t begin,
                               std::uint64_t length) {
  if (in_child_) return 0;  // what it wrote is in memory alone
  const auto offset = static_cast<off_t>(mapped.extent.offset + begin);
  const auto bytes = static_cast<off_t>(length);
  {
    // The kernel tells the first who asks that a write failed, whosever it was: pages that it
    // counts as clean since then may not be on the disk. So one asks at a time, and each is written
    // anew.
    const std::lock_guard lock(writing_);
    if (write_failed_) make_dirty(mapped.data + begin, length);
    if (const int error = write_back(spool_.descriptor(), offset, bytes); error != 0) {
      write_failed_ = true;
      make_dirty(mapped.data + begin, length);
      return error;
    }
  }
  if (::madvise(mapped.data + begin, length, MADV_DONTNEED) != 0) return errno;
  ::posix_fadvise(spool_.descriptor(), offset, bytes, POSIX_FADV_DONTNEED);
  return 0;
}

int MappedFile::put_aside(const MappedExtent& mapped) {
  return put_aside_part(mapped, 0, mapped.extent.bytes);
}

void MappedFile::begin_writing_part(const MappedExtent& mapped, std::uint64_t begin,
                                    std::uint64_t length) {
  if (in_child_) return;
  ::sync_file_range(spool_.descriptor(), static_cast<off_t>(mapped.extent.offset + begin),
                    static_cast<off_t>(length), SYNC_FILE_RANGE_WRITE);
}

void MappedFile::begin_writing(const MappedExtent& mapped) {
  begin_writing_part(mapped, 0, mapped.extent.bytes);
}

void MappedFile::give_back(const MappedExtent& mapped) {
  if (!in_child_) ::madvise(mapped.data, mapped.extent.bytes, MADV_DONTNEED);
}

// By calls, since writing into the mapping would have the kernel read first what is overwritten,
// and take a fault for each page. Each is of a part: it holds the file's lock, for which the file's
// growth waits, and with that every call of the store.
void MappedFile::write_part(const MappedExtent& mapped, std::uint64_t begin, std::uint64_t length,
                            const std::byte* from) {
  const int file = in_child_ ? -1 : spool_.descriptor();
  std::uint64_t written = 0;
  while (file >= 0 && written < length) {
    const ssize_t moved = ::pwrite(file, from + begin + written, std::min(kPart, length - written),
                                   static_cast<off_t>(mapped.extent.offset + begin + written));
    if (moved > 0) {
      written += static_cast<std::uint64_t>(moved);
    } else if (moved == 0 || errno != EINTR) {
      break;
    }
  }
  if (written < length) {
    std::memcpy(mapped.data + begin + written, from + begin + written, length - written);
  }
}

void MappedFile::write(const MappedExtent& mapped, const std::byte* from, Bytes bytes) {
  write_part(mapped, 0, bytes.count, from);
}

int MappedFile::write_aside(const MappedExtent& mapped, const std::byte* from, Bytes bytes) {
  int error = 0;
  std::uint64_t aside = 0;  // so many bytes of it
  const auto put_aside_until = [&](std::uint64_t end) {
    if (end > aside) error = put_aside_part(mapped, aside, end - aside);
    if (error == 0) aside = end;
  };
  for (std::uint64_t begin = 0; error == 0 && begin < bytes.count; begin += kPart) {
    const std::uint64_t length = std::min(kPart, bytes.count - begin);
    write_part(mapped, begin, length, from);
    begin_writing_part(mapped, begin, length);
    put_aside_until(begin);
  }
  if (error == 0) put_aside_until(mapped.extent.bytes);
  // The rest stays in memory, and gets its bytes, lest half of the value be new. So does what was
  // on its way: it may have failed too, and then the kernel counts it as clean and may drop it.
  if (error != 0) write_part(mapped, aside, bytes.count - aside, from);
  return error;
}

int MappedFile::bring(const MappedExtent& mapped, Access access) {
  const int populate = access == Access::kRead ? kPopulateToRead : kPopulateToWrite;
  int error = 0;
  if (const auto fault = fault_at("spool.read")) error = fault->error;
  if (error != 0 || ::madvise(mapped.data, mapped.extent.bytes, populate) == 0) return error;
  // A kernel before 5.14 does not know it, and then each access brings a part.
  return errno == EINVAL ? 0 : errno;
}

void MappedFile::make_own(const MappedExtent& mapped) {
  void* const own =
      ::mmap(mapped.data, mapped.extent.bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED,
             spool_.descriptor(), static_cast<off_t>(mapped.extent.offset));
  if (own == MAP_FAILED) ::munmap(mapped.data, mapped.extent.bytes);
}

}  // namespace spillway::runtime
