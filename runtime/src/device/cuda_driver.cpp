// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/device/cuda_driver.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/runtime/device/page_opening.hpp"

namespace spillway::runtime {
namespace {

// Between two copies out the engine that copies has nothing to do for as long as a kernel of one
// byte runs. Then it writes the tables of pages that a thread waits for: `allow_access` takes 140
// to 190 us beside such copies and 350 to 900 beside others, and the link is used to 94 % (8 MiB;
// an H100, driver 580: docs/gpu, "What mapping costs").
constexpr Bytes kPieceOut = kMiB * 8;
// The byte takes a whole page of the budget: no more than such a share of the card is given for it.
constexpr std::uint64_t kPauseShare = 1024;
// Beyond what any driver has: it takes the highest instead.
constexpr int kHighestPriority = -1000;

DeviceOutcome outcome_of(cuda::Result code) {
  switch (code) {
    case cuda::kSuccess:
      return DeviceOutcome::kDone;
    case cuda::kErrorNotReady:
      return DeviceOutcome::kNotYet;
    case cuda::kErrorOutOfMemory:
      return DeviceOutcome::kOutOfMemory;
    case cuda::kErrorDeinitialized:
    case cuda::kErrorDeviceUnavailable:
    case cuda::kErrorEccUncorrectable:
    case cuda::kErrorNvlinkUncorrectable:
    case cuda::kErrorContained:
    case cuda::kErrorIllegalAddress:
    case cuda::kErrorLaunchTimeout:
    case cuda::kErrorContextIsDestroyed:
    case cuda::kErrorAssert:
    case cuda::kErrorHardwareStackError:
    case cuda::kErrorIllegalInstruction:
    case cuda::kErrorMisalignedAddress:
    case cuda::kErrorInvalidAddressSpace:
    case cuda::kErrorInvalidPc:
    case cuda::kErrorLaunchFailed:
      return DeviceOutcome::kLost;
    default:
      return DeviceOutcome::kRefused;
  }
}

DeviceStatus status_of(cuda::Result code) { return {outcome_of(code), code}; }
cuda::Stream raw(DeviceStream stream) {
  return reinterpret_cast<cuda::Stream>(static_cast<std::uintptr_t>(stream));
}
cuda::Event raw(DeviceEvent event) {
  return reinterpret_cast<cuda::Event>(static_cast<std::uintptr_t>(event));
}
cuda::Pointer raw(DeviceAddress address) { return to_value(address); }
cuda::Handle raw(PagesHandle handle) { return static_cast<cuda::Handle>(handle); }

}  // namespace

CudaDriver::CudaDriver(std::shared_ptr<const CudaLibrary> library, int ordinal)
    : library_(std::move(library)), call_(library_->functions()) {
  if (ordinal < 0 || ordinal >= library_->device_count()) {
    throw UserError(
        fmt::format("There is no graphics card {}: the driver shows {}, counted from 0. See "
                    "CUDA_VISIBLE_DEVICES.",
                    ordinal, library_->device_count()));
  }
  cuda::Result code = call_.device_get(&device_, ordinal);
  if (code == cuda::kSuccess) code = call_.context_retain(&context_, device_);
  if (code != cuda::kSuccess) {
    throw UserError(
        fmt::format("Graphics card {} cannot be used: {}. Another program may have it "
                    "alone, or hold all of its memory.",
                    ordinal, library_->text(code)));
  }
  code = call_.context_set(context_);
  place_.location.id = device_;
  access_.resize(1);
  access_.front().location.id = device_;
  if (code == cuda::kSuccess) read_facts(library_->card(ordinal));
  if (facts_.granule != 0 && facts_.granule * kPauseShare <= facts_.memory.count) make_pause();
}

CudaDriver::~CudaDriver() {
  if (to_value(pause_) != 0) {
    const Bytes bytes{facts_.granule};
    static_cast<void>(unmap(pause_, bytes));
    static_cast<void>(release(pause_pages_));
    static_cast<void>(free_reservation(pause_, bytes));
  }
  call_.context_release(device_);
}

// Where the card has no room for it, or is small, copies make no pauses.
void CudaDriver::make_pause() {
  const Bytes bytes{facts_.granule};
  DeviceAddress address{};
  if (!reserve(bytes, facts_.granule, address).done()) return;
  PageOpening opening(*this, address, bytes, std::nullopt);
  if (opening.finish()) {
    pause_ = address;
    pause_pages_ = *opening.handle();
  } else {
    static_cast<void>(free_reservation(address, bytes));
  }
}

void CudaDriver::read_facts(const CudaCard& card) {
  facts_.name = card.name;
  std::size_t bytes = 0;
  if (call_.device_memory(&bytes, device_) == cuda::kSuccess) facts_.memory = {bytes};
  call_.driver_version(&facts_.driver_version);
  std::size_t granule = 0;
  if (card.maps_memory &&
      call_.granularity(&granule, &place_, cuda::kGranularityMinimum) == cuda::kSuccess) {
    facts_.granule = granule;
  }
}

// Has the card's context current in the calling thread while it lives. A thread may allocate before
// it calls anything of the runtime's that would make one current; the card's then stays. Where the
// program has another card's, that is current again afterwards. There a stream 0, an event that is
// made and what is waited for would be the other card's.
class CudaDriver::InContext {
 public:
  explicit InContext(const CudaDriver& driver) : driver_(driver) {
    // Where that fails the call that follows tells of it.
    static_cast<void>(driver_.call_.context_get(&before_));
    if (before_ != driver_.context_) static_cast<void>(driver_.call_.context_set(driver_.context_));
  }
  ~InContext() {
    if (before_ == driver_.context_ || before_ == nullptr) return;
    static_cast<void>(driver_.call_.context_set(before_));
  }
  InContext(const InContext&) = delete;
  InContext& operator=(const InContext&) = delete;

