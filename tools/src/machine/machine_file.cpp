// SPDX-License-Identifier: Apache-2.0
#include "machine/machine_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "machine/machine_facts.hpp"
#include "spillway/base/error.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/machine/this_processor.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

// The same as in machines/host-*.json, which say where they are from.
constexpr TimeNs kLaunchNs = 1000;
constexpr TimeNs kDiskLatencyNs = 100'000;
// Several times the last-level caches of today's processors, and little enough for any machine that
// trains; an eighth of what is free where that is less.
constexpr Bytes kMemoryMeasured = kMiB * 512;

void set_rate(Machine& machine, Arithmetic type, double rate, std::string source) {
  // Digits beyond these differ from one measurement to the next.
  const double digits = std::pow(10, std::floor(std::log10(std::max(rate, 1.0))) - 2);
  machine.device.flop_per_second[static_cast<std::size_t>(type)] = {
      std::round(rate / digits) * digits, std::move(source)};
}

double rounded(double rate) {
  constexpr double kMillion = 1e6;
  return rate < kMillion ? rate : std::round(rate / kMillion) * kMillion;
}

Link disk_link(double rate, const char* what, bool direct) {
  return {rounded(rate), kDiskLatencyNs,
          fmt::format("measured: {} of a file in 4 MiB blocks by four threads, {}; the latency is "
                      "assumed",
                      what, direct ? "direct" : "through the page cache")};
}

}  // namespace

Machine machine_of(const MeasuredMachine& measured) {
  const ProcessorSpeed& speed = measured.speed;
  Machine machine;
  machine.name = measured.name;
  machine.device.name = processor_text(measured.processor, speed.processors);
  machine.device.capacity = {measured.memory, "the memory that a process may use here"};
  machine.device.memory_bytes_per_second = {
      rounded(speed.memory_rate),
      fmt::format("measured: bytes read and written by y = a * x over {} on {} processors",
                  short_bytes(speed.memory_touched), speed.processors)};
  const std::string how = fmt::format(
      "measured: independent multiply-adds in registers, {}, {} "
      "processors",
      speed.instructions, speed.processors);
  set_rate(machine, Arithmetic::kFloat64, speed.float64_rate, how);
  set_rate(machine, Arithmetic::kFloat32, speed.float32_rate, how);
  for (const Arithmetic type :
       {Arithmetic::kTensorFloat32, Arithmetic::kBfloat16, Arithmetic::kFloat16}) {
    set_rate(machine, type, speed.float32_rate, "assumed: computed in float32");
  }
  machine.device.launch_ns = {kLaunchNs, "assumed: from the start of one small op to the next"};
  if (!measured.disk) return machine;
  machine.disk_capacity = {measured.disk_free, "free space of the directory measured"};
  machine.links[index_of(LinkKind::kHostToDisk)] =
      disk_link(measured.disk->write_rate, "writing", measured.disk->direct_io);
  machine.links[index_of(LinkKind::kDiskToHost)] =
      disk_link(measured.disk->read_rate, "reading", measured.disk->direct_io);
  return machine;
}

Machine save_machine(const std::string& path, std::optional<DiskSpeed> disk, Bytes disk_free) {
  std::ifstream file("/proc/cpuinfo");
  std::ostringstream cpuinfo;
  cpuinfo << file.rdbuf();
  MeasuredMachine measured;
  measured.name = std::filesystem::path(path).stem().string();
  measured.processor = processor_name(cpuinfo.str());
  measured.memory = usable_memory();
  constexpr std::uint64_t kShareOfFree = 8;
  const Bytes free = std::min(read_memory().available, measured.memory);
  measured.speed =
      measure_processor_speed(std::min(kMemoryMeasured, Bytes{free.count / kShareOfFree}));
  measured.disk = std::move(disk);
  measured.disk_free = disk_free;
  Machine machine = machine_of(measured);
  if (const auto flaw = validate(machine)) {
    throw UserError(fmt::format("This machine could not be measured: {}.", *flaw));
  }
  std::ofstream out(path, std::ios::binary);
  out << format_machine(machine);
  if (!out.flush()) {
    throw UserError(fmt::format("{} cannot be written: {}. Name another file with --save.", path,
                                std::strerror(errno)));
  }
  return machine;
}

}  // namespace spillway::tools
