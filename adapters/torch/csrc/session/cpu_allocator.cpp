// SPDX-License-Identifier: Apache-2.0
#include "session/cpu_allocator.hpp"

#include "session/watch.hpp"
#include "threads/landing.hpp"

namespace spillway::torch {

namespace {

// Above torch's default (0), below nothing that is known.
constexpr std::uint8_t kPriority = 100;

// Kept here, since each allocation and each free would look it up. Set before torch has the
// allocator.
runtime::Engine* g_engine = nullptr;

void free_memory(void* pointer) {
  if (pointer == nullptr) return;
  c10::profiledCPUMemoryReporter().Delete(pointer);
  g_engine->free(static_cast<std::byte*>(pointer));
}

class CpuAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    if (void* const place = Landing::take(bytes)) return {place, c10::Device(c10::kCPU)};
    Watch::get().consider_waking();
    raise_pending_failure();
    try {
      std::byte* pointer = g_engine->allocate(bytes);
      c10::profiledCPUMemoryReporter().New(pointer, bytes);
      return {pointer, pointer, &free_memory, c10::Device(c10::kCPU)};
    } catch (const runtime::OutOfBudget& error) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
    }
  }

  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &free_memory; }

  void copy_data(void* destination, const void* source, std::size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

}  // namespace

c10::DeleterFnPtr cpu_deleter() { return &free_memory; }

void install_cpu_allocator(runtime::Engine& engine) {
  g_engine = &engine;
  static auto* allocator = new CpuAllocator();
  c10::SetCPUAllocator(allocator, kPriority);
}

}  // namespace spillway::torch
