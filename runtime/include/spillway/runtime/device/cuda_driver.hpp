// SPDX-License-Identifier: Apache-2.0
// A card of NVIDIA's as a DeviceDriver.
//
// Retains the card's primary context, the one that a framework uses too, so addresses, streams and
// events may be exchanged with it. Which errors lose the device: those after which, by the driver's
// documentation, every call in the process fails.
#pragma once

#include <memory>
#include <vector>

#include "spillway/runtime/device/cuda_library.hpp"
#include "spillway/runtime/device/device_driver.hpp"
#include "spillway/runtime/device/fair_mutex.hpp"

namespace spillway::runtime {

class CudaDriver final : public DeviceDriver {
 public:
  /// Makes the context, and makes it current in the calling thread. Throws UserError, in words,
  /// where the card does not exist or cannot be used.
  CudaDriver(std::shared_ptr<const CudaLibrary> library, int ordinal);
  ~CudaDriver() override;

  [[nodiscard]] const DeviceFacts& facts() const override { return facts_; }
  [[nodiscard]] std::string text(DeviceStatus status) const override;
  DeviceStatus memory_info(DeviceMemoryInfo& info) override;
  DeviceStatus enter_thread() override;
  DeviceStatus synchronize() override;

  DeviceStatus reserve(Bytes bytes, std::uint64_t alignment, DeviceAddress& address) override;
  DeviceStatus free_reservation(DeviceAddress address, Bytes bytes) override;
  DeviceStatus create(Bytes bytes, PagesHandle& handle) override;
  DeviceStatus map(DeviceAddress address, Bytes bytes, PagesHandle handle) override;
  DeviceStatus allow_access(DeviceAddress address, Bytes bytes) override;
  DeviceStatus allow_peer(int ordinal) override;
  void forget_peer(int ordinal) override;
  DeviceStatus unmap(DeviceAddress address, Bytes bytes) override;
  DeviceStatus release(PagesHandle handle) override;

  DeviceStatus register_host(std::byte* memory, Bytes bytes) override;
  DeviceStatus unregister_host(std::byte* memory) override;

  DeviceStatus create_stream(DeviceStream& stream) override;
  DeviceStatus destroy_stream(DeviceStream stream) override;
  DeviceStatus stream_wait(DeviceStream stream, DeviceEvent event) override;
  DeviceStatus synchronize_stream(DeviceStream stream) override;
  [[nodiscard]] bool is_capturing(DeviceStream stream) override;

  DeviceStatus create_event(EventTiming timing, DeviceEvent& event) override;
  DeviceStatus destroy_event(DeviceEvent event) override;
  DeviceStatus record(DeviceEvent event, DeviceStream stream) override;
  DeviceStatus query(DeviceEvent event) override;
  DeviceStatus synchronize_event(DeviceEvent event) override;
  DeviceStatus elapsed(DeviceEvent from, DeviceEvent to, TimeNs& duration) override;

  DeviceStatus copy_out(std::byte* to, DeviceAddress from, Bytes bytes,
                        DeviceStream stream) override;
  DeviceStatus copy_in(DeviceAddress to, const std::byte* from, Bytes bytes,
                       DeviceStream stream) override;
  DeviceStatus copy_within(DeviceAddress to, DeviceAddress from, Bytes bytes,
                           DeviceStream stream) override;
  DeviceStatus fill(DeviceAddress address, std::byte value, Bytes bytes,
                    DeviceStream stream) override;

 private:
  void read_facts(const CudaCard& card);
  void make_pause();
  class InContext;
  class BesideCaptures;

  const std::shared_ptr<const CudaLibrary> library_;
  const cuda::Functions& call_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  cuda::MemAllocationProp place_;
  std::vector<cuda::MemAccessDesc> access_;  // who has it: this card, then others; by mapping_
  DeviceFacts facts_;
  // The driver's own lock is one that a thread which maps without a pause keeps from all others for
  // 5 to 20 ms (an H100, driver 580).
  FairMutex mapping_;
  DeviceAddress pause_{};  // a byte to write between two copies out; 0: none
  PagesHandle pause_pages_{};
};

}  // namespace spillway::runtime
