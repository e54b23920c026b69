// SPDX-License-Identifier: Apache-2.0
// spillway_card_gate [--json FILE] [--library FILE] [--quick]: may memory of a card be mapped and
// unmapped beside running kernels? Part 1 of the check on a card, and under a minute: what it finds
// decides whether Spillway puts pages behind addresses of its own there, or leaves the framework's
// allocator in charge.
//
// Uses the driver that ships, and kernels of its own in PTX, so it needs no compiler and no header
// of NVIDIA's. Results are written after each part. Where there is no card it says why and ends
// well; with REQUIRE_GPU=1 that is an error. Another library (the tests' stand-in) shows that it
// runs to its end, and nothing else.
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "beside.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/device/cuda_driver.hpp"

namespace spillway::runtime {
namespace {

using Clock = std::chrono::steady_clock;

// The limits that decide. A kernel that waits for a map, or the other way round, would stop
// training at each eviction.
constexpr double kMostWaitUs = 5000;        // of a map or an unmap for a kernel of 50 ms
constexpr double kMostSlowdown = 1.05;      // of kernels while another thread maps
constexpr double kMostLaunchDelayUs = 100;  // more, of the 99th percentile

constexpr const char* kSpin = R"(.version 7.0
.target sm_70
.address_size 64
.visible .entry spin(.param .u64 cycles)
{
  .reg .u64 start, now, wanted;
  .reg .pred more;
  ld.param.u64 wanted, [cycles];
  mov.u64 start, %clock64;
again:
  mov.u64 now, %clock64;
  sub.u64 now, now, start;
  setp.lt.u64 more, now, wanted;
  @more bra again;
  ret;
}
)";

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const auto at = static_cast<std::size_t>(q * static_cast<double>(values.size()));
  return values[std::min(values.size() - 1, at)];
}

struct Block {
  DeviceAddress address{};
  Bytes bytes{};
  PagesHandle handle{};
};

/// Page-locked, and written to, so that every page is there.
class LockedMemory {
 public:
  LockedMemory(CudaDriver& card, Bytes bytes) : card_(card), bytes_(bytes) {
    void* const memory = mmap(nullptr, bytes.count, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) throw DeviceFailure("the machine has no memory for copies");
    memory_ = static_cast<std::byte*>(memory);
    const DeviceStatus status = card_.register_host(memory_, bytes);
    if (!status.done()) munmap(memory_, bytes.count);
    expect_done(card_, status, "page-locking memory");
  }
  ~LockedMemory() {
    static_cast<void>(card_.unregister_host(memory_));
    munmap(memory_, bytes_.count);
  }
  LockedMemory(const LockedMemory&) = delete;
  LockedMemory& operator=(const LockedMemory&) = delete;

  [[nodiscard]] std::byte* begin() const { return memory_; }

 private:
  CudaDriver& card_;
  const Bytes bytes_;
  std::byte* memory_ = nullptr;
};

class Gate {
 public:
  Gate(std::shared_ptr<const CudaLibrary> library, bool quick, std::string json)
      : library_(std::move(library)), card_(library_, 0), quick_(quick), json_(std::move(json)) {
    resolve(module_load_, "cuModuleLoadData");
    resolve(module_function_, "cuModuleGetFunction");
    resolve(launch_, "cuLaunchKernel");
  }

  int run() {
    start();
    if (card_.facts().granule == 0)
      return decide("the card maps no memory of the program's choice");
    costs("idle", {});
    costs("beside_kernels", [this] {
      for (int i = 0; i < 20; ++i) launch(kernels_, cycles_);
      ok(card_.synchronize_stream(kernels_), "waiting for kernels");
    });
    costs_beside_copies();
    costs("beside_a_thread_that_maps", [this] {
      Block block{upper_half(), kMiB * 16, {}};
      open(block);
      close(block);
    });
    foreign_kernel();
    kernels_beside_mapping();
    copies_beside_mapping();
    two_addresses();
    handles_in_a_range();
    events();
    return decide("");
  }

