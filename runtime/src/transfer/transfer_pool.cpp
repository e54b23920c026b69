// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/transfer_pool.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/fault.hpp"

namespace spillway::runtime {
namespace {

// Odd addresses are copied through a buffer of this size: it stays in the second-level cache.
constexpr std::uint64_t kStageBytes = 256 * kKiB.count;

// Pauses before the retries: 1, 4, 16 ms. Long enough for a path to fail over to another, short
// enough that a disk that is gone is reported within the step.
constexpr std::chrono::milliseconds kFirstPause{1};
constexpr int kPauseFactor = 4;

/// One run of bytes for one system call and its continuations.
struct Piece {
  Direction direction;
  int descriptor;
  bool direct;  // address, length and offset are then multiples of kExtentGranule
  std::byte* memory;
  std::uint64_t offset;
  std::uint64_t length;
};

constexpr std::uint64_t round_down(std::uint64_t bytes) { return bytes & ~(kExtentGranule - 1); }

TimeNs now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// One pread or pwrite; bytes moved or -errno.
std::int64_t call_once(const Piece& piece) {
  std::uint64_t ask = piece.length;
  const auto fault = fault_at(piece.direction == Direction::kOut ? "spool.write" : "spool.read");
  if (fault) {
    if (fault->delay_us > 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(fault->delay_us));
    }
    if (fault->error != 0) {
      return -fault->error;
    }
    if (fault->short_io) {
      // A direct call cannot move less than a granule.
      const std::uint64_t half = piece.direct ? round_down(ask / 2) : ask / 2;
      ask = half == 0 ? ask : half;
    }
  }
  const auto offset = static_cast<off_t>(piece.offset);
  const ssize_t moved = piece.direction == Direction::kOut
                            ? ::pwrite(piece.descriptor, piece.memory, ask, offset)
                            : ::pread(piece.descriptor, piece.memory, ask, offset);
  return moved >= 0 ? moved : -errno;
}

bool worth_retrying(int error) { return error == EIO || error == EAGAIN; }

/// Moves the whole piece; an errno, 0 when done.
int move_piece(Piece piece) {
  int retries = 0;
  auto pause = kFirstPause;
  while (piece.length > 0) {
    const std::int64_t moved = call_once(piece);
    if (moved == -EINTR) {
      continue;
    }
    // A direct call cannot go on in the middle of a granule: that granule is moved again.
    std::uint64_t advance = moved > 0 ? static_cast<std::uint64_t>(moved) : 0;
    advance = piece.direct ? round_down(advance) : advance;
    if (advance > 0) {
      piece.memory += advance;
      piece.offset += advance;
      piece.length -= advance;
      continue;
    }
    if (moved >= 0 && piece.direction == Direction::kIn) {
      return ENODATA;  // nothing, or less than a granule: the file ends here
    }
    const int error = moved < 0 ? static_cast<int>(-moved) : EIO;
    if (!worth_retrying(error) || retries == kIoRetries) {
      return error;
    }
    ++retries;
    std::this_thread::sleep_for(pause);
    pause *= kPauseFactor;
  }
  return 0;
}

/// Moves a direct piece of any address and length through an aligned buffer. On the disk the last
/// granule is padded with zeros.
int move_staged(const Piece& piece) {
  const std::uint64_t stage_bytes =
      std::min(kStageBytes, round_up({piece.length}, kExtentGranule).count);
  const std::unique_ptr<void, decltype(&std::free)> stage(
      std::aligned_alloc(kExtentGranule, stage_bytes), &std::free);
  if (stage == nullptr) {
    return ENOMEM;
  }
  auto* const buffer = static_cast<std::byte*>(stage.get());
  for (std::uint64_t begin = 0; begin < piece.length; begin += stage_bytes) {
    const std::uint64_t bytes = std::min(stage_bytes, piece.length - begin);
    const std::uint64_t padded = round_up({bytes}, kExtentGranule).count;
    if (piece.direction == Direction::kOut) {
      std::memcpy(buffer, piece.memory + begin, bytes);
      std::memset(buffer + bytes, 0, padded - bytes);
    }
    const int error =
        move_piece({piece.direction, piece.descriptor, true, buffer, piece.offset + begin, padded});
    if (error != 0) {
      return error;
    }
    if (piece.direction == Direction::kIn) {
      std::memcpy(piece.memory + begin, buffer, bytes);
    }
  }
  return 0;
}

int move_direct(const Piece& piece) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(piece.memory) % kExtentGranule == 0;
  const std::uint64_t in_place = aligned ? round_down(piece.length) : 0;
  Piece body = piece;
  body.length = in_place;
  Piece rest = piece;
  rest.memory += in_place;
  rest.offset += in_place;
  rest.length -= in_place;
  int error = move_piece(body);
  if (error == 0 && rest.length > 0) {
    error = move_staged(rest);
  }
  return error;
}

