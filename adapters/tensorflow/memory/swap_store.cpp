// SPDX-License-Identifier: Apache-2.0
#include "swap_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "spillway/runtime/signals_blocked.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::tf {
namespace {

using runtime::now_ns;
using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// As in budgeted_memory.cpp, and longer than there: an allocation of an op that gives up frees what
// a swap-in may still use.
constexpr milliseconds kPatience{2000};
constexpr milliseconds kLook{20};
// As long as a small copy takes.
constexpr milliseconds kLookAhead{2};

// A copy under way, until its last owner is gone: one that was cancelled has none then.
class Passing {
 public:
  explicit Passing(LinkMeter& meter) : meter_(meter) { meter_.begin(now_ns()); }
  ~Passing() { meter_.end(now_ns(), passed_); }
  Passing(const Passing&) = delete;
  Passing& operator=(const Passing&) = delete;

  void passed(Bytes bytes) { passed_ = bytes; }

 private:
  LinkMeter& meter_;
  Bytes passed_{};
};

}  // namespace

SwapStore::SwapStore(runtime::TieredStoreOptions options,
                     std::unique_ptr<runtime::Transfers> transfers, BudgetedMemory& memory,
                     std::unique_ptr<DelayedEnds> delays)
    : memory_(memory),
      store_(std::move(options), std::move(transfers)),
      delays_(std::move(delays)) {
  const runtime::SignalsBlocked blocked;
  out_thread_ = std::thread([this] { run_out(); });
  in_thread_ = std::thread([this] { run_in(); });
}

SwapStore::~SwapStore() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_.notify_all();
  out_thread_.join();
  in_thread_.join();
  store_.drain();
  if (delays_) delays_->drain();
}

runtime::StoreDone SwapStore::held_back(runtime::StoreDone end) {
  if (delays_ == nullptr) return end;
  return [this, end = std::move(end)](int error) { delays_->hold([end, error] { end(error); }); };
}

SwapStore::Ticket SwapStore::swap_out(const std::byte* memory, Bytes bytes, SwapOutDone done,
                                      const char* made_by) {
  Ticket ticket = 0;
  {
    std::unique_lock lock(mutex_);
    if (in_child_) {  // where no thread copies
      lock.unlock();
      done(nullptr, "");
      return 0;
    }
    memory_.expect_room(bytes);
    ticket = ++last_ticket_;
    out_.push_back({.ticket = ticket,
                    .memory = memory,
                    .bytes = bytes,
                    .done = std::move(done),
                    .made_by = made_by});
  }
  work_.notify_all();
  return ticket;
}

bool SwapStore::cancel_out(Ticket ticket) {
  std::list<Leaving> gone;  // destroyed with no lock held
  std::shared_ptr<StoredCopy> copy;
  Bytes bytes{};
  {
    const std::lock_guard lock(mutex_);
    if (in_child_) return false;
    const auto found = std::ranges::find(out_, ticket, &Leaving::ticket);
    if (found != out_.end()) {
      bytes = found->bytes;
      gone.splice(gone.end(), out_, found);
    } else if (const auto writing = writing_.find(ticket); writing != writing_.end()) {
      copy = writing->second;
      bytes = copy->bytes();
    } else {
      return false;
    }
  }
  if (copy != nullptr) {
    if (!store_.cancel(copy->id())) return false;
    const std::lock_guard lock(mutex_);
    writing_.erase(ticket);
  }
  memory_.room_came(bytes);
  return true;
}

std::optional<runtime::StoredId> SwapStore::reserve(const Leaving& leaving, std::string& reason) {
  try {
    const auto id = store_.reserve(leaving.bytes, Tier::kHost, leaving.made_by);
    if (!id) reason = store_.full_reason();
    return id;
  } catch (const std::exception& error) {  // no spool file can be opened
    reason = error.what();
    return std::nullopt;
  }
}