 private:
  template <typename Function>
  void resolve(Function*& function, const char* name) {
    function = reinterpret_cast<Function*>(library_->function(name));
  }
  void ok(DeviceStatus status, const char* doing) { expect_done(card_, status, doing); }
  void ok(cuda::Result code, const char* doing) {
    if (code != cuda::kSuccess) {
      throw DeviceFailure(fmt::format("failed while {}: {}", doing, library_->text(code)));
    }
  }
  void tell(const char* part, nlohmann::json found) {
    fmt::print("{}: {}\n", part, found.dump());
    std::fflush(stdout);
    results_[part] = std::move(found);
    if (!json_.empty()) std::ofstream(json_) << results_.dump(2) << '\n';
  }

  void start();
  void calibrate();
  void launch(DeviceStream stream, std::uint64_t cycles);
  void create(Block& block) { ok(card_.create(block.bytes, block.handle), "creating memory"); }
  void map(const Block& block) {
    ok(card_.map(block.address, block.bytes, block.handle), "mapping memory");
  }
  void allow(const Block& block) {
    ok(card_.allow_access(block.address, block.bytes), "allowing access");
  }
  void unmap(const Block& block) {
    ok(card_.unmap(block.address, block.bytes), "unmapping memory");
  }
  void release(const Block& block) { ok(card_.release(block.handle), "releasing memory"); }
  void open(Block& block) {
    create(block);
    map(block);
    allow(block);
  }
  void close(const Block& block) {
    unmap(block);
    release(block);
  }
  double timed(const std::function<void()>& call) {
    const auto started = Clock::now();
    call();
    return microseconds_since(started);
  }
  /// Runs `body` while another thread maps and unmaps 16 MiB as fast as it can, if `really`.
  /// Returns how often it did.
  std::uint64_t beside_mapping(bool really, const std::function<void()>& body);
  nlohmann::json costs_of(Bytes bytes);
  /// Another thread does `busy` meanwhile, again and again, if there is any.
  void costs(const char* when, const std::function<void()>& busy);
  void costs_beside_copies();
  void foreign_kernel();
  void kernels_beside_mapping();
  void copies_beside_mapping();
  void two_addresses();
  nlohmann::json costs_of_a_range(std::uint64_t count);
  void handles_in_a_range();
  void events();
  double each(int count, const std::function<void()>& call) {
    return timed([&] {
             for (int i = 0; i < count; ++i) call();
           }) /
           count;
  }
  int decide(const std::string& impossible);
  [[nodiscard]] DeviceAddress upper_half() const { return addresses_ + kGiB; }

  const std::shared_ptr<const CudaLibrary> library_;
  CudaDriver card_;
  const bool quick_;
  const std::string json_;
  cuda::Result (*module_load_)(cuda::Module*, const void*) = nullptr;
  cuda::Result (*module_function_)(cuda::Function*, cuda::Module, const char*) = nullptr;
  cuda::Result (*launch_)(cuda::Function, unsigned, unsigned, unsigned, unsigned, unsigned,
                          unsigned, unsigned, cuda::Stream, void**, void**) = nullptr;
  cuda::Function spin_ = nullptr;
  DeviceAddress addresses_{};
  DeviceStream kernels_{};
  DeviceStream copies_{};
  std::uint64_t cycles_ = 100'000;  // of 100 us
  nlohmann::json results_;
  double longest_wait_ = 0;
  double slowdown_ = 0;
  double launch_delay_ = 0;
};

void Gate::start() {
  const DeviceFacts& facts = card_.facts();
  DeviceMemoryInfo info;
  ok(card_.memory_info(info), "asking for its memory");
  tell("card", {{"name", facts.name},
                {"driver", facts.driver_version},
                {"free_bytes", info.free.count},
                {"total_bytes", info.total.count},
                {"granule_bytes", facts.granule}});
  if (facts.granule == 0) return;
  cuda::Module module = nullptr;
  ok(module_load_(&module, kSpin), "loading a kernel");
  ok(module_function_(&spin_, module, "spin"), "finding a kernel");
  ok(card_.reserve(kGiB * 2, facts.granule, addresses_), "reserving addresses");
  ok(card_.create_stream(kernels_), "making a stream");
  ok(card_.create_stream(copies_), "making a stream");
  calibrate();
}

