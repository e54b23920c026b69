// SPDX-License-Identifier: Apache-2.0
#include "cuda/allocator_hook.hpp"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <typeinfo>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cuda/pool_growth.hpp"
#include "cuda/slots.hpp"
#include "spillway/base/error.hpp"
#include "threads/landing.hpp"

namespace spillway::torch::cuda {

namespace {

using c10::Allocator;
using c10::DataPtr;
using c10::CachingDeviceAllocator::DeviceStats;
using Function = void (*)();
using PoolId = std::pair<unsigned long long, unsigned long long>;  // c10::MempoolId_t

constexpr const char* kObject = "_ZN3c104cuda20CUDACachingAllocator9allocatorE";
constexpr std::string_view kKnownType = "NativeCachingAllocator";
/// Before the functions of a table: the offset to the whole object, and its type.
constexpr std::size_t kHead = 2;
/// More than the functions of any minor; what lies behind the table is copied and never looked at.
constexpr std::size_t kFunctions = 96;
constexpr std::size_t kProbe = std::size_t{2} << 20;

using Table = std::array<Function, kHead + kFunctions>;

struct Hook {
  CardMemory* memory = nullptr;
  c10::Device card{c10::kCUDA, 0};
  const Slots* slots = nullptr;
  Allocator* object = nullptr;
  const Function* native = nullptr;  // the table that was there
  Table table{};
  std::atomic<int> open_pools{0};
  std::atomic<bool> pool_grows{true};
  std::atomic<int> looks{0};
  bool told_of_growth = false;
};
Hook g_hook;  // set before torch sees the table

/// Of an allocator that nobody has used yet.
struct FirstUse {
  int (*begin)() = nullptr;
  const Function* native = nullptr;
  Table table{};
};
FirstUse g_first_use;  // likewise

// A function f(object, ...) is called as a virtual member function is: the address of a result that
// is no plain value first, then the object.
template <class Signature>
Signature* native(std::size_t slot) {
  return reinterpret_cast<Signature*>(g_hook.native[slot]);
}

bool is_ours(const void* pointer) { return g_hook.memory->owns(pointer); }

bool serves(std::size_t bytes) {
  if (bytes <= kNativeSize || g_hook.open_pools.load(std::memory_order_relaxed) != 0) return false;
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getDevice() == g_hook.card;
}

void* take(std::size_t bytes) {
  return g_hook.memory->allocate(bytes, current_stream(g_hook.card));
}

/// Streams of other cards that use memory of ours, as programs say. They have no place among this
/// card's streams: what they were given, the current stream of this one waits for, and with it all
/// that uses the memory later.
class OtherCardsStreams {
 public:
  /// Waits for what the stream was given so far, in case the memory leaves, and again when the
  /// memory is freed.
  void add(const void* pointer, c10::Stream stream) {
    order_after(pointer, stream);
    const std::lock_guard lock(mutex_);
    streams_[pointer].push_back(stream);
    any_.store(true, std::memory_order_relaxed);
  }
  /// False: some cannot be waited for, and the memory may be nobody else's.
  [[nodiscard]] bool end(const void* pointer) noexcept {
    if (!any_.load(std::memory_order_relaxed)) return true;
    try {
      std::vector<c10::Stream> streams;
      {
        const std::lock_guard lock(mutex_);
        const auto found = streams_.find(pointer);
        if (found == streams_.end()) return true;
        streams = std::move(found->second);
        streams_.erase(found);
      }
      for (const c10::Stream stream : streams) order_after(pointer, stream);
      return true;
    } catch (...) {
      return false;
    }
  }

 private:
  static void order_after(const void* pointer, c10::Stream stream) {
    const c10::Stream current = c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(g_hook.card);
    c10::Event given(c10::kCUDA);
    given.record(stream);
    given.block(current);
    g_hook.memory->record_stream(pointer, current.native_handle());
  }

