// SPDX-License-Identifier: Apache-2.0
// A libcuda that is none: the functions that CudaDriver asks for, on a ThreadDevice. Built as a
// library of its own, which a test opens by its path in place of NVIDIA's, and in the one that
// stands in for CUDA's runtime too (tests/standin).
//
// STAND_IN_CUDA=no-device: cuInit says that there is no card; no-mapping: the card cannot map
// memory at addresses of a program's choice. A kernel does nothing for as many nanoseconds as its
// first argument says.
#include <dlfcn.h>

#include <chrono>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>
#include <thread>
#include <utility>

#include "failing_calls.hpp"
#include "spillway/runtime/device/cuda_abi.hpp"
#include "spillway/testing/device/stand_in_card.hpp"

// The names are NVIDIA's, and so are the parameters.
// NOLINTBEGIN(readability-identifier-naming)
namespace {

using namespace spillway;           // NOLINT(google-build-using-namespace)
using namespace spillway::runtime;  // NOLINT(google-build-using-namespace)
namespace cuda = spillway::runtime::cuda;

constexpr std::uintptr_t kModule = 0x2000;
constexpr cuda::Result kInvalidDevice = 101;
constexpr cuda::Result kInvalidContext = 201;

testing::CaptureDevice& card() { return testing::stand_in_card(); }

cuda::Result code(DeviceStatus status) { return status.code; }
/// Of what needs the card's context to be current.
template <typename Call>
cuda::Result in_context(Call call) {
  return testing::current_context() == testing::kCardsContext ? code(call()) : kInvalidContext;
}
DeviceAddress at(cuda::Pointer pointer) { return DeviceAddress{pointer}; }
DeviceStream stream_of(cuda::Stream stream) { return testing::stream_of_handle(stream); }
DeviceEvent event_of(cuda::Event event) {
  return DeviceEvent{reinterpret_cast<std::uintptr_t>(event)};
}
std::byte* bytes_of(void* memory) { return static_cast<std::byte*>(memory); }

/// As the header's constants say, not as the structures' own defaults do.
bool on_device_0(int allocation, const cuda::MemLocation& location) {
  return allocation == 1 && location.type == 1 && location.id == 0;
}

bool is_asked_for(std::string_view fault) {
  const char* const wanted = std::getenv("STAND_IN_CUDA");
  return wanted != nullptr && wanted == fault;
}

cuda::Result init(unsigned) { return is_asked_for("no-device") ? cuda::kErrorNoDevice : 0; }
cuda::Result driver_version(int* version) { return *version = 13000, 0; }
cuda::Result error_name(cuda::Result error, const char** name) {
  static const std::map<int, const char*> kNames{{0, "CUDA_SUCCESS"},
                                                 {1, "CUDA_ERROR_INVALID_VALUE"},
                                                 {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                 {100, "CUDA_ERROR_NO_DEVICE"},
                                                 {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                 {600, "CUDA_ERROR_NOT_READY"},
                                                 {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                 {800, "CUDA_ERROR_NOT_PERMITTED"}};
  const auto found = kNames.find(error);
  if (found == kNames.end()) return 1;
  return *name = found->second, 0;
}
cuda::Result error_string(cuda::Result error, const char** text) {
  const char* name = nullptr;
  if (error_name(error, &name) != 0) return 1;
  return *text = "an error of the stand-in's", 0;
}
cuda::Result device_count(int* count) { return *count = testing::card_count(), 0; }
cuda::Result device_get(cuda::Device* device, int ordinal) {
  return *device = ordinal, testing::is_card(ordinal) ? 0 : kInvalidDevice;
}
cuda::Result device_name(char* name, int length, cuda::Device) {
  std::strncpy(name, "stand-in card", static_cast<std::size_t>(length) - 1);
  return 0;
}
cuda::Result device_attribute(int* value, int attribute, cuda::Device) {
  return *value = attribute == 102 && !is_asked_for("no-mapping") ? 1 : 0, 0;
}
cuda::Result device_memory(std::size_t* bytes, cuda::Device) {
  return *bytes = card().facts().memory.count, 0;
}
cuda::Result context_retain(cuda::Context* context, cuda::Device device) {
  return *context = reinterpret_cast<cuda::Context>(testing::context_of(device)), 0;
}
cuda::Result context_release(cuda::Device) { return 0; }
cuda::Result context_set(cuda::Context context) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(context);
  if (wanted != 0 && testing::card_of(wanted) < 0) return 1;
  return testing::current_context() = wanted, 0;
}
cuda::Result context_get(cuda::Context* context) {
  return *context = reinterpret_cast<cuda::Context>(testing::current_context()), 0;
}
cuda::Result context_synchronize() {
  return in_context([] { return card().synchronize(); });
}
cuda::Result exchange_capture_mode(int* mode) {
  if (*mode < 0 || *mode > 2) return 1;
  testing::CaptureMode& current = testing::CaptureDevice::thread_mode();
  const auto wanted = static_cast<testing::CaptureMode>(*mode);
  *mode = static_cast<int>(std::exchange(current, wanted));
  return 0;
}
cuda::Result memory_info(std::size_t* free, std::size_t* total) {
  DeviceMemoryInfo info;
  const cuda::Result result = in_context([&info] { return card().memory_info(info); });
  *free = info.free.count;
  *total = info.total.count;
  return result;
}
cuda::Result granularity(std::size_t* granule, const cuda::MemAllocationProp* prop, int) {
  if (!on_device_0(prop->type, prop->location)) return 1;
  return *granule = card().facts().granule, 0;
}
cuda::Result address_reserve(cuda::Pointer* pointer, std::size_t bytes, std::size_t alignment,
                             cuda::Pointer, cuda::Flags flags) {
  DeviceAddress address{};
  if (flags != 0) return 1;
  const DeviceStatus status = card().reserve({bytes}, alignment, address);
  *pointer = to_value(address);
  return code(status);
}
cuda::Result address_free(cuda::Pointer pointer, std::size_t bytes) {
  return code(card().free_reservation(at(pointer), {bytes}));
}
cuda::Result mem_create(cuda::Handle* handle, std::size_t bytes,
                        const cuda::MemAllocationProp* prop, cuda::Flags flags) {
  PagesHandle made{};
  if (flags != 0 || !on_device_0(prop->type, prop->location)) return 1;
  const DeviceStatus status = card().create({bytes}, made);
  *handle = static_cast<cuda::Handle>(made);
  return code(status);
}
cuda::Result mem_map(cuda::Pointer pointer, std::size_t bytes, std::size_t offset,
                     cuda::Handle handle, cuda::Flags flags) {
  if (offset != 0 || flags != 0) return 1;
  return code(card().map(at(pointer), {bytes}, PagesHandle{handle}));
}
cuda::Result mem_set_access(cuda::Pointer pointer, std::size_t bytes,
                            const cuda::MemAccessDesc* access, std::size_t count) {
  if (count == 0 || access->flags != 3 || !on_device_0(1, access->location)) return 1;
  const bool shared = count == 2 && access[1].flags == 3 && access[1].location.type == 1 &&
                      access[1].location.id == 1;
  if (count > 1 && !(shared && testing::second_card() == testing::SecondCard::kPeer)) return 1;
  const cuda::Result result = code(card().allow_access(at(pointer), {bytes}));
  return result == 0 && shared ? code(card().share(at(pointer), {bytes})) : result;
}
cuda::Result mem_unmap(cuda::Pointer pointer, std::size_t bytes) {
  return code(card().unmap(at(pointer), {bytes}));
}
cuda::Result mem_release(cuda::Handle handle) { return code(card().release(PagesHandle{handle})); }
cuda::Result host_register(void* memory, std::size_t bytes, unsigned) {
  return in_context([=] { return card().register_host(bytes_of(memory), {bytes}); });
}
cuda::Result host_unregister(void* memory) {
  return in_context([=] { return card().unregister_host(bytes_of(memory)); });
}
cuda::Result stream_create(cuda::Stream* stream, unsigned flags, int) {
  DeviceStream made{};
  if (flags != 1) return 1;
  const cuda::Result result = in_context([&made] { return card().create_stream(made); });
  *stream = static_cast<cuda::Stream>(testing::handle_of(made));
  return result;
}
cuda::Result stream_destroy(cuda::Stream stream) {
  return code(card().destroy_stream(stream_of(stream)));
}
cuda::Result stream_wait(cuda::Stream stream, cuda::Event event, unsigned) {
  return in_context([=] { return card().stream_wait(stream_of(stream), event_of(event)); });
}
cuda::Result stream_synchronize(cuda::Stream stream) {
  return in_context([=] { return card().synchronize_stream(stream_of(stream)); });
}
cuda::Result stream_is_capturing(cuda::Stream stream, int* status) {
  return *status = static_cast<int>(card().capture_of(stream_of(stream)).status), 0;
}
cuda::Result event_create(cuda::Event* event, unsigned flags) {
  DeviceEvent made{};
  const auto timing = (flags & 2U) != 0 ? EventTiming::kNo : EventTiming::kYes;
  const cuda::Result result = in_context([&] { return card().create_event(timing, made); });
  *event = reinterpret_cast<cuda::Event>(static_cast<std::uintptr_t>(made));
  return result;
}
cuda::Result event_destroy(cuda::Event event) {
  return code(card().destroy_event(event_of(event)));
}
cuda::Result event_record(cuda::Event event, cuda::Stream stream) {
  return in_context([=] { return card().record(event_of(event), stream_of(stream)); });
}
cuda::Result event_query(cuda::Event event) { return code(card().query(event_of(event))); }
cuda::Result event_synchronize(cuda::Event event) {
  return code(card().synchronize_event(event_of(event)));
}
cuda::Result event_elapsed(float* milliseconds, cuda::Event from, cuda::Event to) {
  TimeNs duration = 0;
  const DeviceStatus status = card().elapsed(event_of(from), event_of(to), duration);
  *milliseconds = static_cast<float>(static_cast<double>(duration) * 1e-6);
  return code(status);
}
cuda::Result copy_out(void* to, cuda::Pointer from, std::size_t bytes, cuda::Stream stream) {
  return in_context(
      [=] { return card().copy_out(bytes_of(to), at(from), {bytes}, stream_of(stream)); });
}
cuda::Result copy_in(cuda::Pointer to, const void* from, std::size_t bytes, cuda::Stream stream) {
  return in_context([=] {
    return card().copy_in(at(to), static_cast<const std::byte*>(from), {bytes}, stream_of(stream));
  });
}
cuda::Result copy_within(cuda::Pointer to, cuda::Pointer from, std::size_t bytes,
                         cuda::Stream stream) {
  return in_context(
      [=] { return card().copy_within(at(to), at(from), {bytes}, stream_of(stream)); });
}
cuda::Result fill(cuda::Pointer pointer, unsigned char value, std::size_t bytes,
                  cuda::Stream stream) {
  return in_context(
      [=] { return card().fill(at(pointer), std::byte{value}, {bytes}, stream_of(stream)); });
}
cuda::Result module_load(cuda::Module* module, const void*) {
  return *module = reinterpret_cast<cuda::Module>(kModule), 0;
}
cuda::Result module_function(cuda::Function* function, cuda::Module module, const char*) {
  return *function = module, 0;
}
cuda::Result launch(cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                    unsigned, cuda::Stream stream, void** arguments, void**) {
  const auto duration = std::chrono::nanoseconds(*static_cast<const std::int64_t*>(arguments[0]));
  return in_context([=] {
    return card().launch(stream_of(stream), {},
                         [duration](auto) { std::this_thread::sleep_for(duration); });
  });
}

template <typename Signature>
void* address_of(Signature* function) {
  return reinterpret_cast<void*>(function);
}

struct Function {
  void* address;
  testing::Failures* failures;
};

/// By the names that cuGetProcAddress knows.
const std::map<std::string_view, Function>& functions() {
  static const std::map<std::string_view, Function> kFunctions{
#define STAND_IN(member, cuda_name, parameters) \
  {#cuda_name,                                  \
   {address_of(&testing::Failing<&(member)>::call), &testing::Failing<&(member)>::failures()}},
      SPILLWAY_CUDA_FUNCTIONS(STAND_IN) SPILLWAY_CUDA_LAUNCH_FUNCTIONS(STAND_IN)
#undef STAND_IN
  };
  return kFunctions;
}

/// What else the library that holds this function exports.
void* exported_here(const char* name) {
  Dl_info info{};
  if (dladdr(address_of(&exported_here), &info) == 0) return nullptr;
  static void* const kLibrary = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  return dlsym(kLibrary, name);
}

}  // namespace

// CudaDriver makes no captures: programs do, and tests.
extern "C" {
#define SPILLWAY_CUDA __attribute__((visibility("default"))) cuda::Result

SPILLWAY_CUDA cuStreamBeginCapture(cuda::Stream stream, int mode) {
  return code(card().begin_capture(stream_of(stream), static_cast<testing::CaptureMode>(mode)));
}
SPILLWAY_CUDA cuStreamEndCapture(cuda::Stream stream, void** graph) {
  testing::CapturedGraph captured;
  *graph = nullptr;  // nobody launches one by the driver's functions
  return code(card().end_capture(stream_of(stream), captured));
}
#undef SPILLWAY_CUDA
}

extern "C" __attribute__((visibility("default"))) int cuGetProcAddress_v2(const char* name,
                                                                          void** found, int,
                                                                          std::uint64_t, int*) {
  const auto known = functions().find(name);
  *found = known != functions().end() ? known->second.address : exported_here(name);
  return *found != nullptr ? 0 : 500;
}

extern "C" __attribute__((visibility("default"))) int stand_in_fail(const char* name, unsigned nth,
                                                                    int code, int and_later) {
  const auto known = functions().find(name);
  if (known == functions().end()) return -1;
  if (nth != 0) known->second.failures->begin(nth, code, and_later != 0);
  return known->second.failures->count();
}
// NOLINTEND(readability-identifier-naming)
