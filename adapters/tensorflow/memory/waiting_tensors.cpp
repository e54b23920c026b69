// SPDX-License-Identifier: Apache-2.0
#include "waiting_tensors.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"

namespace spillway::tf {

WaitingTensor::WaitingTensor(WaitingTensors& owner, std::unique_ptr<Held> held, Bytes bytes,
                             std::uint64_t first_hole, std::uint32_t holes, const char* made_by,
                             std::int64_t step)
    : owner_(owner),
      bytes_(bytes),
      end_(first_hole + holes),
      made_by_(made_by),
      step_(step),
      hole_(first_hole),
      to_come_(holes),
      held_(std::move(held)) {
  const std::lock_guard lock(owner_.mutex_);
  place_ = owner_.tensors_.insert(owner_.tensors_.end(), this);
}

WaitingTensor::~WaitingTensor() {
  const std::lock_guard lock(owner_.mutex_);
  owner_.tensors_.erase(place_);
  owner_.count_locked(*this, false);
}

std::shared_ptr<WaitingTensor> WaitingTensors::add(std::unique_ptr<Held> held, Bytes bytes,
                                                   std::uint64_t first_hole, std::uint32_t holes,
                                                   const char* made_by, std::int64_t step) {
  return std::make_shared<WaitingTensor>(*this, std::move(held), bytes, first_hole, holes, made_by,
                                         step);
}

void WaitingTensors::count_locked(WaitingTensor& tensor, bool in_store) {
  if (tensor.counted_ == in_store) return;
  tensor.counted_ = in_store;
  in_store ? table_.stored(tensor.hole_, tensor.bytes_)
           : table_.dropped(tensor.hole_, tensor.bytes_);
}

void WaitingTensors::go_away_locked(WaitingTensor& tensor, std::unique_ptr<Held>& gone) {
  tensor.state_ = State::kAway;
  gone = std::move(tensor.held_);
  if (tensor.hole_ != tensor.end_) count_locked(tensor, true);
}

bool WaitingTensors::begin_leaving_locked(WaitingTensor& tensor, std::unique_ptr<Held>& gone) {
  if (tensor.copy_ != nullptr) {
    go_away_locked(tensor, gone);
    return false;
  }
  tensor.state_ = State::kLeaving;
  return true;
}

void WaitingTensors::leave(const std::shared_ptr<WaitingTensor>& tensor,
                           std::function<void()> done) {
  {
    const std::lock_guard lock(mutex_);
    SPILLWAY_CHECK(tensor->state_ == State::kHere && tensor->copy_ == nullptr,
                   "only what is here alone is copied");
    tensor->state_ = State::kLeaving;
  }
  start_copy(tensor, std::move(done));
}

void WaitingTensors::start_copy(const std::shared_ptr<WaitingTensor>& tensor,
                                std::function<void()> done) {
  // Without the lock: while it leaves only the end of its copy lets go of it.
  const CopyMaker::Ticket ticket = copies_.swap_out(
      *tensor->held_, tensor->bytes_,
      [this, tensor, done = std::move(done), under_way = standstill_.copy_under_way()](
          std::shared_ptr<Copy> copy, const std::string& reason) {
        end_copy(*tensor, std::move(copy), reason);
        if (done) done();
      },
      tensor->made_by_);
  const std::lock_guard lock(mutex_);
  if (tensor->state_ == State::kLeaving) tensor->ticket_ = ticket;
}

void WaitingTensors::end_copy(WaitingTensor& tensor, std::shared_ptr<Copy> copy,
                              const std::string& reason) {
  std::unique_ptr<Held> gone;
  if (copy == nullptr) {
    {
      const std::lock_guard lock(mutex_);
      tensor.state_ = State::kHere;
      tensor.stays_ = true;
      tensor.ticket_ = 0;
    }
    on_stays_(reason);
    return;
  }
  const std::lock_guard lock(mutex_);
  tensor.ticket_ = 0;
  tensor.copy_ = std::move(copy);
  if (tensor.wanted_) {
    tensor.state_ = State::kHere;
  } else {
    go_away_locked(tensor, gone);
  }
}

void WaitingTensors::pass_over(const std::shared_ptr<WaitingTensor>& tensor, std::uint64_t hole) {
  const std::lock_guard lock(mutex_);
  if (tensor->hole_ >= hole) return;
  const bool in_store = tensor->counted_;
  count_locked(*tensor, false);
  tensor->hole_ = hole;
  count_locked(*tensor, in_store);
}

std::shared_ptr<Copy> WaitingTensors::begin_ahead(const std::shared_ptr<WaitingTensor>& tensor,
                                                  std::uint64_t hole,
                                                  std::shared_ptr<RevocableWait> wait) {
  CopyMaker::Ticket queued = 0;
  std::shared_ptr<Copy> copy;
  {
    const std::lock_guard lock(mutex_);
    if (tensor->hole_ > hole || tensor->to_come_ == 0) return nullptr;
    if (tensor->state_ == State::kLeaving) {
      tensor->wanted_ = true;
      // Nobody has a use for the copy after the last swap-in.
      if (tensor->to_come_ == 1) queued = std::exchange(tensor->ticket_, 0);
    } else if (tensor->state_ == State::kAway) {
      tensor->state_ = State::kComing;
      tensor->coming_ = std::move(wait);
      copy = tensor->copy_;
    }
  }
  take_back(*tensor, queued);
  return copy;
}

void WaitingTensors::came_ahead(const std::shared_ptr<WaitingTensor>& tensor,
                                std::unique_ptr<Held> held) {
  std::vector<std::function<void()>> wanted_by;
  {
    const std::lock_guard lock(mutex_);
    tensor->state_ = State::kAway;
    tensor->coming_.reset();
    if (held != nullptr && tensor->to_come_ != 0) {
      tensor->state_ = State::kHere;
      tensor->held_ = std::move(held);
      count_locked(*tensor, false);
    }
    wanted_by.swap(tensor->on_come_);
  }
  held.reset();  // before a user of it begins
  for (const auto& again : wanted_by) again();
}

Taken WaitingTensors::take(const std::shared_ptr<WaitingTensor>& tensor,
                           std::function<void()> again) {
  std::uint64_t hole = 0;
  std::shared_ptr<RevocableWait> coming;
  {
    const std::lock_guard lock(mutex_);
    if (tensor->state_ == State::kComing) {
      SPILLWAY_CHECK(again != nullptr, "only what somebody brings ahead is coming");
      tensor->on_come_.push_back(
          [again = std::move(again), under_way = standstill_.copy_under_way()] { again(); });
      coming = tensor->coming_;
    } else {
      count_locked(*tensor, false);
      if (tensor->hole_ != tensor->end_) ++tensor->hole_;
      hole = tensor->hole_;
      tensor->wanted_ = false;
    }
  }
  if (coming != nullptr) {
    if (coming->revoke()) came_ahead(tensor, nullptr);
    return {};
  }
  const bool last = hole == tensor->end_;
  const bool passes = !last && !table_.copies(hole, tensor->bytes_, tensor->step_);
  Taken taken;
  std::unique_ptr<Held> gone;
  CopyMaker::Ticket queued = 0;
  bool write = false;
  {
    const std::lock_guard lock(mutex_);
    tensor->passes_ = passes;
    // While the table was asked another swap-in may have overtaken this one.
    if (tensor->to_come_ != 0) --tensor->to_come_;
    const bool alone = tensor->to_come_ == 0;
    // Coming: for the next hole, meanwhile.
    if (tensor->state_ == State::kAway || tensor->state_ == State::kComing) {
      taken.copy = tensor->copy_;
      if (tensor->hole_ != tensor->end_) count_locked(*tensor, true);
      return taken;
    }
    if (alone && tensor->state_ == State::kHere) {
      // The user then holds it alone, and may put its result in its place.
      taken.held = std::move(tensor->held_);
      return taken;
    }
    taken.held = tensor->held_->share();
    if (tensor->state_ == State::kLeaving) {
      if (alone || passes) queued = std::exchange(tensor->ticket_, 0);
    } else if (!last && !passes && !tensor->stays_) {
      write = begin_leaving_locked(*tensor, gone);
    }
  }
  if (write) start_copy(tensor, {});
  take_back(*tensor, queued);
  return taken;
}

void WaitingTensors::came_back(const std::shared_ptr<WaitingTensor>& tensor,
                               std::unique_ptr<Held> held) {
  const std::lock_guard lock(mutex_);
  if (tensor->state_ != State::kAway || tensor->hole_ == tensor->end_ || !tensor->passes_) return;
  tensor->state_ = State::kHere;
  tensor->held_ = std::move(held);
  count_locked(*tensor, false);
}

void WaitingTensors::abandon(const std::shared_ptr<WaitingTensor>& tensor) {
  CopyMaker::Ticket queued = 0;
  std::shared_ptr<RevocableWait> coming;
  {
    const std::lock_guard lock(mutex_);
    count_locked(*tensor, false);
    tensor->hole_ = tensor->end_;
    tensor->to_come_ = 0;
    queued = std::exchange(tensor->ticket_, 0);
    coming = tensor->coming_;
  }
  take_back(*tensor, queued);
  if (coming != nullptr && coming->revoke()) came_ahead(tensor, nullptr);
}

void WaitingTensors::take_back(WaitingTensor& tensor, CopyMaker::Ticket ticket) {
  if (ticket == 0 || !copies_.cancel_out(ticket)) return;
  std::unique_ptr<Held> gone;
  const std::lock_guard lock(mutex_);
  tensor.state_ = State::kHere;
  if (tensor.to_come_ == 0) gone = std::move(tensor.held_);
}

Bytes WaitingTensors::find_victims_locked(Bytes bytes, Bytes at_least, Victims& victims) {
  Bytes found{};
  for (WaitingTensor* const tensor : tensors_) {
    if (found >= bytes) break;
    if (tensor->bytes_ < at_least || tensor->state_ != State::kHere || tensor->stays_ ||
        tensor->hole_ == tensor->end_) {
      continue;
    }
    if (!tensor->held_->is_sole()) continue;
    // Its last owner may be letting go of it just now.
    std::shared_ptr<WaitingTensor> alive = tensor->weak_from_this().lock();
    if (alive == nullptr) continue;
    found += tensor->bytes_;
    tensor->wanted_ = false;
    Victim& victim =
        victims.emplace_back(Victim{.tensor = std::move(alive), .hole = tensor->hole_});
    victim.write = begin_leaving_locked(*tensor, victim.gone);
  }
  return found;
}

Bytes WaitingTensors::held() const {
  const std::lock_guard lock(mutex_);
  std::map<const std::byte*, Bytes> held;  // views of a tensor begin where it does
  for (const WaitingTensor* const tensor : tensors_) {
    if (tensor->held_ == nullptr) continue;
    Bytes& bytes = held[tensor->held_->data()];
    bytes = std::max(bytes, tensor->bytes_);
  }
  Bytes sum{};
  for (const auto& [data, bytes] : held) sum += bytes;
  return sum;
}

Bytes WaitingTensors::make_room(Bytes bytes, Smallest smallest) {
  Victims victims;  // destroyed with no lock held
  Bytes found{};
  {
    const std::lock_guard lock(mutex_);
    Bytes at_least = table_.smallest();
    found = find_victims_locked(bytes, at_least, victims);
    while (smallest == Smallest::kAny && found < bytes && table_.least() < at_least) {
      at_least = std::max(Bytes{at_least.count / 2}, table_.least());
      found += find_victims_locked(bytes - found, at_least, victims);
    }
  }
  for (const Victim& victim : victims) {
    table_.had_to_leave(victim.hole, victim.tensor->bytes());
    if (victim.write) start_copy(victim.tensor, {});
  }
  return found;
}

}  // namespace spillway::tf
