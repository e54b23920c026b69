// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/transfer_ring.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "chunk_io.hpp"
#include "ring.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/signals_blocked.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "transfer_queue.hpp"

namespace spillway::runtime {
namespace {

// The ring whose thread this is: waiting for itself would never end.
thread_local const TransferRing* working_for = nullptr;

constexpr std::uint64_t kWakeTag = ~std::uint64_t{0};

// Ids of the ring's own queue are even, those of the pool's get this bit.
constexpr TransferId kOddBit = 1;

}  // namespace

std::string io_uring_refusal() {
  const Ring ring(kRingPlaces + 1);
  switch (ring.error()) {
    case 0:
      return "";
    case ENOSYS:
      return "this kernel is older than Linux 5.11";
    case EPERM:
    case EACCES: {
      int disabled = 0;
      std::ifstream("/proc/sys/kernel/io_uring_disabled") >> disabled;
      return disabled != 0 ? fmt::format("switched off by kernel.io_uring_disabled={}", disabled)
                           : "forbidden here, as in most containers";
    }
    default:
      return std::strerror(ring.error());
  }
}

/// A place holds a chunk that is under way, or waits until it may go on.
class TransferRing::Loop {
 public:
  explicit Loop(TransferRing& owner)
      : owner_(owner), ring_(owner.places_ + 1), places_(owner.places_) {
    for (std::size_t i = 0; i < places_.size(); ++i) free_.push_back(i);
  }

  void run();

 private:
  struct Place {
    TransferChunk chunk;
    std::optional<PieceRun> run;
    PieceRun::Call call{};
    TimeNs due = 0;  // waits until then before `call` is made; 0: it is with the kernel
  };

  bool fill();
  void begin(TransferChunk chunk);
  void call(std::size_t place);
  void start(std::size_t place);
  void returned(std::size_t place, std::int64_t moved);
  void end(const TransferChunk& chunk, std::uint64_t moved, int error);
  void start_what_is_due();
  [[nodiscard]] std::chrono::nanoseconds until_next_due() const;
  void without_ring();
  void complete();
  [[nodiscard]] bool background_allowed() const {
    return in_background_ < owner_.background_places_;
  }

  TransferRing& owner_;
  Ring ring_;
  std::vector<Place> places_;
  std::vector<std::size_t> free_;
  unsigned in_background_ = 0;
  std::uint64_t wake_value_ = 0;
  bool wake_armed_ = false;
  std::vector<std::shared_ptr<TransferJob>> ended_;
};

TransferRing::TransferRing(unsigned places, unsigned background_places)
    : places_(std::max(places, 1U)),
      background_places_(std::clamp(background_places, 1U, places_)),
      queue_(std::make_unique<TransferQueue>()) {}

TransferRing::~TransferRing() { TransferRing::before_fork(); }

TransferId TransferRing::submit(Transfer transfer, TransferDone done) {
  check_transfer(transfer);
  SPILLWAY_CHECK(done != nullptr, "a transfer without completion");
  if (!is_aligned(transfer) || !is_direct(transfer.descriptor)) {
    return odd_.submit(transfer, std::move(done)) | kOddBit;
  }
  auto job = std::make_shared<TransferJob>(transfer, std::move(done));
  const std::lock_guard lock(mutex_);
  start_locked();
  const TransferId id = queue_->push(std::move(job));
  ++in_flight_;
  if (std::exchange(asleep_, false)) wake();
  return id;
}

bool TransferRing::cancel(TransferId id) {
  if ((id & kOddBit) != 0) return odd_.cancel(id & ~kOddBit);
  std::shared_ptr<TransferJob> job;  // its completion is destroyed after unlock
  const std::lock_guard lock(mutex_);
  job = queue_->remove(id);
  if (job == nullptr) return false;
  if (--in_flight_ == 0) all_done_.notify_all();
  return true;
}

bool TransferRing::hurry(TransferId id) {
  if ((id & kOddBit) != 0) return odd_.hurry(id & ~kOddBit);
  const std::lock_guard lock(mutex_);
  queue_->hurry(id);
  if (std::exchange(asleep_, false)) wake();
  return false;
}

void TransferRing::start_locked() {
  if (thread_.joinable()) return;
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC);
  const SignalsBlocked blocked;
  try {
    if (wake_fd_ < 0) throw std::system_error(errno, std::generic_category());
    thread_ = std::thread([this] {
      working_for = this;
      pthread_setname_np(pthread_self(), "spillway-disk");
      Loop(*this).run();
    });
  } catch (const std::system_error& failure) {
    if (wake_fd_ >= 0) ::close(std::exchange(wake_fd_, -1));
    throw UserError(fmt::format(
        "Cannot start a thread for disk transfers: {}. Raise the limit on processes (ulimit -u) or "
        "open files (ulimit -n), or the cgroup's pids.max.",
        failure.what()));
  }
}

void TransferRing::wake() {
  const std::uint64_t one = 1;
  static_cast<void>(::write(wake_fd_, &one, sizeof one) == sizeof one);
}

void TransferRing::drain() {
  SPILLWAY_CHECK(working_for != this, "a completion waits for itself");
  bool idle = false;
  while (!idle) {
    {
      std::unique_lock lock(mutex_);
      all_done_.wait(lock, [this] { return in_flight_ == 0; });
    }
    odd_.drain();
    // A completion of either may have submitted to the other.
    const std::lock_guard lock(mutex_);
    idle = in_flight_ == 0;
  }
}

void TransferRing::before_fork() {
  drain();
  odd_.before_fork();
  stop();
}

