// SPDX-License-Identifier: Apache-2.0
// NVIDIA's driver library, opened while the program runs: nothing of ours links it, so one build
// runs with and without a card.
//
// The library stays loaded for the life of the process, since it starts threads of its own.
// Thread-safe once constructed.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "spillway/runtime/device/cuda_abi.hpp"

namespace spillway::runtime {

namespace cuda {
/// The functions of the library, all of them there.
struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): of a type, which has none
#define SPILLWAY_CUDA_MEMBER(member, name, parameters) Result(*member) parameters = nullptr;
  SPILLWAY_CUDA_FUNCTIONS(SPILLWAY_CUDA_MEMBER)
#undef SPILLWAY_CUDA_MEMBER
};
}  // namespace cuda

/// What the driver says of a card before there is a context on it.
struct CudaCard {
  std::string name;
  bool maps_memory = false;  ///< at addresses of the program's choice, as a budget of it needs
};

/// Whether the driver shows a card. False, too, where it does not start. Makes no context.
bool a_card_is_seen(const std::string& file = "libcuda.so.1");

class CudaLibrary {
 public:
  /// Opens the library `file`. Throws UserError, saying what is missing and what to do, where the
  /// library or a function of it is not there, the driver is too old, or there is no card. Makes no
  /// context: a process may still be forked for as long as the child does not use the card.
  explicit CudaLibrary(const std::string& file = "libcuda.so.1");

  [[nodiscard]] const cuda::Functions& functions() const { return functions_; }
  [[nodiscard]] int device_count() const { return device_count_; }
  /// Of a card that there is, counted from 0. What the driver does not say is empty.
  [[nodiscard]] CudaCard card(int ordinal) const;
  /// The address of a function that is not in the table; throws UserError if it is not there.
  [[nodiscard]] void* function(const char* name) const;
  /// Whether work of the stream is captured for a graph; of the default stream also whether it
  /// would wait for one that is.
  [[nodiscard]] bool is_capturing(cuda::Stream stream) const;
  /// `name (number): what it means`, in the library's words.
  [[nodiscard]] std::string text(cuda::Result code) const;

 private:
  void resolve_all();
  void start();

  std::string file_;
  void* library_;
  cuda::GetProcAddress* get_ = nullptr;
  cuda::GetProcAddressV2* get_v2_ = nullptr;
  cuda::Functions functions_;
  int device_count_ = 0;
};

}  // namespace spillway::runtime
