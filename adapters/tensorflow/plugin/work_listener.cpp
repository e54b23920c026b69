// SPDX-License-Identifier: Apache-2.0
#include "work_listener.hpp"

#include <cstdint>

#include "tsl/platform/tracing.h"
#include "xla/tsl/profiler/backends/cpu/threadpool_listener_state.h"

namespace spillway::tf {
namespace {

class Listener : public tsl::tracing::EventCollector {
 public:
  explicit Listener(Standstill& standstill) : standstill_(standstill) {}
  void RecordEvent(std::uint64_t /*closure*/) const override {}
  void StartRegion(std::uint64_t /*closure*/) const override { standstill_.begin_work(); }
  void StopRegion() const override { standstill_.end_work(); }

 private:
  Standstill& standstill_;
};

}  // namespace

void listen_to_work(Standstill& standstill) {
  // Never destroyed: threads of the framework call it as long as they are.
  static auto* listener = new Listener(standstill);
  tsl::tracing::SetEventCollector(tsl::tracing::EventCategory::kRunClosure, listener);
  tsl::profiler::threadpool_listener::Activate();
}

}  // namespace spillway::tf
