// SPDX-License-Identifier: Apache-2.0
// The disk tier: one file that nobody else can see, cut into extents.
//
//   0                         end of extents        capacity           budget
//   | extents and holes       |  reserved on disk   |  may be reserved |
//
// - The file has no name (O_TMPFILE, else created and unlinked at once) and mode 0600; the kernel
//   gives its space back when the last descriptor closes, however the process ends.
// - It is opened with direct I/O where the file system takes it, so that spilled bytes do not pile
//   up in the page cache, which is the very memory that was to be saved. Else it is buffered, and
//   TransferPool drops pages behind itself.
// - Space is reserved by fallocate ahead of need: a full disk is known when an extent is asked for,
//   not when it is written, and direct writes inside the file run in parallel where extending ones
//   would queue. The file never grows past the budget.
// - Nothing is opened before the first extent.
//
// An extent is written once: to replace its contents free it and allocate another. A forked child
// may still read the old one (see begin_fork_generation).
//
// Thread-safe: one small mutex, under which the only I/O is opening and growing. Warnings are
// handed out with no lock held. At a fork no other thread may be inside (the engine's own lock sees
// to that).
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/transfer/extent_allocator.hpp"

namespace spillway::runtime {

struct SpoolOptions {
  std::string directory;  ///< empty: default_spool_directory()
  Bytes budget{};         ///< most the file may take; 0: free space less max(1 GiB, 5 % of it)
  std::function<void(std::string)> warn;  ///< may be empty
  std::uint32_t sharers = 1;  ///< processes on this machine that a budget of 0 is divided by
  bool direct = true;         ///< open it for direct I/O, if the file system takes that
  /// What another file on the same disk takes of the same budget; may be empty. Called with this
  /// spool's lock held, so it may take no lock of a spool's.
  std::function<Bytes()> beside{};
};

/// Consistent with each other at one moment.
struct SpoolUsage {
  Bytes used{};         ///< in live extents
  Bytes quarantined{};  ///< freed here, but a forked child may still read them
  Bytes capacity{};     ///< size of the file: reserved on the disk
  Bytes budget{};       ///< the limit in force; for a default budget 0 until the file is open
};

/// The first of $TMPDIR, /var/tmp, /tmp, $HOME/.cache that is a writable directory and not in
/// memory; /var/tmp, with a warning, where none is.
std::string default_spool_directory(const std::function<void(std::string)>& warn = {});

class Spool {
 public:
  explicit Spool(SpoolOptions options);
  /// Closes the file, and with it gives back its space.
  ~Spool();
  Spool(const Spool&) = delete;
  Spool& operator=(const Spool&) = delete;

  /// Opens the file now; does nothing if it is open. Throws UserError, naming the directory, if
  /// that is missing, not a directory, read-only or not permitted.
  void ensure_open();

  /// At least `bytes` (> 0) of the file, or nothing when disk or budget is full: see full_reason().
  /// Opens the file if need be, so throws as ensure_open() does.
  std::optional<Extent> allocate(Bytes bytes);

  /// Gives back an extent exactly as allocate() returned it. Throws InternalError otherwise.
  void free(Extent extent);

  /// Gives back to the disk what the file has behind its last extent, for another file. Whether it
  /// had something.
  bool trim();

  /// Why allocate() last returned nothing (need / have / short, what to do); empty if it never did.
  [[nodiscard]] std::string full_reason() const;

  /// Call just before fork(), with no transfer in flight. Extents live now are not reused, once
  /// freed, until the read end of a pipe reports that every write end is closed: children of this
  /// generation hold one until they exit, and the caller closes its own after the fork. Takes
  /// ownership of the descriptor.
  void begin_fork_generation(int liveness_read_fd);

  /// The open file, or -1. May have O_DIRECT set: go through TransferPool.
  [[nodiscard]] int descriptor() const;
  [[nodiscard]] bool direct_io() const;
  /// Whether the file has its space. Else the disk may turn out to be full while bytes are written,
  /// which through a mapping ends the process with SIGBUS.
  [[nodiscard]] bool reserves() const;
  [[nodiscard]] SpoolUsage usage() const;
  [[nodiscard]] Bytes used_bytes() const { return usage().used; }
  /// Size of the file. Takes no lock: two files on one disk ask each other (SpoolOptions::beside).
  [[nodiscard]] Bytes capacity() const { return {capacity_.load()}; }

 private:
  using Warnings = std::vector<std::string>;

  struct Live {
    std::uint64_t bytes;
    std::uint64_t born;  // newest fork generation when it was allocated
  };
  struct Quarantined {
    Extent extent;
    std::uint64_t born;
    std::uint64_t died;  // generations in (born, died] may read it
  };
  struct Generation {
    std::uint64_t number;
    int liveness_fd;
  };

  void open_locked(Warnings& warnings);
  void settle_budget_locked(Warnings& warnings);
  std::optional<Extent> allocate_locked(Bytes bytes, Warnings& warnings);
  bool grow_locked(std::uint64_t needed_end, Warnings& warnings);
  int reserve_locked(std::uint64_t end, Warnings& warnings);
  void release_ended_generations_locked();
  [[nodiscard]] bool readable_by_a_child_locked(std::uint64_t born, std::uint64_t died) const;
  /// What is left of the budget for this file.
  [[nodiscard]] Bytes limit_locked() const;
  void note_budget_full_locked(Bytes bytes);
  void note_disk_full_locked(int error, std::uint64_t needed_end);
  void hand_out(const Warnings& warnings) const;

  const SpoolOptions options_;
  mutable std::mutex mutex_;
  std::string directory_;
  int descriptor_ = -1;
  bool direct_ = false;
  bool reserves_ = true;  // false once the file system turned out to lack fallocate
  Bytes budget_{};
  Bytes beside_at_first_{};  // when the budget was settled, if free space settled it
  std::atomic<std::uint64_t> capacity_ = 0;  // written with the lock held
  std::uint64_t growth_step_;
  ExtentAllocator extents_;
  std::map<std::uint64_t, Live> live_;  // by offset
  std::vector<Quarantined> quarantine_;
  Bytes quarantined_{};
  std::vector<Generation> generations_;  // those that still have a child, oldest first
  std::uint64_t last_generation_ = 0;
  std::string full_reason_;
};

}  // namespace spillway::runtime
