// SPDX-License-Identifier: Apache-2.0
#include "variables.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <optional>

namespace spillway::tf {

namespace {

std::string failed_write(int error) {
  return fmt::format("writing to the spool failed: {}", std::strerror(error));
}

}  // namespace

VariableMemory::VariableMemory(Variables& owner, runtime::StoredId id, std::byte* data, Bytes bytes,
                               bool counts)
    : owner_(owner), id_(id), data_(data), bytes_(bytes), counts_(counts) {
  const std::lock_guard lock(owner_.mutex_);
  owner_.bytes_ += bytes_;
  if (counts_) owner_.wanted_ += bytes_;
  owner_.peak_bytes_ = std::max(owner_.peak_bytes_, owner_.bytes_);
  place_ = owner_.variables_.insert(owner_.variables_.end(), this);
  owner_.mapped_.store(owner_.variables_.size());
}

VariableMemory::~VariableMemory() {
  {
    const std::lock_guard lock(owner_.mutex_);
    owner_.variables_.erase(place_);
    owner_.mapped_.store(owner_.variables_.size());
    owner_.bytes_ -= bytes_;
    if (counts_) owner_.wanted_ -= bytes_;
    if (counted_) owner_.counted_ -= bytes_;
    owner_.end_uncounted_locked(*this);
  }
  owner_.store_.drop(id_);
  if (counted_) owner_.memory_.uncharge(bytes_);
}

bool Variables::maps_new(Bytes bytes) {
  if (!may_map(bytes)) return false;
  const std::lock_guard lock(mutex_);
  too_many_ |= in_memory_ + bytes > options_.in_memory;
  if (!too_many_) in_memory_ += bytes;
  return too_many_;
}

bool Variables::would_be_too_many(Bytes bytes) const {
  if (!may_map(bytes)) return false;
  const std::lock_guard lock(mutex_);
  return !too_many_ && in_memory_ + bytes > options_.in_memory;
}

void Variables::died_in_memory(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  in_memory_ = saturating_sub(in_memory_, bytes);
}

std::shared_ptr<VariableMemory> Variables::make(Bytes bytes, const char* made_by) {
  std::string reason;
  try {
    if (const auto place = store_.map(bytes, made_by)) {
      return std::make_shared<VariableMemory>(*this, place->id, place->data, bytes,
                                              store_.tier(place->id) == Tier::kDisk);
    }
    reason = store_.full_reason();
  } catch (const std::exception& error) {  // no spool file can be opened
    reason = error.what();
  }
  note_refusal(reason);
  return nullptr;
}

void Variables::note_refusal(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    ++refused_;
    refusal_ = reason;
  }
  on_stays_(reason);
}

bool Variables::note_use(VariableMemory& variable) {
  bool was_counted = false;
  {
    const std::lock_guard lock(mutex_);
    variables_.splice(variables_.end(), variables_, variable.place_);
    forecast_.used(variable.uses_);
    if (!variable.counts_) return true;
    if (!options_.always_leave || variable.stays_) return variable.counted_;
    was_counted = std::exchange(variable.counted_, false);
  }
  put_aside(variable, was_counted);
  const std::lock_guard lock(mutex_);
  return variable.counted_;
}

void Variables::count(VariableMemory& variable) {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(variable.counted_, true)) {
      counted_ += variable.bytes_;
      end_uncounted_locked(variable);
      return;
    }
  }
  memory_.uncharge(variable.bytes_);  // another thread wrote it at the same time
}

std::string Variables::use(VariableMemory& variable, runtime::Access access) {
  if (note_use(variable)) return {};
  {
    std::unique_lock lock(mutex_);
    while (variable.comes_) wait_until_came(variable, lock);
    if (variable.counted_) return {};
    variable.comes_ = true;
  }
  std::string reason = bring(variable, access);
  {
    const std::lock_guard lock(mutex_);
    variable.comes_ = false;
  }
  came_.notify_all();
  return reason;
}

void Variables::wait_until_came(const VariableMemory& variable,
                                std::unique_lock<std::mutex>& lock) {
  lock.unlock();
  const TimeNs begun = memory_.begin_waiting();
  lock.lock();
  came_.wait(lock, [&variable] { return !variable.comes_; });
  lock.unlock();
  memory_.end_waiting(begun);
  lock.lock();
}

std::string Variables::bring(VariableMemory& variable, runtime::Access access) {
  if (!memory_.charge(variable.bytes_)) {
    return memory_.reason();
  }
  if (const int error = store_.bring(variable.id_, access)) {
    memory_.uncharge(variable.bytes_);
    return fmt::format("reading from the spool failed: {}", std::strerror(error));
  }
  count(variable);
  return {};
}

void Variables::begin_uncounted_locked(VariableMemory& variable) {
  if (variable.counted_ || std::exchange(variable.uncounted_, true)) return;
  uncounted_ += variable.bytes_;
  peak_uncounted_ = std::max(peak_uncounted_, uncounted_);
}