void TransferRing::stop() {
  {
    const std::lock_guard lock(mutex_);
    if (!thread_.joinable()) return;
    stopping_ = true;
    wake();
  }
  thread_.join();
  const std::lock_guard lock(mutex_);
  stopping_ = false;
  ::close(std::exchange(wake_fd_, -1));
}

void TransferRing::Loop::run() {
  // It could be had when the transfers were made; still it may be refused now.
  if (ring_.error() != 0) {
    without_ring();
    return;
  }
  for (;;) {
    if (!std::exchange(wake_armed_, true)) {
      ring_.prepare_wait_for(owner_.wake_fd_, &wake_value_, kWakeTag);
    }
    start_what_is_due();
    const bool stop = fill();
    if (!ended_.empty()) {
      // The disk gets its work before the program gets its answer.
      ring_.enter();
      complete();
      continue;
    }
    if (stop) return;
    ring_.enter_and_wait(until_next_due());
    ring_.reap([this](std::uint64_t tag, int result) {
      if (tag == kWakeTag) {
        wake_armed_ = false;
      } else {
        returned(tag, result);
      }
    });
  }
}

/// Starts as many chunks as there are places. True if there is nothing more to do, ever.
bool TransferRing::Loop::fill() {
  for (;;) {
    std::optional<TransferChunk> chunk;
    {
      const std::lock_guard lock(owner_.mutex_);
      const bool room = !free_.empty();
      if (room) chunk = owner_.queue_->take(background_allowed());
      // Woken for what could be started. While chunks run, those that end make room anyway.
      owner_.asleep_ = room && !chunk;
      if (!chunk) return owner_.stopping_ && free_.size() == places_.size();
    }
    begin(std::move(*chunk));
  }
}

void TransferRing::Loop::begin(TransferChunk chunk) {
  // After a failure the rest would be moved for nothing.
  if (chunk.length == 0 || chunk.job->has_failed()) {
    end(chunk, 0, 0);
    return;
  }
  const std::size_t place = free_.back();
  free_.pop_back();
  in_background_ += chunk.background ? 1U : 0U;
  places_[place].run.emplace(piece_of(chunk.job->transfer, true, chunk.begin, chunk.length));
  places_[place].chunk = std::move(chunk);
  call(place);
}

void TransferRing::Loop::call(std::size_t index) {
  Place& place = places_[index];
  place.call = place.run->next_call();
  const auto wait = std::chrono::nanoseconds(place.run->pause()) + place.call.delay;
  if (wait.count() > 0) {
    place.due = now_ns() + wait.count();
  } else {
    start(index);
  }
}

void TransferRing::Loop::start(std::size_t index) {
  Place& place = places_[index];
  place.due = 0;
  if (place.call.error != 0) {
    returned(index, -place.call.error);
  } else {
    ring_.prepare(place.run->piece(), place.call.ask, index);
  }
}

void TransferRing::Loop::returned(std::size_t index, std::int64_t moved) {
  Place& place = places_[index];
  place.run->after(moved);
  if (!place.run->ended()) {
    call(index);
    return;
  }
  const TransferChunk chunk = std::exchange(place.chunk, {});
  const int error = place.run->error();
  place.run.reset();
  free_.push_back(index);
  in_background_ -= chunk.background ? 1U : 0U;
  owner_.count(chunk.job->transfer.direction, error == 0 ? chunk.length : 0);
  end(chunk, error == 0 ? chunk.length : 0, error);
}

void TransferRing::Loop::end(const TransferChunk& chunk, std::uint64_t moved, int error) {
  if (chunk.job->end_chunk(moved, error)) ended_.push_back(chunk.job);
}

void TransferRing::Loop::complete() {
  for (const std::shared_ptr<TransferJob>& job : std::exchange(ended_, {})) {
    // The completion's captures are released before drain() can return.
    std::exchange(job->done, nullptr)(job->result());
    const std::lock_guard lock(owner_.mutex_);
    if (--owner_.in_flight_ == 0) owner_.all_done_.notify_all();
  }
}

void TransferRing::Loop::start_what_is_due() {
  const TimeNs now = now_ns();
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (places_[i].due != 0 && places_[i].due <= now) start(i);
  }
}

std::chrono::nanoseconds TransferRing::Loop::until_next_due() const {
  TimeNs first = 0;
  for (const Place& place : places_) {
    if (place.due != 0 && (first == 0 || place.due < first)) first = place.due;
  }
  if (first == 0) return std::chrono::nanoseconds(-1);
  return std::chrono::nanoseconds(std::max<TimeNs>(first - now_ns(), 0));
}

/// The same work with plain calls, one at a time.
void TransferRing::Loop::without_ring() {
  for (;;) {
    std::optional<TransferChunk> chunk;
    {
      const std::lock_guard lock(owner_.mutex_);
      chunk = owner_.queue_->take(true);
      owner_.asleep_ = !chunk;
      if (!chunk && owner_.stopping_) return;
    }
    if (!chunk) {
      static_cast<void>(::read(owner_.wake_fd_, &wake_value_, sizeof wake_value_) > 0);
      continue;
    }
    TransferJob& job = *chunk->job;
    const int error =
        job.has_failed() ? 0 : move_chunk(job.transfer, true, chunk->begin, chunk->length);
    const std::uint64_t moved = error == 0 && !job.has_failed() ? chunk->length : 0;
    owner_.count(job.transfer.direction, moved);
    end(*chunk, moved, error);
    complete();
  }
}

}  // namespace spillway::runtime
