// SPDX-License-Identifier: Apache-2.0
#include "hook/running_call.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/op_tensors.hpp"
#include "session/watch.hpp"
#include "spillway/runtime/steady_time.hpp"

namespace spillway::torch {

namespace {

using runtime::Engine;
using runtime::StorageRecord;

// To remember a call takes a microsecond or two, and what is smaller is made in less.
constexpr Bytes kWorthRemembering = kKiB * 256;
// A card's kernels are not timed while it trains: these are rates that any card of the last years
// has, so that what is taken for cheap is.
constexpr double kCardBytesPerNs = 500;
constexpr double kCardLaunchNs = 10'000;

Managed managed_of(const Engines& engines, const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.unsafeGetTensorImpl()->has_storage()) return {};
  return engines.find(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
}

}  // namespace

RunningCall::RunningCall(const Engines& engines, const OpFacts& facts,
                         const at::RecordFunction& function)
    : facts_(facts) {
  const auto inputs = arguments_of(facts, function);
  for (const c10::IValue& input : inputs) {
    each_tensor(input, [&](const at::Tensor& tensor) {
      if (has_plain_sizes(tensor)) read_bytes_ += static_cast<double>(tensor.nbytes());
    });
  }
  const bool all = engines.main().engine().mode() == runtime::Mode::kFuzz;
  if (!all && read_bytes_ < static_cast<double>(kWorthRemembering.count)) return;
  if (facts.repeatable == Repeatable::kOverwrites) {
    const Managed found = managed_of(engines, inputs[0].toTensor());
    if (!found) return;
    overwritten_ = found.record;
    before_ = found.engine().before_write(*found.record);
  }
  remembered_ = true;
}

// What it reads of small tensors is copied: so they have to be there.
void RunningCall::begin(const Engines& engines, const at::RecordFunction& function) {
  if (!remembered_ || has_pending_failure()) return;
  begun_ = OpCall::of(engines, facts_, function, overwritten_);
  began_ = runtime::now_ns();
}

TimeNs RunningCall::estimate(const at::Tensor& result) const {
  return static_cast<TimeNs>(kCardLaunchNs + (read_bytes_ + static_cast<double>(result.nbytes())) /
                                                 kCardBytesPerNs);
}

void RunningCall::end(const Engines& engines, const at::RecordFunction& function) {
  const auto results = results_of(facts_, function);
  if (results.size() != facts_.results) return;  // it has thrown, and made nothing
  if (begun_.call == nullptr) return forget_makings(engines, facts_, function);
  const TimeNs took = runtime::now_ns() - began_;
  const DeviceEngine& device = engines.main();
  Engine& engine = engines.main().engine();
  begun_.call->end(results, device.is_cpu() ? took : estimate(results[0].toTensor()));
  if (overwritten_ != nullptr) {
    return engine.made_over(*overwritten_, std::move(before_), std::move(begun_.call),
                            std::span<StorageRecord* const>(begun_.sources).subspan(1));
  }
  std::vector<StorageRecord*> made;
  for (const c10::IValue& result : results) {
    StorageRecord* const record = managed_of(engines, result.toTensor()).record;
    const bool fresh = std::ranges::find(begun_.sources, record) == begun_.sources.end();
    made.push_back(fresh ? record : nullptr);
  }
  engine.made(made, begun_.call, begun_.sources);
}

void forget_makings(const Engines& engines, const OpFacts& facts,
                    const at::RecordFunction& function) {
  if (facts.shows_arguments) return;  // what was overwritten has another version
  for (const c10::IValue& result : results_of(facts, function)) {
    each_tensor(result, [&](const at::Tensor& tensor) {
      if (const Managed found = managed_of(engines, tensor)) {
        found.engine().forget_making(*found.record);
      }
    });
  }
}

}  // namespace spillway::torch
