// SPDX-License-Identifier: Apache-2.0
// Moves storages to a spool and back as the engine would, and prints how fast, as JSON. Run by
// bench_disk.py beside fio.
//
// The file is laid out first: in training the extents of one step are those of the step before, so
// nothing is written to space that never was. `--pattern mix` writes behind and fetches at once.
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "spillway/base/error.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "spillway/runtime/transfer/transfer_pool.hpp"
#include "spillway/runtime/transfer/transfers.hpp"
#if SPILLWAY_HAS_IO_URING
#include "spillway/runtime/transfer/transfer_ring.hpp"
#endif

namespace {

using namespace spillway;           // NOLINT: a program, not a library
using namespace spillway::runtime;  // NOLINT
using Clock = std::chrono::steady_clock;

struct Options {
  std::string directory = "/var/tmp";
  std::string io = "uring";
  std::string pattern = "write";
  std::uint64_t storage_mib = 32;
  std::uint64_t file_mib = 1024;
  std::uint64_t move_mib = 4096;
  unsigned together = 4;    // transfers submitted and not ended
  unsigned places = 0;      // 0: the default; threads of the pool
  unsigned background = 0;  // of io_uring's places, those for writes
  bool small_pages = false;
};

/// Memory as the page pool hands it out: huge pages, at a page.
class Memory {
 public:
  Memory(std::uint64_t bytes, bool small_pages) : bytes_(bytes) {
    constexpr std::uint64_t kHuge = std::uint64_t{2} << 20;
    void* const mapped = ::mmap(nullptr, bytes + kHuge, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    SPILLWAY_CHECK(mapped != MAP_FAILED, "no memory");
    const auto address = reinterpret_cast<std::uintptr_t>(mapped);
    start_ = reinterpret_cast<std::byte*>((address + kHuge - 1) / kHuge * kHuge);
    ::madvise(start_, bytes, small_pages ? MADV_NOHUGEPAGE : MADV_HUGEPAGE);
    std::mt19937_64 random(bytes);
    for (std::uint64_t i = 0; i < bytes; i += sizeof(std::uint64_t)) {
      const std::uint64_t word = random();  // lest a disk compress it
      std::memcpy(start_ + i, &word, sizeof word);
    }
  }
  [[nodiscard]] std::byte* part(std::uint64_t offset) const { return start_ + offset % bytes_; }

 private:
  std::uint64_t bytes_;
  std::byte* start_ = nullptr;
};

std::unique_ptr<Transfers> make(const Options& options) {
  if (options.io == "threads") {
    return std::make_unique<TransferPool>(options.places == 0 ? kDefaultTransferWorkers
                                                              : options.places);
  }
#if SPILLWAY_HAS_IO_URING
  if (options.places != 0 && io_uring_refusal().empty()) {
    return std::make_unique<TransferRing>(
        options.places, options.background == 0 ? options.places : options.background);
  }
#endif
  return make_transfers(IoMethod::kUring);
}

/// Keeps a number of transfers submitted until all bytes are moved.
class Stream {
 public:
  Stream(Transfers& transfers, const Memory& memory, const Options& options, int descriptor,
         std::vector<Extent> extents)
      : transfers_(transfers),
        memory_(memory),
        options_(options),
        descriptor_(descriptor),
        extents_(std::move(extents)) {}

  void run(const std::string& pattern, std::uint64_t count) {
    pattern_ = pattern;
    left_ = count;
    for (unsigned i = 0; i < options_.together && submit_next(); ++i) {
    }
    transfers_.drain();
    SPILLWAY_CHECK(error_ == 0, std::strerror(error_));
  }

 private:
  bool submit_next() {
    std::uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      if (left_ == 0 || error_ != 0) return false;
      --left_;
      number = next_++;
    }
    const bool out = pattern_ == "write" || (pattern_ == "mix" && number % 2 == 0);
    // 7919 is a prime: neighbours in time are none on the disk.
    const Extent extent = extents_[number * 7919 % extents_.size()];
    const Transfer transfer{out ? Direction::kOut : Direction::kIn,
                            memory_.part(number * extent.bytes), extent, descriptor_, extent.bytes};
    transfers_.submit(transfer, [this](const TransferResult& result) {
      if (result.error != 0) {
        const std::lock_guard lock(mutex_);
        error_ = result.error;
      }
      submit_next();
    });
    return true;
  }

  Transfers& transfers_;
  const Memory& memory_;
  const Options& options_;
  const int descriptor_;
  const std::vector<Extent> extents_;
  std::mutex mutex_;
  std::string pattern_;
  std::uint64_t left_ = 0;
  std::uint64_t next_ = 0;
  int error_ = 0;
};

double processor_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int measure(const Options& options) {
  const Bytes storage = kMiB * options.storage_mib;
  Spool spool({options.directory, kMiB * (options.file_mib + 64), {}});
  std::vector<Extent> extents;
  for (std::uint64_t i = 0; i < options.file_mib / options.storage_mib; ++i) {
    extents.push_back(spool.allocate(storage).value());
  }
  // As many storages of memory as are in flight and one more.
  const Memory memory(storage.count * (options.together + 1), options.small_pages);
  const auto transfers = make(options);
  Stream stream(*transfers, memory, options, spool.descriptor(), extents);
  stream.run("write", extents.size());
  const double processor = processor_seconds();
  const auto begin = Clock::now();
  const std::uint64_t count = options.move_mib / options.storage_mib;
  stream.run(options.pattern, count);
  const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  const nlohmann::json answer{
      {"io", to_string(transfers->method())},
      {"direct", spool.direct_io()},
      {"bytes", count * storage.count},
      {"seconds", seconds},
      {"rate", static_cast<double>(count * storage.count) / seconds},
      {"processor_seconds", processor_seconds() - processor},
  };
  fmt::print("{}\n", answer.dump());
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  CLI::App app{"Moves storages to a spool and back and prints how fast."};
  app.add_option("--directory", options.directory, "of the spool file");
  app.add_option("--io", options.io)->check(CLI::IsMember({"uring", "threads"}));
  app.add_option("--pattern", options.pattern)->check(CLI::IsMember({"write", "read", "mix"}));
  app.add_option("--storage", options.storage_mib, "MiB of one transfer");
  app.add_option("--file", options.file_mib, "MiB of the file");
  app.add_option("--move", options.move_mib, "MiB to move in all");
  app.add_option("--together", options.together, "transfers at once");
  app.add_option("--places", options.places, "chunks at once; threads of the pool");
  app.add_option("--background", options.background, "io_uring: places for writes");
  app.add_flag("--small-pages", options.small_pages, "memory in pages of 4 KiB");
  CLI11_PARSE(app, count, arguments);
  try {
    return measure(options);
  } catch (const UserError& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
