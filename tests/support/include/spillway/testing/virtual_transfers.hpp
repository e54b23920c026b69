// SPDX-License-Identifier: Apache-2.0
// Transfers on a virtual clock: each ends when the test says so, and not before.
//
// Also copies between device and host are under way until then. The spool's bytes lie in memory: no
// file is touched. What goes out is taken when it is submitted, what comes in is there at the end,
// so that a driver that looks or writes too early is found out. For tests of the runtime; needs its
// layer. Thread-safe for one caller at a time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/transfer/transfers.hpp"

namespace spillway::testing {

class VirtualTransfers final : public runtime::Transfers {
 public:
  using TransferId = runtime::TransferId;
  using TransferDone = runtime::TransferDone;

  TransferId submit(runtime::Transfer transfer, TransferDone done) override {
    Job job{.done = std::move(done)};
    if (transfer.direction == runtime::Direction::kOut) {
      disk_[transfer.extent.offset].assign(transfer.memory, transfer.memory + transfer.length);
    } else {
      job.to = transfer.memory;
      job.bytes = disk_.at(transfer.extent.offset);
      job.bytes.resize(transfer.length);
    }
    return add(std::move(job));
  }
  std::optional<TransferId> copy(const runtime::MemoryCopy& copy, TransferDone done) override {
    return add({.bytes = {copy.from, copy.from + copy.bytes.count},
                .to = copy.to,
                .done = std::move(done)});
  }
  /// Nothing starts before it ends.
  bool cancel(TransferId id) override { return jobs_.erase(id) != 0; }
  bool hurry(TransferId /*id*/) override { return false; }
  void drain() override { SPILLWAY_CHECK(jobs_.empty(), "nobody else ends them"); }
  void before_fork() override { drain(); }
  [[nodiscard]] runtime::IoMethod method() const override { return runtime::IoMethod::kThreads; }

  [[nodiscard]] bool is_under_way(TransferId id) const { return jobs_.contains(id); }
  [[nodiscard]] std::size_t under_way() const { return jobs_.size(); }

  /// Ends a transfer that is under way. The engine's lock must be free.
  void end(TransferId id, int error = 0) {
    const auto found = jobs_.find(id);
    SPILLWAY_CHECK(found != jobs_.end(), "the transfer is not under way");
    const Job job = std::move(found->second);
    jobs_.erase(found);
    if (error == 0 && job.to != nullptr) std::ranges::copy(job.bytes, job.to);
    job.done({.error = error, .bytes = error == 0 ? job.bytes.size() : 0, .duration = 0});
  }

 private:
  struct Job {
    std::vector<std::byte> bytes{};
    std::byte* to = nullptr;  // null: they are in place
    TransferDone done{};
  };

  TransferId add(Job job) {
    jobs_.emplace(++last_id_, std::move(job));
    return last_id_;
  }

  std::map<TransferId, Job> jobs_;
  std::map<std::uint64_t, std::vector<std::byte>> disk_;  // by the extent's offset
  TransferId last_id_ = 0;
};

}  // namespace spillway::testing
