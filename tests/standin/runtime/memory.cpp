// SPDX-License-Identifier: Apache-2.0
// Memory of the runtime's functions: allocations of the card, page-locked memory, copies and fills.
//
// An allocation is a reservation with pages of its own behind it, of whole granules, so that it
// counts as cuMem* memory does. Freeing waits for all work, as CUDA does; then the addresses are
// gone for good, and whatever touches them faults.
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "runtime/answer.hpp"

namespace spillway::testing {
namespace {

struct Allocation {
  Bytes bytes;
  runtime::PagesHandle pages;
  int card;
};

/// By address.
template <typename Value>
class Table {
 public:
  void put(const void* pointer, Value value) {
    const std::lock_guard lock(mutex_);
    values_[pointer] = value;
  }
  /// Whether it was there.
  bool take(const void* pointer, Value& value) {
    const std::lock_guard lock(mutex_);
    const auto found = values_.find(pointer);
    if (found == values_.end()) return false;
    value = found->second;
    values_.erase(found);
    return true;
  }
  template <typename Visitor>
  void visit(Visitor visitor) {
    const std::lock_guard lock(mutex_);
    for (const auto& [pointer, value] : values_) visitor(value);
  }
  /// The last that does not begin behind the pointer.
  std::optional<std::pair<const void*, Value>> before(const void* pointer) {
    const std::lock_guard lock(mutex_);
    const auto after = values_.upper_bound(pointer);
    if (after == values_.begin()) return std::nullopt;
    return *std::prev(after);
  }

 private:
  std::mutex mutex_;
  std::map<const void*, Value> values_;
};

// Never destroyed: callers free while the process ends.
auto& allocations = *new Table<Allocation>;
auto& page_locked = *new Table<std::size_t>;

runtime::DeviceStatus allocate(Bytes bytes, runtime::DeviceAddress& address) {
  ThreadDevice& card = stand_in_card();
  runtime::PagesHandle pages{};
  if (const auto status = card.create(bytes, pages); !status.done()) return status;
  auto status = card.reserve(bytes, card.facts().granule, address);
  if (status.done()) status = card.map(address, bytes, pages);
  if (status.done()) status = card.allow_access(address, bytes);
  if (status.done()) {
    allocations.put(reinterpret_cast<void*>(to_value(address)), {bytes, pages, current_card()});
  } else {
    static_cast<void>(card.release(pages));
  }
  return status;
}

runtime::DeviceStatus deallocate(runtime::DeviceAddress address, const Allocation& allocation) {
  ThreadDevice& card = stand_in_card();
  auto status = card.synchronize();
  if (status.done()) status = card.unmap(address, allocation.bytes);
  if (status.done()) status = card.release(allocation.pages);
  if (status.done()) status = card.free_reservation(address, allocation.bytes);
  return status;
}

bool is_device(const void* pointer) { return stand_in_card().is_device(address_of(pointer)); }

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    default:
      return true;
  }
}

/// What was allocated of whichever card; nothing: it is mapped, and the first's.
std::optional<int> card_that_allocated(const void* pointer) {
  const auto found = allocations.before(pointer);
  if (!found) return std::nullopt;
  const auto distance = static_cast<const char*>(pointer) - static_cast<const char*>(found->first);
  if (static_cast<std::uint64_t>(distance) >= found->second.bytes.count) return std::nullopt;
  return found->second.card;
}

/// As CUDA's plain copy asks for it between two cards. Where they reach each other, the one that
/// copies has to reach both memories; where not, neither memory is mapped.
bool may_copy(const void* to, const void* from, std::size_t bytes) {
  const std::optional<int> target = card_that_allocated(to);
  const std::optional<int> source = card_that_allocated(from);
  if (target.value_or(0) == source.value_or(0) || (target && source)) return true;
  return current_card_reaches(to, bytes) && current_card_reaches(from, bytes);
}

/// Whatever they may reach.
runtime::DeviceStatus copy_between_cards(void* to, int to_card, const void* from, int from_card,
                                         std::size_t bytes, runtime::DeviceStream stream) {
  const bool rightly = card_that_allocated(to).value_or(0) == to_card &&
                       card_that_allocated(from).value_or(0) == from_card;
  if (!rightly) return ThreadDevice::kInvalid;
  return stand_in_card().copy_within(address_of(to), address_of(from), {bytes}, stream);
}

runtime::DeviceStatus copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                           runtime::DeviceStream stream) {
  ThreadDevice& card = stand_in_card();
  const bool to_device = is_device(to);
  const bool from_device = is_device(from);
  if (!fits(kind, to_device, from_device)) return ThreadDevice::kInvalid;
  if (bytes == 0) return {};
  auto* const target = static_cast<std::byte*>(to);
  const auto* const source = static_cast<const std::byte*>(from);
  if (to_device && from_device) {
    if (!may_copy(to, from, bytes)) return ThreadDevice::kInvalid;
    return card.copy_within(address_of(to), address_of(from), {bytes}, stream);
  }
  if (to_device) return card.copy_in(address_of(to), source, {bytes}, stream);
  if (from_device) return card.copy_out(target, address_of(from), {bytes}, stream);
  const auto status = card.launch(stream, {}, [=](auto) { std::memmove(target, source, bytes); });
  return status.done() ? card.synchronize_stream(stream) : status;
}

}  // namespace