void Gate::launch(DeviceStream stream, std::uint64_t cycles) {
  void* arguments[] = {&cycles};
  auto* const raw = reinterpret_cast<cuda::Stream>(static_cast<std::uintptr_t>(stream));
  ok(launch_(spin_, 1, 1, 1, 1, 1, 1, 0, raw, arguments, nullptr), "launching a kernel");
}

void Gate::calibrate() {
  launch(kernels_, cycles_);
  ok(card_.synchronize_stream(kernels_), "waiting for kernels");
  const double each = timed([&] {
                        for (int i = 0; i < 100; ++i) launch(kernels_, cycles_);
                        ok(card_.synchronize_stream(kernels_), "waiting for kernels");
                      }) /
                      100;
  cycles_ = static_cast<std::uint64_t>(static_cast<double>(cycles_) * 100 / each) + 1;
}

nlohmann::json Gate::costs_of(Bytes bytes) {
  Block block{addresses_, bytes, {}};
  std::vector<double> taken[5];
  for (int i = 0; i < (quick_ ? 2 : 25); ++i) {
    taken[0].push_back(timed([&] { create(block); }));
    taken[1].push_back(timed([&] { map(block); }));
    taken[2].push_back(timed([&] { allow(block); }));
    taken[3].push_back(timed([&] { unmap(block); }));
    taken[4].push_back(timed([&] { release(block); }));
  }
  nlohmann::json row{{"mib", bytes.count >> 20}};
  const char* const names[] = {"create", "map", "allow_access", "unmap", "release"};
  for (std::size_t i = 0; i < 5; ++i) {
    row[names[i]] = {{"median_us", quantile(taken[i], 0.5)}, {"p95_us", quantile(taken[i], 0.95)}};
  }
  return row;
}

void Gate::costs(const char* when, const std::function<void()>& busy) {
  std::optional<Beside> beside;
  if (busy) {
    beside.emplace([&] {
      ok(card_.enter_thread(), "entering a thread");
      busy();
    });
  }
  nlohmann::json rows;
  for (const std::uint64_t mib : {2U, 8U, 32U, 128U, 256U}) rows.push_back(costs_of(kMiB * mib));
  if (beside) beside->finish();
  tell(when, std::move(rows));
}

// Tables of pages are written by a copy engine, which may be at a copy.
void Gate::costs_beside_copies() {
  const Bytes piece = kMiB * 16;
  Block block{upper_half(), piece, {}};
  open(block);
  const LockedMemory host(card_, piece);
  for (const bool out : {true, false}) {
    costs(out ? "beside_copies_out" : "beside_copies_in", [&] {
      for (int i = 0; i < 8; ++i) {
        ok(out ? card_.copy_out(host.begin(), block.address, piece, copies_)
               : card_.copy_in(block.address, host.begin(), piece, copies_),
           "copying");
      }
      ok(card_.synchronize_stream(copies_), "waiting for copies");
    });
  }
  close(block);
}

void Gate::foreign_kernel() {
  Block block{addresses_, kMiB * 16, {}};
  open(block);
  launch(kernels_, cycles_ * 500);
  const double unmapped = timed([&] { unmap(block); });
  const double released = timed([&] { release(block); });
  const double opened = timed([&] { open(block); });
  const double left = timed([&] { ok(card_.synchronize_stream(kernels_), "waiting for kernels"); });
  close(block);
  longest_wait_ = std::max({unmapped, released, opened});
  tell("beside_a_kernel_of_50_ms", {{"unmap_us", unmapped},
                                    {"release_us", released},
                                    {"create_map_allow_us", opened},
                                    {"kernel_had_left_us", left}});
}

std::uint64_t Gate::beside_mapping(bool really, const std::function<void()>& body) {
  std::optional<Beside> mapper;
  if (really) {
    mapper.emplace([this] {
      ok(card_.enter_thread(), "entering a thread");
      Block block{upper_half(), kMiB * 16, {}};
      open(block);
      close(block);
    });
  }
  body();
  return mapper ? mapper->finish() : 0;
}

