// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/device_watcher.hpp"

#include <pthread.h>

#include <exception>
#include <utility>

#include "spillway/runtime/signals_blocked.hpp"

namespace spillway::runtime {

DeviceWatcher::DeviceWatcher(DeviceDriver& driver, std::function<bool()> look,
                             std::function<void(const std::string&)> failed)
    : driver_(driver), look_(std::move(look)), failed_(std::move(failed)) {
  const SignalsBlocked blocked;
  thread_ = std::thread([this] { watch(); });
}

DeviceWatcher::~DeviceWatcher() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void DeviceWatcher::wake() {
  {
    const std::lock_guard lock(mutex_);
    woken_ = true;
  }
  changed_.notify_all();
}

void DeviceWatcher::watch() {
  pthread_setname_np(pthread_self(), "spillway-device");
  try {
    expect_done(driver_, driver_.enter_thread(), "entering a thread");
    look_while_needed();
  } catch (const std::exception& failure) {  // of the device, or what a copy's end ran into
    failed_(failure.what());
  }
}

void DeviceWatcher::look_while_needed() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (!std::exchange(woken_, false)) {
      changed_.wait(lock, [this] { return stopping_ || woken_; });
      continue;
    }
    lock.unlock();
    const bool more = look_();
    lock.lock();
    if (!more) continue;
    woken_ = true;
    changed_.wait_for(lock, kPause, [this] { return stopping_; });
  }
}

}  // namespace spillway::runtime
