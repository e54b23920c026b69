// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "spillway/testing/device/forwarding_driver.hpp"

namespace spillway::runtime {

/// Counts calls that put memory behind addresses or take it from there, by the thread that makes
/// them. A test may hold up
/// those of other threads. Thread-safe.
class MappingDriver final : public spillway::testing::ForwardingDriver {
 public:
  using ForwardingDriver::ForwardingDriver;

  Status enter_thread() override {
    return thread_enters ? ForwardingDriver::enter_thread() : Status{DeviceOutcome::kRefused, 1};
  }
  Status create(Bytes bytes, Handle& handle) override {
    note_call();
    return ForwardingDriver::create(bytes, handle);
  }
  Status map(Address address, Bytes bytes, Handle handle) override {
    note_call();
    return ForwardingDriver::map(address, bytes, handle);
  }
  Status allow_access(Address address, Bytes bytes) override {
    note_call();
    {
      std::unique_lock lock(mutex_);
      if (std::this_thread::get_id() != programs_) {
        held_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !holds_; });
        held_ = false;
      }
    }
    return ForwardingDriver::allow_access(address, bytes);
  }

  Status unmap(Address address, Bytes bytes) override {
    {
      const std::lock_guard lock(mutex_);
      ++unmaps_[std::this_thread::get_id() == programs_];
      changed_.notify_all();
    }
    return ForwardingDriver::unmap(address, bytes);
  }

  Status release(Handle handle) override {
    {
      const std::lock_guard lock(mutex_);
      ++releases_[std::this_thread::get_id() == programs_];
    }
    return ForwardingDriver::release(handle);
  }

  void hold() {
    const std::lock_guard lock(mutex_);
    holds_ = true;
  }
  void wait_until_held() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return held_; });
  }
  void release_held() {
    const std::lock_guard lock(mutex_);
    holds_ = false;
    changed_.notify_all();
  }
  /// Calls of the thread that made this, and of all others.
  int calls_of_program() { return count(true); }
  int calls_of_others() { return count(false); }
  int unmaps_of_program() {
    const std::lock_guard lock(mutex_);
    return unmaps_[true];
  }
  int releases_of_program() {
    const std::lock_guard lock(mutex_);
    return releases_[true];
  }
  void wait_until_others_unmapped(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return unmaps_[false] == count; });
  }

  bool thread_enters = true;  ///< set before a thread starts

 private:
  void note_call() {
    const std::lock_guard lock(mutex_);
    ++calls_[std::this_thread::get_id() == programs_];
  }
  int count(bool of_program) {
    const std::lock_guard lock(mutex_);
    return calls_[of_program];
  }

  const std::thread::id programs_ = std::this_thread::get_id();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<bool, int> calls_;
  std::map<bool, int> unmaps_;
  std::map<bool, int> releases_;
  bool holds_ = false;
  bool held_ = false;
};

}  // namespace spillway::runtime