/// Writes the pages of a chunk to the disk and waits; an errno, 0 when done.
int write_through(const Piece& piece) {
  const int result = ::sync_file_range(
      piece.descriptor, static_cast<off_t>(piece.offset), static_cast<off_t>(piece.length),
      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
  if (result == 0) {
    return 0;
  }
  if (errno == ENOSYS || errno == EINVAL || errno == ESPIPE) {
    return ::fdatasync(piece.descriptor) == 0 ? 0 : errno;
  }
  return errno;
}

int move_buffered(const Piece& piece) {
  int error = move_piece(piece);
  if (error == 0 && piece.direction == Direction::kOut) {
    error = write_through(piece);
    for (int retries = 0; worth_retrying(error) && retries < kIoRetries; ++retries) {
      // After a failed write-back the kernel counts the pages as clean: write them anew.
      error = move_piece(piece);
      error = error == 0 ? write_through(piece) : error;
    }
  }
  // Only advice: where it is not taken, the pages stay cached.
  static_cast<void>(::posix_fadvise(piece.descriptor, static_cast<off_t>(piece.offset),
                                    static_cast<off_t>(piece.length), POSIX_FADV_DONTNEED));
  return error;
}

bool is_direct(int descriptor) {
  const int flags = ::fcntl(descriptor, F_GETFL);
  return flags >= 0 && (flags & O_DIRECT) != 0;
}

int move_chunk(const Transfer& transfer, bool direct, std::uint64_t begin, std::uint64_t length) {
  const Piece piece{transfer.direction,
                    transfer.descriptor,
                    direct,
                    transfer.memory + begin,
                    transfer.extent.offset + begin,
                    length};
  if (length == 0) {
    return 0;
  }
  return direct ? move_direct(piece) : move_buffered(piece);
}

void check_transfer(const Transfer& transfer) {
  SPILLWAY_CHECK(transfer.length <= transfer.extent.bytes &&
                     transfer.extent.offset % kExtentGranule == 0 &&
                     transfer.extent.bytes % kExtentGranule == 0,
                 fmt::format("{} bytes for extent {}+{}", transfer.length, transfer.extent.offset,
                             transfer.extent.bytes));
  SPILLWAY_CHECK(transfer.memory != nullptr || transfer.length == 0, "no memory");
}

/// Blocks asynchronous signals while it lives; threads started meanwhile inherit that.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t blocked;
    sigfillset(&blocked);
    // Raised by the thread's own instructions: blocked, they would end the process unreported.
    for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
      sigdelset(&blocked, own);
    }
    pthread_sigmask(SIG_SETMASK, &blocked, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// The pool whose worker this thread is: waiting for itself would never end.
thread_local const TransferPool* working_for = nullptr;

}  // namespace

struct TransferPool::Job {
  Transfer transfer;
  TransferDone done;
  bool direct;
  std::uint64_t chunks;
  std::uint64_t next_begin = 0;  // under the pool's mutex
  std::uint64_t next_chunk = 0;  // under the pool's mutex
  std::atomic<std::uint64_t> unfinished{chunks};
  std::atomic<TimeNs> started{0};
  std::atomic<int> error{0};
  std::atomic<std::uint64_t> bytes{0};

  Job(Transfer t, TransferDone d)
      : transfer(t),
        done(std::move(d)),
        direct(is_direct(t.descriptor)),
        // One of no bytes has one chunk of none, so that `done` is called all the same.
        chunks(std::max<std::uint64_t>(1, (t.length + kTransferChunk - 1) / kTransferChunk)) {}
};

TransferPool::TransferPool(unsigned workers) : worker_count_(std::max(workers, 1U)) {}

TransferPool::~TransferPool() { before_fork(); }