void SwapStore::swap_out_now(const Leaving& leaving) {
  const auto& [ticket, memory, bytes, done, made_by] = leaving;
  std::string reason;
  const std::optional<runtime::StoredId> id = reserve(leaving, reason);
  if (!id) {
    done(nullptr, reason);
    memory_.room_came(bytes);
    return;
  }
  auto copy = std::make_shared<StoredCopy>(store_, *id, bytes);
  const auto end = [this, ticket = ticket, bytes = bytes, copy, done = done,
                    passing = std::make_shared<Passing>(out_meter_)](int error) {
    {
      const std::lock_guard lock(mutex_);
      writing_.erase(ticket);
    }
    if (error == 0) {
      passing->passed(bytes);
      done(copy, "");
    } else {
      done(nullptr, fmt::format("writing to the spool failed: {}", std::strerror(error)));
    }
    memory_.room_came(bytes);
  };
  {
    const std::lock_guard lock(mutex_);
    writing_.emplace(ticket, copy);
  }
  try {
    store_.store(*id, memory, held_back(end));
  } catch (const std::exception& error) {  // no thread can be started
    {
      const std::lock_guard lock(mutex_);
      writing_.erase(ticket);
    }
    done(nullptr, error.what());
    memory_.room_came(bytes);
  }
}

void SwapStore::run_out() {
  std::unique_lock lock(mutex_);
  for (;;) {
    work_.wait(lock, [this] { return stopping_ || (paused_ == 0 && !out_.empty()); });
    if (out_.empty()) return;
    std::optional<Leaving> next(std::move(out_.front()));
    out_.pop_front();
    ++busy_;
    lock.unlock();
    swap_out_now(*next);
    next.reset();  // what `done` holds goes with no lock held
    lock.lock();
    end_work();
  }
}

void SwapStore::end_work() {
  if (--busy_ == 0) idle_.notify_all();
}

SwapStore::Ticket SwapStore::swap_in(std::shared_ptr<Copy> copy, std::size_t alignment,
                                     SwapInDone done, Urgency urgency) {
  Ticket ticket = 0;
  {
    std::unique_lock lock(mutex_);
    if (in_child_) {
      lock.unlock();
      done(nullptr, "a forked process cannot read what its parent swapped out");
      return 0;
    }
    ticket = ++last_ticket_;
    (urgency == Urgency::kAhead ? ahead_ : in_)
        .push_back({.ticket = ticket,
                    .copy = std::static_pointer_cast<StoredCopy>(std::move(copy)),
                    .alignment = alignment,
                    .done = std::move(done),
                    .urgency = urgency});
  }
  work_.notify_all();
  memory_.wake();  // it may fit where the ones before it wait
  return ticket;
}

bool SwapStore::cancel_in(Ticket ticket) {
  std::list<Request> gone;  // destroyed with no lock held
  const std::lock_guard lock(mutex_);
  for (std::list<Request>* const requests : {&in_, &ahead_}) {
    const auto found = std::ranges::find(*requests, ticket, &Request::ticket);
    if (found == requests->end()) continue;
    gone.splice(gone.end(), *requests, found);
    return true;
  }
  return false;
}

void SwapStore::run_in() {
  std::uint64_t seen = 0;
  auto quiet_since = Clock::now();
  for (;;) {
    bool needed = false;
    {
      std::unique_lock lock(mutex_);
      if (nothing_to_bring_locked()) {
        work_.wait(lock,
                   [this] { return stopping_ || (paused_ == 0 && !nothing_to_bring_locked()); });
        quiet_since = Clock::now();
      } else {
        work_.wait(lock, [this] { return stopping_ || paused_ == 0; });
      }
      needed = !in_.empty();
      if (!needed && stopping_) return;
      if (nothing_to_bring_locked()) continue;  // cancelled while work was paused
      ++busy_;
    }
    const bool started = start_those_with_room();
    {
      std::unique_lock lock(mutex_);
      end_work();
      // Those ahead have all the time, and no free need wake them.
      if (!started && !needed) {
        work_.wait_for(lock, kLookAhead, [this] { return stopping_ || !in_.empty(); });
      }
    }
    if (started || !needed) {
      quiet_since = Clock::now();
      continue;
    }
    make_room_for_first();
    const std::uint64_t now = memory_.wait_for_room(seen, kLook);
    if (now != seen || memory_.room_expected()) quiet_since = Clock::now();
    if (Clock::now() - quiet_since >= kPatience) {
      fail_first();
      quiet_since = Clock::now();
    }
    seen = now;
  }
}