 private:
  const CudaDriver& driver_;
  cuda::Context before_ = nullptr;
};

// Its calls disturb no graph that any thread captures while it lives. In a thread of the program's
// a question about an event ends a capture otherwise, whatever the event is of
// (cuThreadExchangeStreamCaptureMode); enter_thread asks for the same in threads of ours.
class CudaDriver::BesideCaptures {
 public:
  explicit BesideCaptures(const CudaDriver& driver) : driver_(driver), entered_(exchange()) {}
  ~BesideCaptures() {
    if (entered_) exchange();
  }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  // Where that fails the call that follows tells of it.
  bool exchange() { return driver_.call_.exchange_capture_mode(&mode_) == cuda::kSuccess; }

  const CudaDriver& driver_;
  int mode_ = cuda::kCaptureModeRelaxed;
  bool entered_;
};

std::string CudaDriver::text(DeviceStatus status) const { return library_->text(status.code); }

DeviceStatus CudaDriver::memory_info(DeviceMemoryInfo& info) {
  const InContext in_context(*this);
  std::size_t free = 0;
  std::size_t total = 0;
  const DeviceStatus status = status_of(call_.memory_info(&free, &total));
  info = {{free}, {total}};
  return status;
}

DeviceStatus CudaDriver::enter_thread() {
  const DeviceStatus status = status_of(call_.context_set(context_));
  if (!status.done()) return status;
  int mode = cuda::kCaptureModeRelaxed;
  return status_of(call_.exchange_capture_mode(&mode));
}

DeviceStatus CudaDriver::synchronize() {
  const InContext in_context(*this);
  return status_of(call_.context_synchronize());
}

DeviceStatus CudaDriver::reserve(Bytes bytes, std::uint64_t alignment, DeviceAddress& address) {
  cuda::Pointer pointer = 0;
  const DeviceStatus status =
      status_of(call_.address_reserve(&pointer, bytes.count, alignment, 0, 0));
  address = DeviceAddress{pointer};
  return status;
}

DeviceStatus CudaDriver::free_reservation(DeviceAddress address, Bytes bytes) {
  return status_of(call_.address_free(raw(address), bytes.count));
}

DeviceStatus CudaDriver::create(Bytes bytes, PagesHandle& handle) {
  const BesideCaptures beside_captures(*this);
  const std::lock_guard turn(mapping_);
  cuda::Handle made = 0;
  const DeviceStatus status = status_of(call_.mem_create(&made, bytes.count, &place_, 0));
  handle = PagesHandle{made};
  return status;
}

DeviceStatus CudaDriver::map(DeviceAddress address, Bytes bytes, PagesHandle handle) {
  const BesideCaptures beside_captures(*this);
  const std::lock_guard turn(mapping_);
  return status_of(call_.mem_map(raw(address), bytes.count, 0, raw(handle), 0));
}

DeviceStatus CudaDriver::allow_access(DeviceAddress address, Bytes bytes) {
  const BesideCaptures beside_captures(*this);
  const std::lock_guard turn(mapping_);
  return status_of(call_.mem_set_access(raw(address), bytes.count, access_.data(), access_.size()));
}

DeviceStatus CudaDriver::allow_peer(int ordinal) {
  cuda::MemAccessDesc peer;
  const DeviceStatus status = status_of(call_.device_get(&peer.location.id, ordinal));
  if (!status.done()) return status;
  const std::lock_guard turn(mapping_);
  const auto is_known = [&](const cuda::MemAccessDesc& known) {
    return known.location.id == peer.location.id;
  };
  if (std::ranges::none_of(access_, is_known)) access_.push_back(peer);
  return status;
}

void CudaDriver::forget_peer(int ordinal) {
  cuda::Device device = 0;
  if (call_.device_get(&device, ordinal) != cuda::kSuccess) return;
  const std::lock_guard turn(mapping_);
  std::erase_if(access_, [&](const cuda::MemAccessDesc& known) {
    return known.location.id == device && device != device_;
  });
}

DeviceStatus CudaDriver::unmap(DeviceAddress address, Bytes bytes) {
  const BesideCaptures beside_captures(*this);
  const std::lock_guard turn(mapping_);
  return status_of(call_.mem_unmap(raw(address), bytes.count));
}

DeviceStatus CudaDriver::release(PagesHandle handle) {
  const BesideCaptures beside_captures(*this);
  const std::lock_guard turn(mapping_);
  return status_of(call_.mem_release(raw(handle)));
}

DeviceStatus CudaDriver::register_host(std::byte* memory, Bytes bytes) {
  const BesideCaptures beside_captures(*this);
  const InContext in_context(*this);
  return status_of(call_.host_register(memory, bytes.count, cuda::kHostRegisterPortable));
}

DeviceStatus CudaDriver::unregister_host(std::byte* memory) {
  const BesideCaptures beside_captures(*this);
  const InContext in_context(*this);
  return status_of(call_.host_unregister(memory));
}

DeviceStatus CudaDriver::create_stream(DeviceStream& stream) {
  const InContext in_context(*this);
  cuda::Stream made = nullptr;
  const DeviceStatus status =
      status_of(call_.stream_create(&made, cuda::kStreamNonBlocking, kHighestPriority));
  stream = DeviceStream{reinterpret_cast<std::uintptr_t>(made)};
  return status;
}

DeviceStatus CudaDriver::destroy_stream(DeviceStream stream) {
  return status_of(call_.stream_destroy(raw(stream)));
}

DeviceStatus CudaDriver::stream_wait(DeviceStream stream, DeviceEvent event) {
  const InContext in_context(*this);
  return status_of(call_.stream_wait(raw(stream), raw(event), 0));
}

DeviceStatus CudaDriver::synchronize_stream(DeviceStream stream) {
  const BesideCaptures beside_captures(*this);
  const InContext in_context(*this);
  return status_of(call_.stream_synchronize(raw(stream)));
}

bool CudaDriver::is_capturing(DeviceStream stream) {
  const InContext in_context(*this);
  return library_->is_capturing(raw(stream));
}

DeviceStatus CudaDriver::create_event(EventTiming timing, DeviceEvent& event) {
  const InContext in_context(*this);
  cuda::Event made = nullptr;
  // Who waits for an event on the host sleeps: a spinning thread would take a processor from the
  // program's own.
  const unsigned flags =
      cuda::kEventBlockingSync | (timing == EventTiming::kYes ? 0U : cuda::kEventDisableTiming);
  const DeviceStatus status = status_of(call_.event_create(&made, flags));
  event = DeviceEvent{reinterpret_cast<std::uintptr_t>(made)};
  return status;
}

DeviceStatus CudaDriver::destroy_event(DeviceEvent event) {
  return status_of(call_.event_destroy(raw(event)));
}

DeviceStatus CudaDriver::record(DeviceEvent event, DeviceStream stream) {
  const InContext in_context(*this);
  return status_of(call_.event_record(raw(event), raw(stream)));
}

DeviceStatus CudaDriver::query(DeviceEvent event) {
  const BesideCaptures beside_captures(*this);
  return status_of(call_.event_query(raw(event)));
}

DeviceStatus CudaDriver::synchronize_event(DeviceEvent event) {
  const BesideCaptures beside_captures(*this);
  return status_of(call_.event_synchronize(raw(event)));
}

DeviceStatus CudaDriver::elapsed(DeviceEvent from, DeviceEvent to, TimeNs& duration) {
  const BesideCaptures beside_captures(*this);
  float milliseconds = 0;
  const DeviceStatus status = status_of(call_.event_elapsed(&milliseconds, raw(from), raw(to)));
  duration = std::llround(static_cast<double>(milliseconds) * 1e6);
  return status;
}

DeviceStatus CudaDriver::copy_out(std::byte* to, DeviceAddress from, Bytes bytes,
                                  DeviceStream stream) {
  const InContext in_context(*this);
  for (Bytes done{}; done < bytes; done += kPieceOut) {
    const Bytes piece = std::min(kPieceOut, bytes - done);
    // Without the pause the copy is as right.
    if (to_value(pause_) != 0) static_cast<void>(fill(pause_, std::byte{0}, {1}, stream));
    const DeviceStatus status =
        status_of(call_.copy_out(to + done.count, raw(from + done), piece.count, raw(stream)));
    if (!status.done()) {
      // Nobody will wait for those before.
      if (done.count != 0) static_cast<void>(synchronize_stream(stream));
      return status;
    }
  }
  return {};
}

DeviceStatus CudaDriver::copy_in(DeviceAddress to, const std::byte* from, Bytes bytes,
                                 DeviceStream stream) {
  const InContext in_context(*this);
  return status_of(call_.copy_in(raw(to), from, bytes.count, raw(stream)));
}

DeviceStatus CudaDriver::copy_within(DeviceAddress to, DeviceAddress from, Bytes bytes,
                                     DeviceStream stream) {
  const InContext in_context(*this);
  return status_of(call_.copy_within(raw(to), raw(from), bytes.count, raw(stream)));
}

DeviceStatus CudaDriver::fill(DeviceAddress address, std::byte value, Bytes bytes,
                              DeviceStream stream) {
  const InContext in_context(*this);
  return status_of(
      call_.fill(raw(address), static_cast<unsigned char>(value), bytes.count, raw(stream)));
}

}  // namespace spillway::runtime
