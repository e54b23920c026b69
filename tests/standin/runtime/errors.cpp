// SPDX-License-Identifier: Apache-2.0
// Errors of the runtime's functions: the last of each thread, and their texts. A lost card says
// what it was lost by.
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "runtime/answer.hpp"

namespace spillway::testing {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

const std::map<cudaError_t, std::pair<const char*, const char*>>& known() {
  static const auto* const errors = new std::map<cudaError_t, std::pair<const char*, const char*>>{
      {cudaSuccess, {"cudaSuccess", "no error"}},
      {cudaErrorInvalidValue, {"cudaErrorInvalidValue", "invalid argument"}},
      {cudaErrorMemoryAllocation, {"cudaErrorMemoryAllocation", "out of memory"}},
      {cudaErrorInitializationError, {"cudaErrorInitializationError", "initialization error"}},
      {cudaErrorInvalidDevice, {"cudaErrorInvalidDevice", "invalid device ordinal"}},
      {cudaErrorNotReady, {"cudaErrorNotReady", "device not ready"}},
      {cudaErrorIllegalAddress,
       {"cudaErrorIllegalAddress", "an illegal memory access was encountered"}},
      {cudaErrorNotPermitted, {"cudaErrorNotPermitted", "operation not permitted"}},
      {cudaErrorStreamCaptureUnsupported,
       {"cudaErrorStreamCaptureUnsupported", "operation not permitted when stream is capturing"}},
      {cudaErrorStreamCaptureInvalidated,
       {"cudaErrorStreamCaptureInvalidated", "operation failed due to a previous error"}},
      {cudaErrorStreamCaptureUnmatched,
       {"cudaErrorStreamCaptureUnmatched", "the capture was not begun in this stream"}},
      {cudaErrorStreamCaptureUnjoined,
       {"cudaErrorStreamCaptureUnjoined", "capturing stream has unjoined work"}},
      {cudaErrorStreamCaptureIsolation,
       {"cudaErrorStreamCaptureIsolation",
        "dependency created on uncaptured work in another stream"}},
      {cudaErrorCapturedEvent,
       {"cudaErrorCapturedEvent",
        "operation not permitted on an event last recorded in a "
        "capturing stream"}}};
  return *errors;
}

/// Kept for good: callers hold the pointer as long as they like.
const char* text_of_loss() {
  static auto* const text = new std::string;
  static auto* const mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  if (text->empty()) {
    *text = "the stand-in card was lost";
    for (const std::string& complaint : stand_in_card().complaints()) *text += ": " + complaint;
  }
  return text->c_str();
}

}  // namespace

cudaError_t answer(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void unmodelled(const char* function, const char* detail) {
  std::fprintf(stderr, "stand-in card: %s is not modelled%s%s\n", function,
               *detail != 0 ? ": " : "", detail);
  std::abort();
}

}  // namespace spillway::testing

using namespace spillway::testing;  // NOLINT(google-build-using-namespace)

extern "C" {

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error;
  last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error; }

const char* cudaGetErrorName(cudaError_t error) {
  const auto found = known().find(error);
  return found == known().end() ? "unrecognized error code" : found->second.first;
}

const char* cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorIllegalAddress) return text_of_loss();
  const auto found = known().find(error);
  return found == known().end() ? "unrecognized error code" : found->second.second;
}

void stand_in_lose(const char* why) {
  std::fprintf(stderr, "stand-in card: %s\n", why);
  stand_in_card().lose(why);
}

/// What the generated stubs call.
[[noreturn]] void stand_in_unmodelled(const char* function) { unmodelled(function); }
}
