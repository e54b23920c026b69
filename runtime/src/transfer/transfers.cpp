// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/transfer/transfers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "chunk_io.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/steady_time.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "transfer_queue.hpp"
#if SPILLWAY_HAS_IO_URING
#include "spillway/runtime/transfer/transfer_ring.hpp"
#endif

namespace spillway::runtime {

TransferResult Transfers::run_here(const Transfer& transfer) {
  check_transfer(transfer);
  const bool direct = is_direct(transfer.descriptor);
  const TimeNs started = now_ns();
  TransferResult result;
  while (result.error == 0 && result.bytes < transfer.length) {
    const std::uint64_t length = std::min(kTransferChunk, transfer.length - result.bytes);
    result.error = move_chunk(transfer, direct, result.bytes, length);
    if (result.error == 0) {
      result.bytes += length;
      count(transfer.direction, length);
    }
  }
  result.duration = now_ns() - started;
  return result;
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): whose copies take time keep `done`
std::optional<TransferId> Transfers::copy(const MemoryCopy& copy, TransferDone /*done*/) {
  std::memcpy(copy.to, copy.from, copy.bytes.count);
  return std::nullopt;
}

std::string Transfers::description() const {
  const std::string name = method() == IoMethod::kUring ? "io_uring" : "threads";
  return refusal_.empty() ? name : fmt::format("{}; io_uring: {}", name, refusal_);
}

void Transfers::count(Direction direction, std::uint64_t bytes) {
  auto& counter = direction == Direction::kOut ? written_ : read_;
  counter.fetch_add(bytes, std::memory_order_relaxed);
}

#if SPILLWAY_HAS_IO_URING
namespace {
std::unique_ptr<Transfers> make_ring() { return std::make_unique<TransferRing>(); }
}  // namespace
#else
std::string io_uring_refusal() { return "not built in, as there was no liburing"; }
namespace {
std::unique_ptr<Transfers> make_ring() { return nullptr; }  // it was refused before
}  // namespace
#endif

std::unique_ptr<Transfers> make_transfers(IoMethod wanted) {
  const std::string refusal = wanted == IoMethod::kThreads ? "" : io_uring_refusal();
  if (wanted != IoMethod::kThreads && refusal.empty()) {
    return make_ring();
  }
  if (wanted == IoMethod::kUring) {
    throw UserError(fmt::format(
        "SPILLWAY_IO: \"uring\" cannot be had here: {}. Set it to auto, or to threads.", refusal));
  }
  auto pool = std::make_unique<TransferPool>();
  pool->refusal_ = refusal;
  return pool;
}

}  // namespace spillway::runtime