void TransferPool::submit(Transfer transfer, TransferDone done) {
  check_transfer(transfer);
  SPILLWAY_CHECK(done != nullptr, "a transfer without completion");
  auto job = std::make_shared<Job>(transfer, std::move(done));
  const bool one_chunk = job->chunks == 1;
  {
    const std::lock_guard lock(mutex_);
    start_workers_locked();
    queue_.push_back(std::move(job));
    ++in_flight_;
  }
  if (one_chunk) {
    work_ready_.notify_one();
  } else {
    work_ready_.notify_all();
  }
}

void TransferPool::start_workers_locked() {
  if (!workers_.empty()) {
    return;
  }
  const SignalsBlocked blocked;
  workers_.reserve(worker_count_);
  try {
    while (workers_.size() < worker_count_) {
      workers_.emplace_back([this] { work(); });
    }
  } catch (const std::system_error& failure) {
    // Fewer threads are slower, none is an error.
    if (workers_.empty()) {
      throw UserError(fmt::format(
          "Cannot start a thread for disk transfers: {}. Raise the limit on processes (ulimit -u) "
          "or the cgroup's pids.max.",
          failure.what()));
    }
  }
}

void TransferPool::work() {
  working_for = this;
  pthread_setname_np(pthread_self(), "spillway-disk");
  for (;;) {
    Chunk chunk;
    {
      std::unique_lock lock(mutex_);
      work_ready_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) {
        return;
      }
      chunk = take_chunk_locked();
    }
    run_chunk(chunk);
  }
}

TransferPool::Chunk TransferPool::take_chunk_locked() {
  const std::shared_ptr<Job>& front = queue_.front();
  if (front->next_chunk == 0) {
    front->started.store(now(), std::memory_order_relaxed);
  }
  const std::uint64_t begin = front->next_begin;
  const std::uint64_t length = std::min(kTransferChunk, front->transfer.length - begin);
  Chunk chunk{front, begin, length};
  front->next_begin += length;
  if (++front->next_chunk == front->chunks) {
    queue_.pop_front();
  }
  return chunk;
}

void TransferPool::run_chunk(const Chunk& chunk) {
  Job& job = *chunk.job;
  // After a failure the rest would be moved for nothing.
  if (job.error.load(std::memory_order_relaxed) == 0) {
    const int error = move_chunk(job.transfer, job.direct, chunk.begin, chunk.length);
    if (error == 0) {
      job.bytes.fetch_add(chunk.length, std::memory_order_relaxed);
      count(job.transfer.direction, chunk.length);
    } else {
      int none = 0;
      job.error.compare_exchange_strong(none, error, std::memory_order_relaxed);
    }
  }
  // acq_rel: the last to finish sees the bytes and errors of all others.
  if (job.unfinished.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    finish(job);
  }
}

void TransferPool::finish(Job& job) {
  const TransferResult result{job.error.load(std::memory_order_relaxed),
                              job.bytes.load(std::memory_order_relaxed),
                              now() - job.started.load(std::memory_order_relaxed)};
  // What the completion owns is released before drain() can return.
  std::exchange(job.done, nullptr)(result);
  const std::lock_guard lock(mutex_);
  if (--in_flight_ == 0) {
    all_done_.notify_all();
  }
}

TransferResult TransferPool::run_here(const Transfer& transfer) {
  check_transfer(transfer);
  const bool direct = is_direct(transfer.descriptor);
  const TimeNs started = now();
  TransferResult result;
  while (result.error == 0 && result.bytes < transfer.length) {
    const std::uint64_t length = std::min(kTransferChunk, transfer.length - result.bytes);
    result.error = move_chunk(transfer, direct, result.bytes, length);
    if (result.error == 0) {
      result.bytes += length;
      count(transfer.direction, length);
    }
  }
  result.duration = now() - started;
  return result;
}

void TransferPool::count(Direction direction, std::uint64_t bytes) {
  auto& counter = direction == Direction::kOut ? written_ : read_;
  counter.fetch_add(bytes, std::memory_order_relaxed);
}

void TransferPool::drain() {
  SPILLWAY_CHECK(working_for != this, "a completion waits for itself");
  std::unique_lock lock(mutex_);
  all_done_.wait(lock, [this] { return in_flight_ == 0; });
}

void TransferPool::before_fork() {
  drain();
  stop_workers();
}

void TransferPool::stop_workers() {
  std::vector<std::thread> ending;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    ending.swap(workers_);
  }
  work_ready_.notify_all();
  for (std::thread& worker : ending) {
    worker.join();
  }
  const std::lock_guard lock(mutex_);
  stopping_ = false;
}

}  // namespace spillway::runtime
