// SPDX-License-Identifier: Apache-2.0
// How much of a card's memory this process holds, as the card's driver counts: whatever allocated
// it, with the context and what libraries load. Asked of NVIDIA's management library (NVML API
// Reference, nvmlDeviceGetComputeRunningProcesses), which is opened while the program runs.
//
// The driver lists processes by their numbers outside of containers. Within one, where this
// process's own number is not listed, the only process of the card is taken to be this one.
#pragma once

#include <optional>
#include <string>

#include "spillway/base/bytes.hpp"
#include "spillway/runtime/device/nvml_abi.hpp"

namespace spillway::runtime {

class ProcessMemory {
 public:
  /// `bus`: the card's place on the bus, as cuDeviceGetPCIBusId tells it. Where the library is not
  /// there, or does not know the card, nothing is ever told.
  explicit ProcessMemory(const std::string& bus, const std::string& file = "libnvidia-ml.so.1");
  ~ProcessMemory();
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;

  /// Nothing where the driver does not tell. Any thread; asks the driver each time.
  [[nodiscard]] std::optional<Bytes> read() const;

 private:
  using List = nvml::Result(void* card, unsigned* count, nvml::Process* processes);

  void* library_;
  void* card_ = nullptr;
  List* list_ = nullptr;
};

}  // namespace spillway::runtime
