// SPDX-License-Identifier: Apache-2.0
// Streams and events of the runtime's functions, and functions of the host that run in streams.
#include <unistd.h>

#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "runtime/answer.hpp"
#include "runtime/stand_in.h"

using namespace spillway;           // NOLINT(google-build-using-namespace)
using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

namespace {

runtime::DeviceEvent event_of(cudaEvent_t event) {
  return runtime::DeviceEvent{reinterpret_cast<std::uintptr_t>(event)};
}

/// Whether the card is that of the process which forked this one, as CUDA's context is then.
bool is_of_parent() {
  static const pid_t owner = getpid();
  return getpid() != owner;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned, int) {
  runtime::DeviceStream made{};
  const auto status = stand_in_card().create_stream(made);
  *stream = static_cast<cudaStream_t>(handle_of(made));
  return answer(status);
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}
cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, 0, 0);
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return answer(stand_in_card().destroy_stream(stream_of(stream)));
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return answer(stand_in_card().synchronize_stream(stream_of(stream)));
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return answer(stand_in_card().query_stream(stream_of(stream)));
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  return answer(stand_in_card().stream_wait(stream_of(stream), event_of(event)));
}
cudaError_t cudaStreamGetPriority(cudaStream_t, int* priority) {
  return *priority = 0, cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  runtime::DeviceEvent made{};
  const auto timing = (flags & cudaEventDisableTiming) != 0 ? runtime::EventTiming::kNo
                                                            : runtime::EventTiming::kYes;
  const auto status = stand_in_card().create_event(timing, made);
  *event = reinterpret_cast<cudaEvent_t>(static_cast<std::uintptr_t>(made));
  return answer(status);
}
cudaError_t cudaEventCreate(cudaEvent_t* event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return answer(stand_in_card().destroy_event(event_of(event)));
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned) {
  return answer(stand_in_card().record(event_of(event), stream_of(stream)));
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return cudaEventRecordWithFlags(event, stream, 0);
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return answer(stand_in_card().query(event_of(event)));
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return answer(stand_in_card().synchronize_event(event_of(event)));
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  TimeNs duration = 0;
  const auto status = stand_in_card().elapsed(event_of(from), event_of(to), duration);
  *milliseconds = static_cast<float>(static_cast<double>(duration) * 1e-6);
  return answer(status);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
  return answer(stand_in_card().launch(stream_of(stream), {}, [=](auto) { function(argument); }));
}
cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t function,
                                  void* argument, unsigned) {
  return answer(stand_in_card().launch(stream_of(stream), {},
                                       [=](auto) { function(stream, cudaSuccess, argument); }));
}

int stand_in_launch(void* stream, const StandInAccess* accesses, std::size_t count,
                    void (*work)(void*), void (*drop)(void*), void* argument) {
  const std::shared_ptr<void> owned(argument, drop);
  if (is_of_parent()) return answer(cudaErrorInitializationError);
  if (!load_libraries()) return answer(cudaErrorMemoryAllocation);
  std::vector<DeviceAccess> touched;
  touched.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const StandInAccess& access = accesses[i];
    if (!current_card_reaches(access.address, access.bytes)) {
      stand_in_lose("a kernel reaches memory of another card");
      return answer(cudaErrorIllegalAddress);
    }
    touched.push_back({address_of(access.address), {access.bytes}});
  }
  return answer(stand_in_card().launch(stream_of(static_cast<cudaStream_t>(stream)),
                                       std::move(touched), [=](auto) { work(owned.get()); }));
}

std::size_t stand_in_used_bytes() { return stand_in_card().used().count - second_cards_bytes(); }
unsigned stand_in_cards() { return static_cast<unsigned>(card_count()); }
std::size_t stand_in_peak_bytes() { return stand_in_card().peak().count; }

std::ptrdiff_t stand_in_distance() {
  return reinterpret_cast<std::ptrdiff_t>(stand_in_card().shadow({}));
}
}
