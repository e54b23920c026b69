// SPDX-License-Identifier: Apache-2.0
#include "spillway/testing/small_steps.hpp"

#include <utility>

#include "spillway/base/error.hpp"

namespace spillway::testing {

Machine plain_machine() {
  Machine machine;
  machine.name = "plain";
  machine.device.capacity = {kGiB, ""};
  machine.device.memory_bytes_per_second = {1e12, ""};
  machine.host_capacity = machine.page_locked_capacity = {kGiB, ""};
  machine.disk_capacity = {kGiB, ""};
  for (auto& link : machine.links) link = Link{1e9, 0, ""};
  return machine;
}

StorageId StepBuilder::persistent(std::uint64_t bytes, std::string name) {
  return trace_.add(TraceStorage{.bytes = {bytes},
                                 .role = StorageRole::kParameter,
                                 .persistent = true,
                                 .name = std::move(name)});
}

StorageId StepBuilder::temporary(std::uint64_t bytes, std::string name) {
  return trace_.add(
      TraceStorage{.bytes = {bytes}, .role = StorageRole::kActivation, .name = std::move(name)});
}

OpIndex StepBuilder::op(TimeNs duration, Op op) {
  op.writes.insert(op.writes.end(), op.creates.begin(), op.creates.end());
  return trace_.add(TraceOp{.name = "op" + std::to_string(trace_.ops.size()),
                            .duration_ns = duration,
                            .recomputable = op.recomputable,
                            .workspace = {op.workspace},
                            .reads = std::move(op.reads),
                            .writes = std::move(op.writes),
                            .creates = std::move(op.creates),
                            .frees = std::move(op.frees)});
}

Trace StepBuilder::build() const {
  const auto problem = validate(trace_);
  SPILLWAY_CHECK(!problem, *problem);
  return trace_;
}

}  // namespace spillway::testing
