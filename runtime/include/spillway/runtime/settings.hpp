// SPDX-License-Identifier: Apache-2.0
// The settings, from the environment, the command line or a call. One table describes
// every setting (name, variable, flag, meaning), so that none of the three can drift from the docs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "spillway/base/bytes.hpp"

namespace spillway::runtime {

/// The engine's mode. See docs/modes.md.
enum class Mode : std::uint8_t { kOff, kRecord, kEnforce, kFuzz, kVerify };

std::string_view to_string(Mode mode);
/// Whether anything leaves the device in this mode.
constexpr bool moves(Mode mode) { return mode != Mode::kOff && mode != Mode::kRecord; }
/// Throws UserError naming the nearest mode.
Mode parse_mode(std::string_view text, std::string_view what);

/// How bytes get to the disk and back. See docs/disk.md.
enum class IoMethod : std::uint8_t {
  kAuto,     ///< io_uring where the machine allows it, else threads
  kUring,    ///< io_uring, or an error
  kThreads,  ///< pread and pwrite on several threads
};

/// `auto`, `uring`, `threads`.
std::string_view to_string(IoMethod method);

/// Whether storages are dropped that the op which made them can make again.
enum class Recompute : std::uint8_t {
  kAuto,  ///< in fuzz mode, and not on a card
  kOn,
  kOff,
};

/// A limit as people write it: bytes, a share of what the machine has, or `auto`.
struct BudgetSpec {
  enum class Kind : std::uint8_t { kBytes, kPercent, kAuto };
  Kind kind = Kind::kBytes;
  Bytes bytes{};       ///< kBytes
  double percent = 0;  ///< kPercent, in (0, 100]

  bool operator==(const BudgetSpec&) const = default;
};

/// `12GiB`, `80%`, `auto`. Throws UserError (zero, negative, unparsable), naming `what`.
BudgetSpec parse_budget(std::string_view text, std::string_view what);
std::string to_string(const BudgetSpec& spec);

/// The memory that `%` and `auto` are shares of, measured by the caller.
struct MachineMemory {
  Bytes total{};                      ///< RAM, or the cgroup limit where that is lower
  Bytes available{};                  ///< of it, what no process holds
  Bytes ours{};                       ///< what this process holds for tensors
  std::uint32_t local_processes = 1;  ///< LOCAL_WORLD_SIZE: % and auto are divided by it
};

/// Bytes the spec means on this machine, for one process. `auto` is what is ours and this process's
/// part of what is available less a reserve (5 % of the total, at least 512 MiB): what other
/// processes and this one's unmanaged memory hold is left to them. Throws UserError if it exceeds
/// `memory.total` or leaves less than 1 MiB; the text says need / have / short.
Bytes resolve_budget(const BudgetSpec& spec, const MachineMemory& memory, std::string_view what);

/// Whose memory the budget is of.
enum class BudgetDevice : std::uint8_t { kCpu, kCuda };

/// Everything a person can set. Defaults are those of a program started without any setting.
struct Settings {
  /// SPILLWAY_BUDGET=cuda:... or cpu:...; empty where it names no device: the framework's adapter
  /// decides then.
  std::optional<BudgetDevice> budget_of;

  std::optional<BudgetSpec> budget;       ///< SPILLWAY_BUDGET      RAM (or device) bytes
  std::optional<BudgetSpec> host_budget;  ///< SPILLWAY_HOST_BUDGET host tier below a device
  std::optional<BudgetSpec> disk_budget;  ///< SPILLWAY_DISK_BUDGET spool file bytes
  std::optional<Bytes> emulate_device;    ///< SPILLWAY_EMULATE_DEVICE
  std::optional<Mode> mode;               ///< SPILLWAY_MODE; enforce when a budget is set
  std::string spool_dir;                  ///< SPILLWAY_SPOOL_DIR; empty: a default is chosen
  IoMethod io = IoMethod::kAuto;          ///< SPILLWAY_IO
  Bytes min_size{64 << 10};               ///< SPILLWAY_MIN_SIZE: smaller storages never move
  Bytes least_size{4 << 10};  ///< the same where nothing else makes room; unless set: a page
  double start_at = 1.0;      ///< SPILLWAY_START_AT: eviction begins at this share of the budget
  Recompute recompute = Recompute::kAuto;  ///< SPILLWAY_RECOMPUTE
  bool overbook = false;                   ///< SPILLWAY_OVER=allow
  bool tf_async = true;     ///< SPILLWAY_TF_ASYNC=off: swaps hold TensorFlow's threads
  bool strict = true;       ///< SPILLWAY_STRICT=0 goes on without a limit on our own failures
  bool summary = false;     ///< SPILLWAY_SUMMARY=1: summary on stderr at exit
  std::string stats_path;   ///< SPILLWAY_STATS: statistics as JSON at exit
  std::string trace_path;   ///< SPILLWAY_TRACE: where record mode writes
  std::string status_path;  ///< SPILLWAY_STATUS_PAGE: shared page, set by `run`
  std::string budget_page;  ///< SPILLWAY_BUDGET_PAGE: see memory/shared_budget.hpp
  std::string planner;      ///< SPILLWAY_PLANNER: who decides for TensorFlow, with options
  std::string plan_cache;   ///< SPILLWAY_PLAN_CACHE: directory of its plans
  std::string keep_ops;     ///< SPILLWAY_KEEP_OPS: ops whose tensors never move
  std::string faults;       ///< SPILLWAY_FAULTS: see base/fault.hpp; tests only

  /// Whether there is a budget, and nothing says of which device.
  [[nodiscard]] bool names_no_device() const;
  /// Whether a framework may choose the device: nothing names it, and there is something to manage.
  [[nodiscard]] bool leaves_device_open() const;
  /// The mode in force: `mode`, else enforce where a budget or a device is stated, else off.
  [[nodiscard]] Mode effective_mode() const;
};

using NameValue = std::pair<std::string, std::string>;

/// Settings from `SPILLWAY_*` variables (others are ignored). Throws UserError on an unknown
/// SPILLWAY_ variable (naming the nearest) and on any value that does not parse. SPILLWAY_BUDGET
/// may name its device (`cpu:8GiB`, `cuda:12GiB`), one of them. Costs microseconds: it looks at
/// neither the machine nor any file.
Settings settings_from_environment(std::span<const NameValue> environment);

/// The process's environment, for the function above.
std::vector<NameValue> current_environment();

/// One row per setting, for help texts and the docs test.
struct SettingDescription {
  std::string_view variable;
  std::string_view flag;     ///< of `spillway run`; empty where there is none
  std::string_view value;    ///< e.g. "BYTES|%|auto"
  std::string_view meaning;  ///< one sentence
};
std::span<const SettingDescription> setting_descriptions();

}  // namespace spillway::runtime