void Gate::kernels_beside_mapping() {
  const int count = quick_ ? 50 : 5000;
  double total[2] = {};
  double p99[2] = {};
  double worst[2] = {};
  std::uint64_t pairs = 0;
  for (const bool maps : {false, true}) {
    std::vector<double> launches;
    pairs = beside_mapping(maps, [&] {
      total[maps ? 1 : 0] = timed([&] {
        for (int i = 0; i < count; ++i) {
          launches.push_back(timed([&] { launch(kernels_, cycles_); }));
          // The queue of a stream is finite: a full one would be measured as a slow launch.
          if (i % 200 == 199) ok(card_.synchronize_stream(kernels_), "waiting for kernels");
        }
        ok(card_.synchronize_stream(kernels_), "waiting for kernels");
      });
    });
    p99[maps ? 1 : 0] = quantile(launches, 0.99);
    worst[maps ? 1 : 0] = quantile(launches, 1);
  }
  slowdown_ = total[1] / total[0];
  launch_delay_ = p99[1] - p99[0];
  tell("kernels_of_100_us", {{"count", count},
                             {"alone_us", total[0]},
                             {"beside_mapping_us", total[1]},
                             {"mapped_and_unmapped", pairs},
                             {"launch_p99_us", {p99[0], p99[1]}},
                             {"launch_worst_us", {worst[0], worst[1]}}});
}

void Gate::copies_beside_mapping() {
  const Bytes bytes = kMiB * (quick_ ? 8 : 256);
  const int count = quick_ ? 2 : 20;
  Block block{addresses_, bytes, {}};
  open(block);
  const LockedMemory host(card_, bytes);
  double rate[2] = {};
  for (const bool maps : {false, true}) {
    beside_mapping(maps, [&] {
      const double taken = timed([&] {
        for (int i = 0; i < count; ++i) {
          ok(card_.copy_out(host.begin(), block.address, bytes, copies_), "copying out");
        }
        ok(card_.synchronize_stream(copies_), "waiting for copies");
      });
      rate[maps ? 1 : 0] = static_cast<double>(bytes.count) * count / taken / 1e3;
    });
  }
  close(block);
  tell("copies_out", {{"mib", bytes.count >> 20},
                      {"alone_gb_per_s", rate[0]},
                      {"beside_mapping_gb_per_s", rate[1]}});
}

void Gate::two_addresses() {
  Block block{addresses_, kMiB * 16, {}};
  open(block);
  const Block other{upper_half(), block.bytes, block.handle};
  map(other);
  allow(other);
  std::byte seen{};
  ok(card_.fill(block.address, std::byte{7}, block.bytes, kernels_), "filling memory");
  ok(card_.copy_out(&seen, other.address + (block.bytes - Bytes{1}), {1}, kernels_), "copying out");
  ok(card_.synchronize_stream(kernels_), "waiting for a copy");
  unmap(other);
  close(block);
  tell("one_handle_at_two_addresses", {{"same_bytes", seen == std::byte{7}}});
}

// If a block of many handles of one size costs no more than one of a single handle, handles need
// never be given back because they have the wrong size.
nlohmann::json Gate::costs_of_a_range(std::uint64_t count) {
  const Bytes granule{card_.facts().granule};
  const Block range{addresses_, granule * count, {}};
  std::vector<Block> parts;
  for (std::uint64_t i = 0; i < count; ++i) {
    create(parts.emplace_back(Block{addresses_ + granule * i, granule, {}}));
  }
  std::vector<double> mapped;
  std::vector<double> allowed;
  std::vector<double> unmapped;
  bool at_once = true;
  for (int i = 0; i < (quick_ ? 2 : 25); ++i) {
    mapped.push_back(timed([&] { std::ranges::for_each(parts, [&](auto& part) { map(part); }); }));
    allowed.push_back(timed([&] { allow(range); }));
    unmapped.push_back(timed([&] {
      at_once = at_once && card_.unmap(range.address, range.bytes).done();
      if (!at_once) std::ranges::for_each(parts, [&](auto& part) { unmap(part); });
    }));
  }
  std::ranges::for_each(parts, [&](auto& part) { release(part); });
  return {{"handles", count},
          {"map_all_us", quantile(mapped, 0.5)},
          {"allow_access_us", quantile(allowed, 0.5)},
          {"unmap_us", quantile(unmapped, 0.5)},
          {"unmapped_at_once", at_once}};
}

