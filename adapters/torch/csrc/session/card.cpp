// SPDX-License-Identifier: Apache-2.0
#include "session/card.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "ops/op_facts.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/device/cuda_driver.hpp"
#include "spillway/runtime/exec/card_tiers.hpp"
#include "spillway/runtime/memory_probe.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::torch {

namespace {

runtime::DeviceStream stream_of(void* handle) {
  return runtime::DeviceStream{reinterpret_cast<std::uintptr_t>(handle)};
}

/// What `ask` returns. A card that fails is an error of torch's.
template <class Ask>
auto with_torchs_errors(const Ask& ask) {
  try {
    return ask();
  } catch (const runtime::DeviceFailure& failure) {
    TORCH_CHECK(false, "Spillway: ", failure.what());
  }
}

std::string bus_of_first_card(const runtime::CudaLibrary& library) {
  using GetBus = runtime::cuda::Result(char* bus, int bytes, runtime::cuda::Device device);
  auto* const get_bus = reinterpret_cast<GetBus*>(library.function("cuDeviceGetPCIBusId"));
  runtime::cuda::Device device = 0;
  std::array<char, 32> bus{};
  static_cast<void>(library.functions().device_get(&device, 0));
  static_cast<void>(get_bus(bus.data(), static_cast<int>(bus.size()), device));
  return bus.data();
}

std::shared_ptr<const runtime::CudaLibrary> library_for_torch() {
  cuda::require_allocator();
  auto library = std::make_shared<runtime::CudaLibrary>();
  if (const int others = library->device_count() - 1; others > 0) {
    runtime::warn_once(
        fmt::format("the budget is of the first graphics card alone, and {} more {} to be seen, "
                    "whose memory is not managed. Show each process its card by "
                    "CUDA_VISIBLE_DEVICES.",
                    others, others == 1 ? "is" : "are"));
  }
  return library;
}

}  // namespace

Card::Card() : library_(library_for_torch()), process_(bus_of_first_card(*library_)) {}

std::unique_ptr<runtime::TierSet> Card::make_tiers() {
  auto driver = std::make_unique<runtime::CudaDriver>(library_, device_.index());
  name_ = driver->facts().name;
  return std::make_unique<runtime::CardTiers>(std::move(driver));
}

void Card::install(runtime::Engine& engine) {
  engine_ = &engine;
  set_for_card();
  cuda::install_allocator_hook(*this, device_);
}

bool Card::enter_stream(runtime::Engine& engine) const {
  if (engine.in_child()) return true;
  void* const stream = cuda::current_stream(device_);
  if (cuda::pool_is_open() && library_->is_capturing(stream)) return false;
  engine.on_stream(stream_of(stream));
  return true;
}

// The pool takes a segment before anybody could make room for it: so the room for one is kept. What
// it takes while a graph is captured is the graph's, and comes on top until that is closed.
void Card::follow_unmanaged() {
  if (cuda::pool_is_open()) return;
  const auto pool = cuda::changed_pool();
  if (pool) pool_ = *pool;
  if (!measure_others() && !pool) return;
  const Bytes held = Bytes{pool_ + cuda::kNativeSegment} + others_.held();
  engine_->set_unmanaged(held, others_.expected());
}

bool Card::measure_others() {
  const TimeNs began = runtime::now_ns();
  if (!others_.claim_look(began)) return false;
  const runtime::Engine::DeviceBytes before = engine_->device_bytes();
  const auto all = process_.read();
  if (!all) {
    others_.note_nothing(began, runtime::now_ns());
    return false;
  }
  const runtime::Engine::DeviceBytes after = engine_->device_bytes();
  return others_.note({.process = *all,
                       .managed_before = before.held,
                       .managed_after = after.held,
                       .opening = std::max(before.opening, after.opening),
                       .pool = {pool_},
                       .steps = engine_->steps(),
                       .began = began,
                       .ended = runtime::now_ns()});
}

void Card::began_unseen() { Watch::get().doubt_this_thread(); }

// The tensors that a capture uses are known by its ops, which have to be seen.
void Card::pool_opens() {
  with_torchs_errors([this] { engine_->begin_captures(); });
  Watch::get().wake();
}

void* Card::allocate(std::size_t bytes, void* stream) {
  follow_unmanaged();
  Watch::get().consider_waking();
  raise_pending_failure();
  try {
    return with_torchs_errors([&] { return engine_->allocate(bytes, stream_of(stream)); });
  } catch (const runtime::OutOfBudget& error) {
    TORCH_CHECK_WITH(OutOfMemoryError, false, error.what());
  }
}

void Card::free(void* pointer) noexcept { engine_->free(static_cast<std::byte*>(pointer)); }

bool Card::owns(const void* pointer) const { return engine_->block_at(pointer) != nullptr; }

cuda::CardMemory::Block Card::block_at(const void* pointer) const {
  const runtime::DeviceBlock& block = *engine_->block_at(pointer);
  return {.address = block.address, .bytes = block.bytes};
}

void Card::record_stream(const void* pointer, void* stream) {
  with_torchs_errors([&] { engine_->record_stream(pointer, stream_of(stream)); });
}

void Card::allow_peer(int card) {
  with_torchs_errors([&] { engine_->allow_peer(card); });
}

runtime::cuda::Result Card::find_context(int card, runtime::cuda::Context& context) {
  const std::lock_guard lock(contexts_mutex_);
  if (const auto found = contexts_.find(card); found != contexts_.end()) {
    context = found->second;
    return runtime::cuda::kSuccess;
  }
  runtime::cuda::Device device = 0;
  const runtime::cuda::Functions& call = library_->functions();
  runtime::cuda::Result code = call.device_get(&device, card);
  if (code == runtime::cuda::kSuccess) code = call.context_retain(&context, device);
  if (code == runtime::cuda::kSuccess) contexts_[card] = context;
  return code;
}

int Card::copy_between_cards(void* to, int to_card, const void* from, int from_card,
                             std::size_t bytes, void* stream) {
  using Copy = runtime::cuda::Result(runtime::cuda::Pointer to, runtime::cuda::Context,
                                     runtime::cuda::Pointer from, runtime::cuda::Context,
                                     std::size_t bytes, runtime::cuda::Stream);
  static auto* const copy = reinterpret_cast<Copy*>(library_->function("cuMemcpyPeerAsync"));
  runtime::cuda::Context target = nullptr;
  runtime::cuda::Context source = nullptr;
  runtime::cuda::Result code = find_context(to_card, target);
  if (code == runtime::cuda::kSuccess) code = find_context(from_card, source);
  if (code != runtime::cuda::kSuccess) return code;
  return copy(reinterpret_cast<std::uintptr_t>(to), target, reinterpret_cast<std::uintptr_t>(from),
              source, bytes, stream);
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
