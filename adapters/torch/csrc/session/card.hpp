// SPDX-License-Identifier: Apache-2.0
// The graphics card whose memory has a budget: its tiers, and what torch's allocator asks of its
// engine.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "cuda/allocator_hook.hpp"
#include "spillway/runtime/device/cuda_library.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/process_memory.hpp"
#include "spillway/runtime/device/unmanaged_gauge.hpp"
#include "spillway/runtime/exec/engine.hpp"
#include "spillway/runtime/exec/tier_set.hpp"
#include "torch_headers.hpp"

namespace spillway::torch {

class Card final : public cuda::CardMemory {
 public:
  /// The first card that the driver shows. Throws UserError, in words, where there is none, or
  /// torch has no memory there that can be managed.
  Card();

  [[nodiscard]] c10::Device device() const { return device_; }
  /// As the driver names it; empty before `make_tiers`.
  [[nodiscard]] const std::string& name() const { return name_; }
  /// Makes the card's context. Throws UserError where the card cannot be used.
  [[nodiscard]] std::unique_ptr<runtime::TierSet> make_tiers();
  /// torch's memory on the card is the engine's from now on; once. Throws UserError.
  void install(runtime::Engine& engine);

  /// What the calling thread launches from now on is its current stream's. False: that stream
  /// captures a graph, whose work is launched later, unseen.
  bool enter_stream(runtime::Engine& engine) const;
  /// The budget covers what the process holds there besides, too: torch's own pool, the context,
  /// what libraries load. Looks whether that changed, and may then wait for tensors to leave.
  void follow_unmanaged();

  void* allocate(std::size_t bytes, void* stream) override;
  void free(void* pointer) noexcept override;
  [[nodiscard]] bool owns(const void* pointer) const override;
  [[nodiscard]] Block block_at(const void* pointer) const override;
  void record_stream(const void* pointer, void* stream) override;
  void allow_peer(int card) override;
  int copy_between_cards(void* to, int to_card, const void* from, int from_card, std::size_t bytes,
                         void* stream) override;
  void release_idle() override { engine_->release_idle(); }
  void reset_peak() override { engine_->reset_peak(); }
  void began_unseen() override;
  void pool_opens() override;
  void pool_closes() noexcept override { engine_->end_captures(); }
  void pool_grew() override { follow_unmanaged(); }
  [[nodiscard]] Use use() const override;

 private:
  bool measure_others();
  runtime::cuda::Result find_context(int card, runtime::cuda::Context& context);

  std::shared_ptr<const runtime::CudaLibrary> library_;
  c10::Device device_{c10::kCUDA, 0};
  std::string name_;
  runtime::Engine* engine_ = nullptr;
  runtime::ProcessMemory process_;
  std::mutex contexts_mutex_;
  std::map<int, runtime::cuda::Context> contexts_;  // of other cards too, kept for life
  std::atomic<std::uint64_t> pool_{0};
  runtime::UnmanagedGauge others_;  // context and libraries
};

}  // namespace spillway::torch
