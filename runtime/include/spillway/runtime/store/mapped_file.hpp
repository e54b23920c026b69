// SPDX-License-Identifier: Apache-2.0
// Extents of a file that are read and written in place, each at one address for its life. Their
// pages leave memory when they are put aside, and any access brings them in again, so that this is
// safe at any time; `bring` does so in one piece, and tells of an error that an access would die
// of.
//
// The file is another than that of copies. Those are written past the page cache, and a folio of
// that may hold the end of one extent and the begin of the next: written back because one of them
// was changed in place, it puts what it has of the other over what went past it (Linux 6.18, ext4:
// 30 of 600 copies between two mapped extents).
//
// Thread-safe, but for calls on one extent while it is freed. Errors of the disk are an errno. What
// a forked child writes is its own, and stays in memory whatever is put aside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::runtime {

/// What is about to be done with a mapped extent.
enum class Access : std::uint8_t {
  kRead,
  kChange,  ///< all of it
};

/// A value; unmap() ends it.
struct MappedExtent {
  std::byte* data = nullptr;  ///< null: there is none
  Extent extent{};
};

class MappedFile {
 public:
  /// Opens nothing yet, warns of nothing, and takes no direct I/O, whatever the options say.
  explicit MappedFile(SpoolOptions options);

  /// Gives out the extents.
  Spool& spool() { return spool_; }
  [[nodiscard]] const Spool& spool() const { return spool_; }

  /// Where the extent is now; or null, of which `reason` tells: the kernel refuses, or the file
  /// cannot have its space before it is written, so that who writes might find the disk full.
  MappedExtent map(const Extent& extent, std::string& reason);
  /// Gives back the extent too.
  void unmap(const MappedExtent& mapped);

  /// Writes what was changed to the disk, and gives the pages back.
  int put_aside(const MappedExtent& mapped);
  /// Brings the pages in.
  int bring(const MappedExtent& mapped, Access access);
  /// Has what was changed written, and does not wait for that, though for room in the disk's queue,
  /// so that put_aside() finds less to do. An error is put_aside()'s.
  void begin_writing(const MappedExtent& mapped);
  /// Gives back the pages, and waits for no disk: the kernel writes those that were changed.
  void give_back(const MappedExtent& mapped);
  /// Gives it other bytes. Of those that it had, no more than the last page is read.
  void write(const MappedExtent& mapped, const std::byte* from, Bytes bytes);
  /// The same. No more than a part of them is in memory at a time, and none afterwards. An errno:
  /// then it has all of them, but those that could not be written stay in memory.
  int write_aside(const MappedExtent& mapped, const std::byte* from, Bytes bytes);

  /// In a child, before anything is written: its pages are its own from now on. Then make_own() of
  /// each extent that is mapped.
  void after_fork_in_child() { in_child_ = true; }
  /// A child that uses the extent ends where this fails, and does not write into its parent's.
  void make_own(const MappedExtent& mapped);

 private:
  void write_part(const MappedExtent& mapped, std::uint64_t begin, std::uint64_t length,
                  const std::byte* from);
  void begin_writing_part(const MappedExtent& mapped, std::uint64_t begin, std::uint64_t length);
  /// Pages of it.
  int put_aside_part(const MappedExtent& mapped, std::uint64_t begin, std::uint64_t length);

  Spool spool_;
  bool in_child_ = false;      // changes where there is one thread
  std::mutex writing_;         // held by nobody else
  bool write_failed_ = false;  // of a page, ever
};

}  // namespace spillway::runtime