  std::mutex mutex_;
  std::unordered_map<const void*, std::vector<c10::Stream>> streams_;
  std::atomic<bool> any_{false};
};
auto& g_other_streams = *new OtherCardsStreams;  // memory is freed while the process ends

void free_ours(void* pointer) {
  if (g_other_streams.end(pointer)) g_hook.memory->free(pointer);
}

void free_any(void* pointer) {
  if (is_ours(pointer)) {
    free_ours(pointer);
  } else {
    native<c10::DeleterFnPtr(const Allocator*)>(g_hook.slots->raw_deleter)(g_hook.object)(pointer);
  }
}

// An op may make many small tensors before the next op begins.
template <class Made>
Made made_by_native(Made made) {
  if (g_hook.pool_grows.load(std::memory_order_relaxed)) g_hook.memory->pool_grew();
  return made;
}

DataPtr allocate(Allocator* object, std::size_t bytes) {
  if (void* const place = Landing::take(bytes)) return {place, g_hook.card};
  if (!serves(bytes)) {
    return made_by_native(
        native<DataPtr(Allocator*, std::size_t)>(g_hook.slots->allocate)(object, bytes));
  }
  void* const pointer = take(bytes);
  return {pointer, pointer, &free_ours, g_hook.card};
}

c10::DeleterFnPtr raw_deleter(const Allocator*) { return &free_any; }

void* raw_alloc(Allocator* object, std::size_t bytes) {
  if (serves(bytes)) return take(bytes);
  return made_by_native(
      native<void*(Allocator*, std::size_t)>(g_hook.slots->raw_alloc)(object, bytes));
}

void* raw_alloc_with_stream(Allocator* object, std::size_t bytes, void* stream) {
  if (serves(bytes)) return g_hook.memory->allocate(bytes, stream);
  return made_by_native(native<void*(Allocator*, std::size_t, void*)>(
      g_hook.slots->raw_alloc_with_stream)(object, bytes, stream));
}

void raw_delete(Allocator* object, void* pointer) {
  if (is_ours(pointer)) {
    free_ours(pointer);
  } else {
    native<void(Allocator*, void*)>(g_hook.slots->raw_delete)(object, pointer);
  }
}

void* base_allocation(Allocator* object, void* pointer, std::size_t* bytes) {
  if (!is_ours(pointer)) {
    return native<void*(Allocator*, void*, std::size_t*)>(g_hook.slots->base_allocation)(
        object, pointer, bytes);
  }
  const CardMemory::Block block = g_hook.memory->block_at(pointer);
  if (bytes != nullptr) *bytes = block.bytes;
  return block.address;
}

// torch's own type of a stream is a c10::Stream and nothing else.
template <std::size_t Slots::*kSlot>
void record_stream(Allocator* object, const DataPtr& data, c10::Stream stream) {
  if (is_ours(data.get())) {
    if (stream.device() != g_hook.card) return g_other_streams.add(data.get(), stream);
    g_hook.memory->record_stream(data.get(), stream.native_handle());
  } else {
    native<void(Allocator*, const DataPtr&, c10::Stream)>(g_hook.slots->*kSlot)(object, data,
                                                                                stream);
  }
}

void empty_cache(Allocator* object, PoolId pool) {
  native<void(Allocator*, PoolId)>(g_hook.slots->empty_cache)(object, pool);
  g_hook.pool_grows.store(true);
  if (pool == PoolId{}) g_hook.memory->release_idle();
}

DeviceStats native_stats(Allocator* object, c10::DeviceIndex device) {
  return native<DeviceStats(Allocator*, c10::DeviceIndex)>(g_hook.slots->device_stats)(object,
                                                                                       device);
}

DeviceStats device_stats(Allocator* object, c10::DeviceIndex device) {
  DeviceStats stats = native_stats(object, device);
  if (device != g_hook.card.index()) return stats;
  const CardMemory::Use use = g_hook.memory->use();
  const auto add = [](c10::CachingAllocator::StatArray& to, std::int64_t now, std::int64_t peak) {
    for (const auto kind : {c10::CachingAllocator::StatType::AGGREGATE,
                            c10::CachingAllocator::StatType::LARGE_POOL}) {
      to[static_cast<std::size_t>(kind)].current += now;
      to[static_cast<std::size_t>(kind)].peak += peak;
    }
  };
  for (auto* const array : {&stats.allocated_bytes, &stats.active_bytes, &stats.requested_bytes}) {
    add(*array, use.allocated, use.peak_allocated);
  }
  add(stats.reserved_bytes, use.reserved, use.peak_reserved);
  return stats;
}

void reset_peak_stats(Allocator* object, c10::DeviceIndex device) {
  native<void(Allocator*, c10::DeviceIndex)>(g_hook.slots->reset_peak_stats)(object, device);
  if (device == g_hook.card.index()) g_hook.memory->reset_peak();
}

// One that was opened before the hook was there is not counted.
void close_pool() {
  int open = g_hook.open_pools.load();
  while (open > 0 && !g_hook.open_pools.compare_exchange_weak(open, open - 1)) {
  }
  if (open > 0) g_hook.memory->pool_closes();
}

// A filter says which streams use the pool; it is a std::function, which goes by address. All
// allocations are torch's own meanwhile.
void begin_pool(Allocator* object, c10::DeviceIndex device, PoolId pool, void* filter) {
  g_hook.open_pools.fetch_add(1);
  try {
    g_hook.memory->pool_opens();
    native<void(Allocator*, c10::DeviceIndex, PoolId, void*)>(g_hook.slots->begin_pool)(
        object, device, pool, filter);
  } catch (...) {  // it is not open, and nobody will end it
    close_pool();
    throw;
  }
}

void end_pool(Allocator* object, c10::DeviceIndex device, PoolId pool) {
  native<void(Allocator*, c10::DeviceIndex, PoolId)>(g_hook.slots->end_pool)(object, device, pool);
  close_pool();
}

struct IpcHandle {
  std::ptrdiff_t offset;
  std::string handle;
};
IpcHandle share_ipc_handle(Allocator* object, void* pointer) {
  TORCH_CHECK(!is_ours(pointer),
              "Spillway: a tensor of more than 1 MiB on a graphics card with a budget cannot be "
              "shared with other processes. Share a copy in CPU memory, or hold the "
              "CPU's memory: SPILLWAY_BUDGET=cpu:8GiB.");
  return native<IpcHandle(Allocator*, void*)>(g_hook.slots->share_ipc_handle)(object, pointer);
}

// torch asks once for each pair of cards that can reach each other, before the first copy.
void enable_peer_access(Allocator* object, c10::DeviceIndex from, c10::DeviceIndex to) {
  native<void(Allocator*, c10::DeviceIndex, c10::DeviceIndex)>(g_hook.slots->enable_peer_access)(
      object, from, to);
  if (to == g_hook.card.index()) g_hook.memory->allow_peer(from);
}

// torch knows of its own memory alone whether it is mapped: between cards CUDA refuses a plain copy
// of mapped memory unless both reach it (CUDACachingAllocator.h).
int memcpy_async(Allocator* object, void* to, int to_card, const void* from, int from_card,
                 std::size_t bytes, void* stream, bool peers) {
  if (to_card != from_card && (is_ours(to) || is_ours(from))) {
    return g_hook.memory->copy_between_cards(to, to_card, from, from_card, bytes, stream);
  }
  return native<int(Allocator*, void*, int, const void*, int, std::size_t, void*, bool)>(
      g_hook.slots->memcpy_async)(object, to, to_card, from, from_card, bytes, stream, peers);
}

template <class F>
void replace_in(Table& table, std::size_t slot, F* function) {
  table.at(kHead + slot) = reinterpret_cast<Function>(function);
}

template <class F>
void replace(std::size_t slot, F* function) {
  replace_in(g_hook.table, slot, function);
}

void copy_table(const Function* from, Table& to) {
  const Function* const whole = from - kHead;
  std::copy(whole, whole + to.size(), to.begin());
}

void make_table() {
  copy_table(g_hook.native, g_hook.table);
  const Slots& slots = *g_hook.slots;
  replace(slots.allocate, &allocate);
  replace(slots.raw_deleter, &raw_deleter);
  replace(slots.empty_cache, &empty_cache);
  replace(slots.device_stats, &device_stats);
  replace(slots.reset_peak_stats, &reset_peak_stats);
  replace(slots.record_stream, &record_stream<&Slots::record_stream>);
  replace(slots.record_cuda_stream, &record_stream<&Slots::record_cuda_stream>);
  replace(slots.raw_alloc, &raw_alloc);
  replace(slots.raw_alloc_with_stream, &raw_alloc_with_stream);
  replace(slots.raw_delete, &raw_delete);
  replace(slots.base_allocation, &base_allocation);
  replace(slots.begin_pool, &begin_pool);
  replace(slots.end_pool, &end_pool);
  replace(slots.share_ipc_handle, &share_ipc_handle);
  replace(slots.enable_peer_access, &enable_peer_access);
  replace(slots.memcpy_async, &memcpy_async);
}

[[noreturn]] void refuse(const std::string& why) {
  throw UserError(fmt::format("{}. To hold the CPU's memory: SPILLWAY_BUDGET=cpu:8GiB.", why));
}

void* library_of_torch() { return ::dlopen("libc10_cuda.so", RTLD_LAZY | RTLD_NOLOAD); }

Allocator* find_object() {
  void* const library = library_of_torch();
  if (library != nullptr && slots_of_torch() == nullptr) {
    refuse(
        "Spillway was built beside a PyTorch without CUDA, and this one has it. Install Spillway "
        "again in this environment");
  }
  if (library == nullptr) {
    refuse("This PyTorch is built without CUDA, so it has no memory on a graphics card");
  }
  const auto* const object = static_cast<std::atomic<Allocator*>*>(::dlsym(library, kObject));
  Allocator* const allocator = object != nullptr ? object->load() : nullptr;
  if (allocator == nullptr || allocator != c10::GetAllocator(c10::kCUDA)) {
    refuse(
        "PyTorch's allocator for graphics cards is another than Spillway knows: a program has "
        "put its own in its place");
  }
  const std::string type = typeid(*allocator).name();
  if (type.find(kKnownType) == std::string::npos) {
    refuse(
        fmt::format("PyTorch's allocator for graphics cards is of the type {}, which Spillway "
                    "does not join: unset \"backend\" in PYTORCH_ALLOC_CONF",
                    type));
  }
  return allocator;
}

// The copy may read past the table's end, but not past the library's.
void require_same_library(const Function* table) {
  Dl_info first{};
  Dl_info last{};
  if (::dladdr(table - kHead, &first) == 0 || ::dladdr(table + kFunctions, &last) == 0 ||
      first.dli_fbase != last.dli_fbase) {
    refuse(
        "The table of PyTorch's allocator for graphics cards lies where Spillway cannot copy it");
  }
}

void set_table(Allocator* object, const Function* table) {
  __atomic_store_n(reinterpret_cast<const Function**>(object), table, __ATOMIC_RELEASE);
}

const Function* table_of(const Allocator* object) {
  return __atomic_load_n(reinterpret_cast<const Function* const*>(object), __ATOMIC_ACQUIRE);
}

const Function* waiting_table() { return g_first_use.table.data() + kHead; }

// The function in this place of whatever table the allocator has when somebody began.
template <class Signature>
Signature* begun(Allocator* object, std::size_t slot) {
  TORCH_CHECK(g_first_use.begin() == kGoesOn,
              "Spillway: the budget of the graphics card's memory was refused, so there is none");
  const Function* expected = waiting_table();
  // Nobody starts: unless somebody else has meanwhile.
  __atomic_compare_exchange_n(reinterpret_cast<const Function**>(object), &expected,
                              g_first_use.native, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  if (g_hook.memory != nullptr) g_hook.memory->began_unseen();
  return reinterpret_cast<Signature*>(table_of(object)[slot]);
}

DataPtr first_allocate(Allocator* object, std::size_t bytes) {
  return begun<DataPtr(Allocator*, std::size_t)>(object, slots_of_torch()->allocate)(object, bytes);
}

void* first_raw_alloc(Allocator* object, std::size_t bytes) {
  return begun<void*(Allocator*, std::size_t)>(object, slots_of_torch()->raw_alloc)(object, bytes);
}

void* first_raw_alloc_with_stream(Allocator* object, std::size_t bytes, void* stream) {
  return begun<void*(Allocator*, std::size_t, void*)>(
      object, slots_of_torch()->raw_alloc_with_stream)(object, bytes, stream);
}

// As torch calls it. What is wrong; empty: nothing.
std::string try_out(Allocator& object) {
  const c10::DeviceGuard guard(g_hook.card);
  const DataPtr data = object.allocate(kProbe);
  if (!is_ours(data.get()) || data.get_deleter() != card_deleter()) return "allocate";
  if (data.device() != g_hook.card) return "the device of what it allocates";
  if (object.raw_deleter() != &free_any) return "raw_deleter";
  if (typeid(object).name() == nullptr) return "its type";
  return {};
}

}  // namespace

c10::DeleterFnPtr card_deleter() { return &free_ours; }

bool torch_has_a_card() { return library_of_torch() != nullptr && at::hasCUDA(); }

void require_allocator() { static_cast<void>(find_object()); }

void await_first_use(int (*begin)()) {
  Allocator* const object = find_object();
  const Function* const table = table_of(object);
  require_same_library(table);
  g_first_use.begin = begin;
  g_first_use.native = table;
  copy_table(table, g_first_use.table);
  const Slots& slots = *slots_of_torch();
  replace_in(g_first_use.table, slots.allocate, &first_allocate);
  replace_in(g_first_use.table, slots.raw_alloc, &first_raw_alloc);
  replace_in(g_first_use.table, slots.raw_alloc_with_stream, &first_raw_alloc_with_stream);
  set_table(object, waiting_table());
}

void install_allocator_hook(CardMemory& memory, c10::Device card) {
  if (g_hook.memory != nullptr) return;
  Allocator* const object = find_object();
  const Function* const before = table_of(object);
  const Function* const table = before == waiting_table() ? g_first_use.native : before;
  require_same_library(table);
  g_hook.memory = &memory;
  g_hook.card = card;
  g_hook.slots = slots_of_torch();
  g_hook.object = object;
  g_hook.native = table;
  make_table();
  set_table(object, g_hook.table.data() + kHead);
  std::string trouble;
  std::string shortage;
  try {
    trouble = try_out(*object);
  } catch (const c10::OutOfMemoryError& error) {
    shortage = error.what_without_backtrace();
  } catch (const c10::Error& error) {
    trouble = error.what_without_backtrace();
  }
  if (trouble.empty() && shortage.empty()) {
    g_hook.told_of_growth = tell_growth(g_hook.pool_grows);
    return;
  }
  set_table(object, before);
  g_hook.memory = nullptr;
  if (trouble.empty()) {
    throw UserError(
        fmt::format("SPILLWAY_BUDGET (of the graphics card) has no room beside the context and "
                    "libraries: {}",
                    shortage));
  }
  refuse("PyTorch's allocator for graphics cards does not serve as it should: " + trouble);
}

void* current_stream(c10::Device card) {
  return c10::impl::VirtualGuardImpl(c10::kCUDA).getStream(card).native_handle();
}

// It is told before it grows, and does so by and by: a second look sees what the first came too
// early for.
std::optional<std::size_t> changed_pool() {
  if (g_hook.memory == nullptr) return std::nullopt;
  if (!g_hook.told_of_growth || g_hook.pool_grows.exchange(false)) {
    g_hook.looks.store(2);
  } else if (g_hook.looks.load(std::memory_order_relaxed) <= 0) {
    return std::nullopt;
  }
  g_hook.looks.fetch_sub(1);
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  try {
    const DeviceStats stats = native_stats(g_hook.object, g_hook.card.index());
    return static_cast<std::size_t>(stats.reserved_bytes[kAll].current);
  } catch (const c10::Error&) {  // torch makes its pools with its first op on a card
    g_hook.pool_grows.store(true);
    return 0;
  }
}

bool pool_is_open() { return g_hook.open_pools.load(std::memory_order_relaxed) != 0; }

}  // namespace spillway::torch::cuda
