// SPDX-License-Identifier: Apache-2.0
#include "machine/disk_speed.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace spillway::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBlock = std::size_t{4} << 20;
constexpr std::size_t kAlignment = 4096;
constexpr unsigned kThreads = 4;
constexpr std::chrono::milliseconds kPatience{1000};

class File {
 public:
  explicit File(const std::string& directory) {
    descriptor_ =
        open(directory.c_str(), O_TMPFILE | O_EXCL | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (descriptor_ >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return;
    std::string path = directory + "/.spillway-XXXXXX";
    descriptor_ = mkostemp(path.data(), O_CLOEXEC);
    if (descriptor_ >= 0) unlink(path.c_str());
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  [[nodiscard]] int descriptor() const { return descriptor_; }

  bool set_direct() {
    const int flags = fcntl(descriptor_, F_GETFL);
    return fcntl(descriptor_, F_SETFL, flags | O_DIRECT) == 0;
  }

 private:
  int descriptor_ = -1;
};

struct FreeMemory {
  void operator()(void* memory) const { std::free(memory); }
};
using Block = std::unique_ptr<std::byte, FreeMemory>;

// Random bytes: some file systems and drives compress, which training data would not.
Block make_block(std::uint64_t seed) {
  Block block(static_cast<std::byte*>(std::aligned_alloc(kAlignment, kBlock)));
  if (block == nullptr) return block;
  std::mt19937_64 generator(seed);
  for (std::size_t offset = 0; offset < kBlock; offset += sizeof(std::uint64_t)) {
    const std::uint64_t word = generator();
    std::memcpy(block.get() + offset, &word, sizeof word);
  }
  return block;
}

struct Pass {
  std::uint64_t blocks = 0;
  double seconds = 0;
  int error = 0;

  [[nodiscard]] double rate() const {
    return seconds > 0 ? static_cast<double>(blocks * kBlock) / seconds : 0;
  }
};

// One block, whole, or errno.
int transfer(int descriptor, std::byte* memory, std::uint64_t position, bool out) {
  std::size_t done = 0;
  while (done < kBlock) {
    const auto offset = static_cast<off_t>(position + done);
    const ssize_t count = out ? pwrite(descriptor, memory + done, kBlock - done, offset)
                              : pread(descriptor, memory + done, kBlock - done, offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) return EIO;
    done += static_cast<std::size_t>(count);
  }
  return 0;
}

// Threads take block numbers in turn until all are done or time is up, so the blocks done are
// always 0 to n-1: what a second pass may read.
Pass run_pass(int descriptor, std::vector<Block>& memory, std::uint64_t blocks, bool out) {
  std::atomic<std::uint64_t> next{0};
  std::atomic<std::uint64_t> done{0};
  std::atomic<int> error{0};
  const auto start = Clock::now();
  const auto work = [&](std::byte* block) {
    while (error.load() == 0 && Clock::now() - start < kPatience) {
      const std::uint64_t number = next.fetch_add(1);
      if (number >= blocks) return;
      const int failure = transfer(descriptor, block, number * kBlock, out);
      if (failure != 0) {
        error.store(failure);
        return;
      }
      done.fetch_add(1);
    }
  };
  std::vector<std::thread> threads;
  threads.reserve(memory.size());
  for (Block& block : memory) threads.emplace_back(work, block.get());
  for (std::thread& thread : threads) thread.join();
  if (out) fdatasync(descriptor);
  const std::chrono::duration<double> elapsed = Clock::now() - start;
  return {done.load(), elapsed.count(), error.load()};
}

std::string problem_text(const char* action, int error) {
  return fmt::format("{}: {}", action, std::strerror(error));
}

}  // namespace

DiskSpeed measure_disk_speed(const std::string& directory, Bytes most_bytes) {
  DiskSpeed speed;
  File file(directory);
  if (file.descriptor() < 0) {
    speed.problem = problem_text("a file cannot be created", errno);
    return speed;
  }
  std::vector<Block> memory;
  for (unsigned thread = 0; thread < kThreads; ++thread) {
    memory.push_back(make_block(thread));
    if (memory.back() == nullptr) {
      speed.problem = "no memory for the blocks";
      return speed;
    }
  }
  const std::uint64_t blocks = most_bytes.count / kBlock;
  // Where reserving is not supported the writes extend the file, as the spool's would.
  const int reserved = posix_fallocate(file.descriptor(), 0, static_cast<off_t>(blocks * kBlock));
  if (reserved == ENOSPC) {
    speed.problem = problem_text("space cannot be reserved", reserved);
    return speed;
  }
  // Some file systems take the flag and refuse the transfer.
  speed.direct_io = file.set_direct() && transfer(file.descriptor(), memory[0].get(), 0, true) == 0;
  if (!speed.direct_io) fcntl(file.descriptor(), F_SETFL, 0);
  const Pass out = run_pass(file.descriptor(), memory, blocks, true);
  posix_fadvise(file.descriptor(), 0, 0, POSIX_FADV_DONTNEED);
  const Pass in = out.error == 0 ? run_pass(file.descriptor(), memory, out.blocks, false) : Pass{};
  if (out.error != 0) speed.problem = problem_text("writing failed", out.error);
  if (in.error != 0) speed.problem = problem_text("reading failed", in.error);
  speed.write_rate = out.rate();
  speed.read_rate = in.rate();
  speed.written = Bytes{out.blocks * kBlock};
  return speed;
}

}  // namespace spillway::tools