void Variables::end_uncounted_locked(VariableMemory& variable) {
  if (std::exchange(variable.uncounted_, false)) uncounted_ -= variable.bytes_;
}

std::string Variables::begin_op(VariableMemory& variable, Part part, runtime::Access access) {
  const bool uncounted = part == Part::kAllUncounted && variable.counts_;
  {
    const std::lock_guard lock(mutex_);
    ++variable.ops_;
    if (uncounted) begin_uncounted_locked(variable);
  }
  if (part == Part::kAll) return use(variable, access);
  // In fuzz the op finds it aside, as it does where memory is short.
  if (options_.always_leave) static_cast<void>(note_use(variable));
  return {};
}

void Variables::end_op(VariableMemory& variable) {
  bool stays = false;
  bool may_leave = false;
  {
    const std::lock_guard lock(mutex_);
    if (--variable.ops_ != 0) return;
    stays = variable.counted_;
    may_leave = variable.left_in_ + 1 >= step_;
    if (!stays) end_uncounted_locked(variable);
  }
  if (stays) {
    // What the op changed is on its way then, and whoever lacks room need not wait for the disk.
    if (may_leave) store_.begin_writing(variable.id_);
    return;
  }
  // Whoever counts it now brings again what goes here.
  store_.give_back(variable.id_);
}

std::string Variables::write(VariableMemory& variable, const std::byte* from) {
  static_cast<void>(begin_op(variable, Part::kSome));
  bool in_memory = note_use(variable);
  if (!in_memory && memory_.try_charge(variable.bytes_)) {
    count(variable);
    in_memory = true;
  }
  int error = 0;
  if (in_memory) {
    store_.write(variable.id_, from);
  } else {
    error = store_.write_aside(variable.id_, from);
  }
  std::string reason = error == 0 ? std::string() : failed_write(error);
  if (error != 0) keep(variable, reason);
  end_op(variable);
  return reason;
}

// It has its bytes in memory alone. Whoever puts it aside later writes them again.
void Variables::keep(VariableMemory& variable, const std::string& reason) {
  if (memory_.try_charge(variable.bytes_)) count(variable);
  note_refusal(reason);
}

VariableMemory* Variables::furthest_locked(Victims victims) const {
  VariableMemory* furthest = nullptr;
  std::uint64_t its_next = 0;
  for (VariableMemory* const variable : variables_) {
    if (!variable->counted_ || variable->stays_ || variable->dies_) continue;
    if (variable->ops_ != 0 && victims == Victims::kIdle) continue;
    const std::optional<std::uint64_t> next = forecast_.until_next(variable->uses_);
    if (!next) return variable;  // the one used longest ago of which nothing is foretold
    if (furthest != nullptr && *next <= its_next) continue;
    furthest = variable;
    its_next = *next;
  }
  return furthest;
}

std::shared_ptr<VariableMemory> Variables::take_victim(Victims victims) {
  const std::lock_guard lock(mutex_);
  while (VariableMemory* const victim = furthest_locked(victims)) {
    // Its last owner may be letting go of it just now.
    if (std::shared_ptr<VariableMemory> alive = victim->weak_from_this().lock()) {
      // Before its pages go: an op that begins meanwhile counts it anew.
      victim->counted_ = false;
      return alive;
    }
    victim->dies_ = true;
  }
  return nullptr;
}

Bytes Variables::put_aside(VariableMemory& variable, bool charged) {
  const int error = store_.put_aside(variable.id_);
  {
    const std::lock_guard lock(mutex_);
    if (error != 0) {
      variable.stays_ = true;
      // Unless somebody else counted it meanwhile.
      if (charged && !std::exchange(variable.counted_, true)) charged = false;
    }
    if (error == 0) variable.left_in_ = step_;
    if (charged) counted_ -= variable.bytes_;
  }
  if (error != 0) {
    note_refusal(failed_write(error));
  }
  if (!charged) return {};
  memory_.uncharge(variable.bytes_);
  return variable.bytes_;
}

Bytes Variables::make_room(Bytes bytes, Victims victims) {
  Bytes made{};
  while (made < bytes) {
    const std::shared_ptr<VariableMemory> victim = take_victim(victims);
    if (victim == nullptr) break;
    made += put_aside(*victim, true);
  }
  return made;
}

void Variables::end_step(std::uint64_t graph) {
  const std::lock_guard lock(mutex_);
  forecast_.round_ended(graph);
  ++step_;
}

void Variables::after_fork(bool in_child) {
  if (in_child) {
    for (VariableMemory* const variable : variables_) variable->comes_ = false;
  }
  mutex_.unlock();
}

VariablesUsage Variables::usage() const {
  const std::lock_guard lock(mutex_);
  return {.count = variables_.size(),
          .bytes = bytes_,
          .peak_bytes = peak_bytes_,
          .counted = counted_,
          .peak_uncounted = peak_uncounted_,
          .refused = refused_,
          .refusal = refusal_};
}

Bytes Variables::wanted() const {
  const std::lock_guard lock(mutex_);
  return wanted_;
}

}  // namespace spillway::tf
