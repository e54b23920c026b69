// SPDX-License-Identifier: Apache-2.0
// The runtime's driver of the residency machine on a virtual clock: the engine's mover with its
// memory, its extents and its framework, and transfers that end when they are told to.
//
// It is told what happens in the words of the residency machine and answers with the transitions
// that the mover made of it. An event reaches the mover through the function that stands for it in
// training: a use as a request or a prefetch, an eviction as `leave`, the end of a copy as a
// transfer's completion or as ops that were run again. Every storage holds known words, and they
// are looked at.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "spillway/residency/transition_observer.hpp"
#include "spillway/runtime/exec/mover.hpp"
#include "spillway/runtime/memory/device_memory.hpp"
#include "spillway/testing/fake_framework.hpp"
#include "spillway/testing/virtual_transfers.hpp"
#include "transition.hpp"

namespace spillway::testing {

class VirtualDriver final : private residency::TransitionObserver {
 public:
  /// `host`: budget of the host tier, in pages of 4 KiB that each storage begins.
  explicit VirtualDriver(Bytes host = kGiB);
  ~VirtualDriver() override;
  VirtualDriver(const VirtualDriver&) = delete;
  VirtualDriver& operator=(const VirtualDriver&) = delete;

  /// `storage` is what it is called here from now on.
  void create(StorageId storage, Bytes bytes);

  /// Lets `event` happen to the storage that it names. Returns what the mover made of it, often
  /// nothing where it changes nothing. Throws InternalError where the mover broke the machine's
  /// contract.
  std::vector<Transition> make(const residency::Event& event);

  /// The engine's actions without a plan.
  enum class Call : std::uint8_t {
    kEvict,        ///< to the host where it has room, for which others may have to leave it
    kWriteBehind,  ///< the same before anyone lacks the room
    kCancelAhead,  ///< takes back what was set going before anyone asked for it
  };
  std::vector<Transition> make(Call call, StorageId storage);

  /// An op uses the storage from here on: it stays, if it is on the device.
  void pin(StorageId storage) { record_of(storage).pins.fetch_add(1); }
  void unpin(StorageId storage) { record_of(storage).pins.fetch_sub(1); }
  /// The program writes it, as it may once it was told of the access and is on the device.
  void write(StorageId storage);

  /// Where the storage is; nothing once it is gone.
  [[nodiscard]] std::optional<residency::ResidencyState> state(StorageId storage) const;
  [[nodiscard]] bool is_here(StorageId storage) const;
  /// The flaw of the storage's bytes, of who may see them, or of the copies under way.
  [[nodiscard]] std::optional<std::string> flaw_of(StorageId storage) const;
  /// The memory that is still held though no storage is left.
  [[nodiscard]] std::optional<std::string> leak() const;

 private:
  struct Storage {
    FakeStorage* handle = nullptr;  // null once the storage died
    runtime::StorageRecord* record = nullptr;
    StorageId id{};  // of the mover's machine
    std::uint64_t seed = 0;
  };

  void on_event(const residency::ResidencyMachine& machine, const residency::Event& event,
                TimeNs now, std::span<const residency::Action> actions) override;
  [[nodiscard]] runtime::StorageRecord& record_of(StorageId storage) const {
    return *storages_.at(storage).record;
  }
  void use(Storage& storage, runtime::Access access);
  void end_copy(StorageId called, const Storage& storage, bool succeeded);
  void die(Storage& storage);

  std::mutex mutex_;
  std::condition_variable settled_;
  runtime::DeviceMemory memory_;
  FakeFramework framework_;
  VirtualTransfers* transfers_ = nullptr;  // the mover's
  runtime::Remains remains_;
  runtime::HostMemory host_;
  runtime::Mover mover_{mutex_, settled_, memory_, host_, framework_, remains_};
  std::unique_lock<std::mutex> lock_{mutex_};  // held but while a copy ends
  std::map<StorageId, Storage> storages_;
  std::map<StorageId, StorageId> called_;  // by id of the mover's machine
  std::set<StorageId> recomputing_;
  std::vector<Transition> made_;
  std::uint64_t seeds_ = 0;
};

}  // namespace spillway::testing
