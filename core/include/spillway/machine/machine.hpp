// SPDX-License-Identifier: Apache-2.0
// The machine that a step runs on, as far as planning is concerned: how much each tier holds, how
// fast the device computes, and how fast bytes pass between neighbouring tiers.
//
//     device  -- device_to_host -->  host  -- host_to_disk -->  disk
//             <-- host_to_device --        <-- disk_to_host --
//
// The four links work independently of each other and of the device; one link carries one copy at a
// time. A copy of b bytes takes latency + b / rate. A machine that trains on its processor has its
// memory as the device tier: no link leads between device and host, and its copies to disk pass
// through the disk's links alone.
//
// A plain value; machines/*.json holds many, each number with the source it is from. Units: bytes,
// bytes or operations per second, nanoseconds.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "spillway/base/bytes.hpp"
#include "spillway/base/ids.hpp"
#include "spillway/machine/arithmetic.hpp"
#include "spillway/machine/tier.hpp"

namespace spillway {

/// A figure and where it is from: a data sheet, a paper, a measurement.
template <typename Value>
struct Sourced {
  Value value{};
  std::string source{};

  bool operator==(const Sourced&) const = default;
};

enum class LinkKind : std::uint8_t { kDeviceToHost, kHostToDevice, kHostToDisk, kDiskToHost };

inline constexpr std::size_t kLinkCount = 4;
inline constexpr std::array<LinkKind, kLinkCount> kLinks{
    LinkKind::kDeviceToHost, LinkKind::kHostToDevice, LinkKind::kHostToDisk, LinkKind::kDiskToHost};

constexpr std::size_t index_of(LinkKind link) { return static_cast<std::size_t>(link); }

/// `device-to-host`, ...
std::string_view to_string(LinkKind link);

struct Link {
  double bytes_per_second = 0;
  TimeNs latency_ns = 0;  ///< from the start of a copy until bytes flow, once per copy
  std::string source{};

  bool operator==(const Link&) const = default;
};

/// How long `bytes` take over the link, rounded to a nanosecond.
TimeNs copy_time(const Link& link, Bytes bytes);

struct DeviceFacts {
  std::string name{};  ///< as its maker calls it
  Sourced<Bytes> capacity{};
  Sourced<double> memory_bytes_per_second{};
  /// By Arithmetic; a rate of 0 is not known. Dense peak, without sparsity.
  std::array<Sourced<double>, kArithmeticCount> flop_per_second{};
  /// The least time that an op takes, however little it does.
  Sourced<TimeNs> launch_ns{};

  bool operator==(const DeviceFacts&) const = default;
};

/// Workspace that ops of a kind and size were seen to hold when they ran on the device.
struct KernelWorkspace {
  std::string op{};   ///< as in traces: `aten::convolution_backward`
  Bytes touched{};    ///< what such an op reads and writes, which tells its shapes apart
  Bytes workspace{};  ///< the most that was seen; 0: it needs none

  bool operator==(const KernelWorkspace&) const = default;
};

struct Machine {
  std::string name{};  ///< as its file is called: `v100-pcie`
  DeviceFacts device{};
  Sourced<Bytes> host_capacity{};
  Sourced<Bytes> page_locked_capacity{};  ///< the part of the host's that copies may use
  Sourced<Bytes> disk_capacity{};
  std::array<std::optional<Link>, kLinkCount> links{};  ///< by LinkKind
  /// By op, then by bytes touched, each pair once; empty where no run was learned from.
  Sourced<std::vector<KernelWorkspace>> workspace{};

  [[nodiscard]] const std::optional<Link>& link(LinkKind kind) const {
    return links[index_of(kind)];
  }
  bool operator==(const Machine&) const = default;
};

/// Bytes that each tier may hold. A tier of 0 bytes is not there.
struct Budgets {
  std::array<Bytes, kTierCount> bytes{};

  [[nodiscard]] constexpr Bytes operator[](Tier tier) const { return bytes[index_of(tier)]; }
  [[nodiscard]] constexpr Bytes& operator[](Tier tier) { return bytes[index_of(tier)]; }
  bool operator==(const Budgets&) const = default;
};

/// All that the machine has: the device's capacity, page-locked host memory, the disk.
Budgets capacities(const Machine& machine);

/// The first thing wrong with the machine ("host-to-device: its rate is -1 ..."); nothing if
/// usable.
std::optional<std::string> validate(const Machine& machine);

}  // namespace spillway