bool current_card_reaches(const void* memory, std::size_t bytes) {
  static const bool kIsAlone = second_card() == SecondCard::kNone;  // asked of each launch's memory
  if (kIsAlone) return true;
  if (current_card() == card_that_allocated(memory).value_or(0)) return true;
  if (second_card() != SecondCard::kPeer) return false;
  return card_that_allocated(memory) || current_card() == 0 ||
         stand_in_card().is_shared(address_of(memory), {bytes});
}

std::size_t second_cards_bytes() {
  std::size_t sum = 0;
  allocations.visit([&sum](const Allocation& one) { sum += one.card == 1 ? one.bytes.count : 0; });
  return sum;
}

}  // namespace spillway::testing

using namespace spillway;           // NOLINT(google-build-using-namespace)
using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  if (const auto status = stand_in_card().unsafe_call(); !status.done()) return answer(status);
  const std::uint64_t granule = stand_in_card().facts().granule;
  runtime::DeviceAddress address{};
  const auto status = allocate({(bytes + granule - 1) / granule * granule}, address);
  if (status.done()) *pointer = reinterpret_cast<void*>(to_value(address));
  return answer(status);
}

cudaError_t cudaFree(void* pointer) {
  Allocation allocation{};
  if (pointer == nullptr) return cudaSuccess;
  if (const auto status = stand_in_card().unsafe_call(); !status.done()) return answer(status);
  if (!allocations.take(pointer, allocation)) return answer(cudaErrorInvalidValue);
  return answer(deallocate(address_of(pointer), allocation));
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  runtime::DeviceMemoryInfo info;
  const auto status = stand_in_card().memory_info(info);
  *free = info.free.count;
  *total = info.total.count;
  return answer(status);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned) {
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  void* const memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return answer(cudaErrorMemoryAllocation);
  const auto status = stand_in_card().register_host(static_cast<std::byte*>(memory), {bytes});
  if (!status.done()) {
    munmap(memory, bytes);
    return answer(status);
  }
  page_locked.put(memory, bytes);
  *pointer = memory;
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return cudaHostAlloc(pointer, bytes, 0);
}

cudaError_t cudaFreeHost(void* pointer) {
  std::size_t bytes = 0;
  if (pointer == nullptr) return cudaSuccess;
  if (!page_locked.take(pointer, bytes)) return answer(cudaErrorInvalidValue);
  auto status = stand_in_card().synchronize();
  if (status.done()) status = stand_in_card().unregister_host(static_cast<std::byte*>(pointer));
  if (status.done()) munmap(pointer, bytes);
  return answer(status);
}

cudaError_t cudaHostRegister(void* pointer, std::size_t bytes, unsigned) {
  return answer(stand_in_card().register_host(static_cast<std::byte*>(pointer), {bytes}));
}

cudaError_t cudaHostUnregister(void* pointer) {
  return answer(stand_in_card().unregister_host(static_cast<std::byte*>(pointer)));
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = -2;
  if (is_device(pointer)) {
    attributes->type = cudaMemoryTypeDevice;
    attributes->devicePointer = const_cast<void*>(pointer);
    attributes->device = card_that_allocated(pointer).value_or(0);
  } else if (stand_in_card().is_page_locked(static_cast<const std::byte*>(pointer))) {
    attributes->type = cudaMemoryTypeHost;
    attributes->hostPointer = const_cast<void*>(pointer);
    attributes->device = 0;
  }
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return answer(copy(to, from, bytes, kind, stream_of(stream)));
}

cudaError_t cudaMemcpyPeerAsync(void* to, int to_card, const void* from, int from_card,
                                std::size_t bytes, cudaStream_t stream) {
  return answer(copy_between_cards(to, to_card, from, from_card, bytes, stream_of(stream)));
}

/// The driver's: contexts say which cards.
int cuMemcpyPeerAsync(std::uintptr_t to, std::uintptr_t to_context, std::uintptr_t from,
                      std::uintptr_t from_context, std::size_t bytes, cudaStream_t stream) {
  return copy_between_cards(reinterpret_cast<void*>(to), card_of(to_context),
                            reinterpret_cast<const void*>(from), card_of(from_context), bytes,
                            stream_of(stream))
      .code;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  auto status = copy(to, from, bytes, kind, {});
  if (status.done()) status = stand_in_card().synchronize_stream({});
  return answer(status);
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  if (bytes == 0) return cudaSuccess;
  return answer(stand_in_card().fill(address_of(pointer), static_cast<std::byte>(value), {bytes},
                                     stream_of(stream)));
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return cudaMemsetAsync(pointer, value, bytes, nullptr);
}
}