void Gate::handles_in_a_range() {
  nlohmann::json rows;
  for (const std::uint64_t count : {1U, 2U, 8U, 64U}) rows.push_back(costs_of_a_range(count));
  tell("handles_in_a_range", std::move(rows));
}

// The host asks for events while it looks for memory that may be used again. Each is recorded once
// before it has passed, as the runtime does: 200 records of one event behind a kernel of 50 ms took
// an H200's host 49 ms together, and so did 1000.
void Gate::events() {
  std::vector<DeviceEvent> events(quick_ ? 10 : 200);
  for (DeviceEvent& event : events) {
    ok(card_.create_event(EventTiming::kNo, event), "making an event");
  }
  const int count = static_cast<int>(events.size());
  const DeviceEvent last = events.back();
  launch(kernels_, cycles_ * 500);
  std::vector<double> recorded;
  recorded.reserve(events.size());
  for (const DeviceEvent event : events) {
    recorded.push_back(timed([&] { ok(card_.record(event, kernels_), "recording an event"); }));
  }
  const bool pending_still = !card_.query(last).done();
  const double pending = each(count, [&] { static_cast<void>(card_.query(last)); });
  const double ordered =
      each(count, [&] { ok(card_.stream_wait(copies_, last), "letting a stream wait"); });
  const double again = timed([&] { ok(card_.record(last, kernels_), "recording an event"); });
  ok(card_.synchronize_stream(kernels_), "waiting for kernels");
  const double passed = each(count, [&] { ok(card_.query(last), "asking for an event"); });
  ok(card_.synchronize_stream(copies_), "waiting for copies");
  for (const DeviceEvent event : events) ok(card_.destroy_event(event), "ending an event");
  tell("events", {{"record_us", quantile(recorded, 0.5)},
                  {"record_worst_us", quantile(recorded, 1)},
                  {"record_again_us", again},
                  {"query_pending_us", pending},
                  {"query_passed_us", passed},
                  {"stream_wait_us", ordered},
                  {"kernel_ran_beside", pending_still}});
}

int Gate::decide(const std::string& impossible) {
  std::string against = impossible;
  if (longest_wait_ >= kMostWaitUs)
    against = "mapping waits for kernels that do not use the memory";
  if (slowdown_ >= kMostSlowdown) against = "kernels are slower while memory is mapped";
  if (launch_delay_ >= kMostLaunchDelayUs) against = "launches are late while memory is mapped";
  tell("verdict", {{"maps_memory_itself", against.empty()}, {"against", against}});
  return 0;
}

int check(const std::string& file, bool quick, const std::string& json) {
  std::shared_ptr<const CudaLibrary> library;
  try {
    library = std::make_shared<CudaLibrary>(file);
  } catch (const UserError& error) {
    const char* const required = std::getenv("REQUIRE_GPU");
    fmt::print("SKIPPED: {}\n", error.what());
    return required != nullptr && std::string_view(required) == "1" ? 1 : 0;
  }
  return Gate(library, quick, json).run();
}

}  // namespace
}  // namespace spillway::runtime

int main(int count, char** arguments) {
  CLI::App app{"May memory of a card be mapped beside running kernels?"};
  std::string library = "libcuda.so.1";
  std::string json;
  bool quick = false;
  app.add_option("--library", library, "the driver library");
  app.add_option("--json", json, "where results are written after each part");
  app.add_flag("--quick", quick, "few repetitions: whether it runs, not what it costs");
  CLI11_PARSE(app, count, arguments);
  try {
    return spillway::runtime::check(library, quick, json);
  } catch (const std::exception& failure) {
    fmt::print("FAILED: {}\n", failure.what());
    return 1;
  }
}
