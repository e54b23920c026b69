// SPDX-License-Identifier: Apache-2.0
#include "spillway/machine/machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace spillway {
namespace {

constexpr std::array<std::string_view, kArithmeticCount> kArithmeticNames{
    "unknown", "float64", "float32", "tensorfloat32", "float16", "bfloat16", "int8"};
static_assert(static_cast<std::size_t>(Arithmetic::kInt8) + 1 == kArithmeticCount);

constexpr std::array<std::string_view, kLinkCount> kLinkNames{"device-to-host", "host-to-device",
                                                              "host-to-disk", "disk-to-host"};

// Capacities add up to less than 2^64 with those of traces; a copy of all of them lasts years.
constexpr Bytes kMostCapacity{std::uint64_t{1} << 60};
constexpr double kLeastRate = 1;
constexpr double kMostRate = 1e21;
constexpr TimeNs kMostLatency = 1'000'000'000;

bool is_rate(double rate) { return rate >= kLeastRate && rate <= kMostRate; }

std::optional<std::string> check_link(LinkKind kind, const Link& link) {
  if (!is_rate(link.bytes_per_second)) {
    return fmt::format("{}: its rate is {} bytes per second, not from {} to {}", to_string(kind),
                       link.bytes_per_second, kLeastRate, kMostRate);
  }
  if (link.latency_ns < 0 || link.latency_ns > kMostLatency) {
    return fmt::format("{}: its latency is {} ns, not from 0 to {}", to_string(kind),
                       link.latency_ns, kMostLatency);
  }
  return std::nullopt;
}

std::optional<std::string> check_device(const DeviceFacts& device) {
  if (!is_rate(device.memory_bytes_per_second.value)) {
    return fmt::format("device: its memory rate is {} bytes per second, not from {} to {}",
                       device.memory_bytes_per_second.value, kLeastRate, kMostRate);
  }
  for (std::size_t type = 0; type < kArithmeticCount; ++type) {
    const double rate = device.flop_per_second[type].value;
    if (rate == 0 || is_rate(rate)) continue;
    return fmt::format("device: its {} rate is {}, neither 0 nor from {} to {}",
                       to_string(static_cast<Arithmetic>(type)), rate, kLeastRate, kMostRate);
  }
  if (device.launch_ns.value < 0 || device.launch_ns.value > kMostLatency) {
    return fmt::format("device: its ops take at least {} ns, not from 0 to {}",
                       device.launch_ns.value, kMostLatency);
  }
  return std::nullopt;
}

}  // namespace

std::string_view to_string(Arithmetic type) {
  return kArithmeticNames.at(static_cast<std::size_t>(type));
}

std::optional<Arithmetic> parse_arithmetic(std::string_view text) {
  const auto found = std::find(kArithmeticNames.begin(), kArithmeticNames.end(), text);
  if (found == kArithmeticNames.end()) return std::nullopt;
  return static_cast<Arithmetic>(found - kArithmeticNames.begin());
}

std::string_view to_string(LinkKind link) { return kLinkNames[index_of(link)]; }

TimeNs copy_time(const Link& link, Bytes bytes) {
  constexpr double kNsPerSecond = 1e9;
  return link.latency_ns + static_cast<TimeNs>(std::llround(static_cast<double>(bytes.count) *
                                                            kNsPerSecond / link.bytes_per_second));
}

Budgets capacities(const Machine& machine) {
  return {{machine.device.capacity.value, machine.page_locked_capacity.value,
           machine.disk_capacity.value}};
}

std::optional<std::string> validate(const Machine& machine) {
  if (machine.device.capacity.value == Bytes{0}) return "device: it has no memory";
  for (const auto* capacity : {&machine.device.capacity, &machine.host_capacity,
                               &machine.page_locked_capacity, &machine.disk_capacity}) {
    if (capacity->value > kMostCapacity) {
      return fmt::format("a capacity is {} bytes, more than {}", capacity->value.count,
                         kMostCapacity.count);
    }
  }
  if (machine.page_locked_capacity.value > machine.host_capacity.value) {
    return fmt::format("page_locked: {} are more than the host's {}",
                       to_string(machine.page_locked_capacity.value),
                       to_string(machine.host_capacity.value));
  }
  if (auto problem = check_device(machine.device)) return problem;
  for (const LinkKind kind : kLinks) {
    if (!machine.link(kind)) continue;
    if (auto problem = check_link(kind, *machine.link(kind))) return problem;
  }
  const auto both_or_none = [&](LinkKind there, LinkKind back) {
    return machine.link(there).has_value() == machine.link(back).has_value();
  };
  if (!both_or_none(LinkKind::kDeviceToHost, LinkKind::kHostToDevice) ||
      !both_or_none(LinkKind::kHostToDisk, LinkKind::kDiskToHost)) {
    return "a link leads one way and not back";
  }
  return std::nullopt;
}

}  // namespace spillway
