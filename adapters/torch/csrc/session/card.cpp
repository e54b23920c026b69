// SPDX-License-Identifier: Apache-2.0
#include "session/card.hpp"

#include <cstddef>
#include <cstdint>

#include "ops/op_facts.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/device/cuda_driver.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"

namespace spillway::torch {

namespace {

runtime::DeviceStream stream_of(void* handle) {
  return runtime::DeviceStream{reinterpret_cast<std::uintptr_t>(handle)};
}

std::shared_ptr<const runtime::CudaLibrary> library_for_torch() {
  cuda::require_allocator();
  return std::make_shared<runtime::CudaLibrary>();
}

}  // namespace

Card::Card()
    : library_(library_for_torch()),
      is_capturing_(reinterpret_cast<IsCapturing*>(library_->function("cuStreamIsCapturing"))) {}

std::unique_ptr<runtime::TierSet> Card::make_tiers() const {
  return std::make_unique<runtime::CardTiers>(
      std::make_unique<runtime::CudaDriver>(library_, device_.index()));
}

void Card::install(runtime::Engine& engine) {
  engine_ = &engine;
  set_for_card();
  cuda::install_allocator_hook(*this, device_);
}

bool Card::enter_stream(runtime::Engine& engine) const {
  void* const stream = cuda::current_stream(device_);
  int capturing = 0;
  if (cuda::pool_is_open() && is_capturing_(stream, &capturing) == runtime::cuda::kSuccess &&
      capturing != 0) {
    return false;
  }
  engine.on_stream(stream_of(stream));
  return true;
}

void* Card::allocate(std::size_t bytes, void* stream) {
  Watch::get().consider_waking();
  raise_pending_failure();
  try {
    engine_->on_stream(stream_of(stream));
    return engine_->allocate(bytes);
  } catch (const runtime::OutOfBudget& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  } catch (const runtime::DeviceFailure& failure) {
    TORCH_CHECK(false, "Spillway: ", failure.what());
  }
}

void Card::free(void* pointer) noexcept { engine_->free(static_cast<std::byte*>(pointer)); }

bool Card::owns(const void* pointer) const { return engine_->block_at(pointer) != nullptr; }

cuda::CardMemory::Block Card::block_at(const void* pointer) const {
  const runtime::DeviceBlock& block = *engine_->block_at(pointer);
  return {.address = block.address, .bytes = block.bytes};
}

void Card::record_stream(const void* pointer, void* stream) {
  try {
    engine_->record_stream(pointer, stream_of(stream));
  } catch (const runtime::DeviceFailure& failure) {
    TORCH_CHECK(false, "Spillway: ", failure.what());
  }
}

cuda::CardMemory::Use Card::use() const {
  const runtime::Statistics now = engine_->statistics();
  const auto number = [](Bytes bytes) { return static_cast<std::int64_t>(bytes.count); };
  return {.allocated = number(engine_->live_now()),
          .peak_allocated = number(now.peak_live),
          .reserved = number(now.device),
          .peak_reserved = number(now.peak_device)};
}

}  // namespace spillway::torch
