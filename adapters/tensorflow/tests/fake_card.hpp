// SPDX-License-Identifier: Apache-2.0
// A device of TensorFlow that is no card: its memory is the machine's, and its copies are made when
// the test says so, in any order, with an error, or never.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "spillway/base/bytes.hpp"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/framework/device_attributes.pb.h"
#include "tensorflow/core/framework/device_base.h"
#include "tensorflow/core/framework/tensor.h"

namespace spillway::tf::testing {

/// Counts, keeps to a limit, and writes over what is freed. One thread.
class CountingAllocator final : public ::tensorflow::Allocator {
 public:
  explicit CountingAllocator(Bytes limit) : limit_(limit) {}

  std::string Name() override { return "counting"; }
  void* AllocateRaw(size_t alignment, size_t bytes) override {
    if (held_ + bytes > limit_.count) return nullptr;
    void* memory = nullptr;
    if (::posix_memalign(&memory, alignment, bytes) != 0) return nullptr;
    sizes_[memory] = bytes;
    held_ += bytes;
    peak_ = std::max(peak_, held_);
    return memory;
  }
  void DeallocateRaw(void* memory) override {
    std::memset(memory, 0xDB, sizes_.at(memory));
    held_ -= sizes_.at(memory);
    sizes_.erase(memory);
    std::free(memory);
  }
  std::optional<::tensorflow::AllocatorStats> GetStats() override {
    ::tensorflow::AllocatorStats stats;
    stats.bytes_in_use = static_cast<int64_t>(held_);
    stats.peak_bytes_in_use = static_cast<int64_t>(peak_);
    stats.bytes_limit = static_cast<int64_t>(limit_.count);
    return stats;
  }
  bool ClearStats() override {
    peak_ = held_;
    return true;
  }

  [[nodiscard]] Bytes held() const { return {held_}; }
  void set_limit(Bytes limit) { limit_ = limit; }

 private:
  Bytes limit_;
  std::uint64_t held_ = 0;
  std::uint64_t peak_ = 0;
  std::unordered_map<void*, std::uint64_t> sizes_;
};

/// Holds every copy until it is let through.
class FakeContext final : public ::tensorflow::DeviceContext {
 public:
  void CopyCPUTensorToDevice(const ::tensorflow::Tensor* from, ::tensorflow::Device* /*device*/,
                             ::tensorflow::Tensor* to, ::tensorflow::StatusCallback done,
                             bool /*sync_dst_compute*/) const override {
    waiting_.push_back({from, to, std::move(done)});
  }
  void CopyDeviceTensorToCPU(const ::tensorflow::Tensor* from, absl::string_view /*name*/,
                             ::tensorflow::Device* /*device*/, ::tensorflow::Tensor* to,
                             ::tensorflow::StatusCallback done) override {
    waiting_.push_back({from, to, std::move(done)});
  }

  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  /// Copy number `which` of those that wait is made, and ends with the status.
  void let_through(std::size_t which = 0, const absl::Status& status = absl::OkStatus()) {
    Waiting copy = take(which);
    if (status.ok()) std::memcpy(copy.to->data(), copy.from->data(), copy.from->TotalBytes());
    copy.done(status);
  }
  /// The same with one wrong byte.
  void let_through_wrong() {
    Waiting copy = take(0);
    std::memcpy(copy.to->data(), copy.from->data(), copy.from->TotalBytes());
    static_cast<unsigned char*>(copy.to->data())[0] ^= 1U;
    copy.done(absl::OkStatus());
  }
  void let_all_through() {
    while (!waiting_.empty()) let_through();
  }

 private:
  struct Waiting {
    const ::tensorflow::Tensor* from;
    ::tensorflow::Tensor* to;
    ::tensorflow::StatusCallback done;
  };
  Waiting take(std::size_t which) {
    Waiting copy = std::move(waiting_.at(which));
    waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(which));
    return copy;
  }

  mutable std::deque<Waiting> waiting_;
};

/// GPU:0 with so much memory, in a machine that page-locks so much.
class FakeCard final : public ::tensorflow::Device {
 public:
  FakeCard(Bytes card, Bytes page_locked)
      : Device(::tensorflow::Env::Default(), attributes_of_card()),
        card_(card),
        page_locked_(page_locked) {}
  ~FakeCard() override { context_->Unref(); }

  ::tensorflow::Allocator* GetAllocator(::tensorflow::AllocatorAttributes attributes) override {
    return attributes.on_host() && attributes.gpu_compatible() ? &page_locked_ : &card_;
  }
  absl::Status Sync() override { return absl::OkStatus(); }

  [[nodiscard]] CountingAllocator& memory() { return card_; }
  [[nodiscard]] CountingAllocator& page_locked() { return page_locked_; }
  [[nodiscard]] FakeContext& context() { return *context_; }

  /// Of so many floats, from `first` upwards.
  ::tensorflow::Tensor tensor(int count, float first) {
    ::tensorflow::Tensor made(&card_, ::tensorflow::DT_FLOAT, {count});
    for (int i = 0; i < count; ++i) made.flat<float>()(i) = first + static_cast<float>(i);
    return made;
  }

 private:
  static ::tensorflow::DeviceAttributes attributes_of_card() {
    ::tensorflow::DeviceAttributes attributes;
    attributes.set_name("/job:localhost/replica:0/task:0/device:GPU:0");
    attributes.set_device_type("GPU");
    return attributes;
  }

  CountingAllocator card_;
  CountingAllocator page_locked_;
  FakeContext* context_ = new FakeContext;
};

/// Whether the tensor is `count` floats from `first` upwards.
inline bool holds(const ::tensorflow::Tensor& tensor, int count, float first) {
  if (tensor.NumElements() != count) return false;
  for (int i = 0; i < count; ++i) {
    if (tensor.flat<float>()(i) != first + static_cast<float>(i)) return false;
  }
  return true;
}

}  // namespace spillway::tf::testing