// Not the first alone: one that is wanted soon may fit where one for later does not.
bool SwapStore::start_those_with_room() {
  std::vector<std::pair<Request, std::byte*>> started;
  const auto start_locked = [&](std::list<Request>& requests, const auto& find_place) {
    for (auto request = requests.begin(); request != requests.end();) {
      const auto next = std::next(request);
      if (std::byte* const place = find_place(*request)) {
        started.emplace_back(std::move(*request), place);
        requests.erase(request);
      }
      request = next;
    }
  };
  {
    const std::lock_guard lock(mutex_);
    start_locked(in_, [this](const Request& request) {
      return memory_.try_allocate(request.copy->bytes(), request.alignment);
    });
    if (in_.empty()) {
      start_locked(ahead_, [this](const Request& request) {
        return memory_.try_allocate_spare(request.copy->bytes(), request.alignment);
      });
    }
  }
  for (const auto& [request, place] : started) load(request, place);
  return !started.empty();
}

void SwapStore::load(const Request& request, std::byte* memory) {
  // What comes ahead is a victim as soon as it is there.
  const bool makes_room = request.urgency == Urgency::kAhead;
  if (makes_room) memory_.expect_room(Bytes{});
  const auto fail = [this, memory, done = request.done, makes_room](const std::string& reason) {
    memory_.free(memory);
    done(nullptr, reason);
    if (makes_room) memory_.room_came(Bytes{});
  };
  const auto end = [this, memory, copy = request.copy, done = request.done, fail, makes_room,
                    passing = std::make_shared<Passing>(in_meter_)](int error) {
    if (error != 0) {
      fail(fmt::format("reading from the spool failed: {}", std::strerror(error)));
      return;
    }
    passing->passed(copy->bytes());
    done(memory, "");
    if (makes_room) memory_.room_came(Bytes{});
  };
  try {
    store_.load(request.copy->id(), memory, held_back(end));
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void SwapStore::make_room_for_first() {
  Bytes bytes{};
  {
    const std::lock_guard lock(mutex_);
    if (in_.empty()) return;
    bytes = in_.front().copy->bytes();
  }
  memory_.make_room(bytes);
}

void SwapStore::fail_first() {
  Request first;
  {
    const std::lock_guard lock(mutex_);
    if (in_.empty()) return;
    first = std::move(in_.front());
    in_.pop_front();
  }
  std::byte* const place = memory_.allocate_now(first.copy->bytes(), first.alignment);
  if (place != nullptr) {
    load(first, place);
  } else {
    first.done(nullptr, memory_.reason());
  }
}

void SwapStore::pause() {
  {
    std::unique_lock lock(mutex_);
    ++paused_;
    idle_.wait(lock, [this] { return busy_ == 0; });
  }
  store_.drain();
  if (delays_) delays_->drain();
}

void SwapStore::before_fork() {
  mutex_.lock();
  if (delays_) delays_->before_fork();
  store_.before_fork();
  out_meter_.before_fork();
  in_meter_.before_fork();
}

void SwapStore::after_fork(bool in_child) {
  in_meter_.after_fork();
  out_meter_.after_fork();
  in_child_ = in_child;
  --paused_;
  store_.after_fork(in_child);
  if (delays_) delays_->after_fork();
  mutex_.unlock();
  if (!in_child) work_.notify_all();
}

}  // namespace spillway::tf
