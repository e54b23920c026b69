// SPDX-License-Identifier: Apache-2.0
#include "spillway/runtime/settings.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"

namespace spillway::runtime {
namespace {

constexpr std::string_view kPrefix = "SPILLWAY_";
constexpr std::array<std::string_view, 3> kIoMethods{"auto", "uring", "threads"};
constexpr std::array<std::string_view, 3> kRecompute{"auto", "on", "off"};
constexpr std::array<std::string_view, 5> kModes{"off", "record", "enforce", "fuzz", "verify"};

// Left by `auto` to what grows outside the budget while training: the interpreter, libraries,
// numpy, the page cache of the data set.
constexpr Bytes kLeastReserve = kMiB * 512;
constexpr std::uint64_t kReserveShare = 20;  // one twentieth: 5 %
constexpr Bytes kLeastBudget = kMiB;

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

[[noreturn]] void throw_no_choice(std::string_view what, std::string_view text,
                                  std::span<const std::string_view> words) {
  throw UserError(fmt::format("{}: \"{}\" is not one of {}.{}", what, text, fmt::join(words, ", "),
                              suggestion(text, words)));
}

/// The number that the whole of `text` is; nothing else.
std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, std::chars_format::fixed);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

bool parse_switch(std::string_view text, std::string_view what) {
  std::string word(trimmed(text));
  std::transform(word.begin(), word.end(), word.begin(), [](char letter) {
    return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
  });
  if (word == "1" || word == "on" || word == "true" || word == "yes") return true;
  if (word == "0" || word == "off" || word == "false" || word == "no") return false;
  throw UserError(fmt::format("{}: \"{}\" is neither 1 nor 0.", what, text));
}

double parse_share(std::string_view text, std::string_view what) {
  const auto share = number_in(trimmed(text));
  // Written so that not-a-number is refused too.
  if (!share || !(*share >= 0 && *share <= 1)) {
    throw UserError(
        fmt::format("{}: \"{}\" is not a share from 0 to 1; give one such as 0.9.", what, text));
  }
  return *share;
}

bool parse_over(std::string_view text, std::string_view what) {
  static constexpr std::array<std::string_view, 2> kWords{"allow", "refuse"};
  const std::string_view word = trimmed(text);
  if (word != kWords[0] && word != kWords[1]) throw_no_choice(what, text, kWords);
  return word == kWords[0];
}

IoMethod parse_io(std::string_view text, std::string_view what) {
  const auto found = std::find(kIoMethods.begin(), kIoMethods.end(), trimmed(text));
  if (found == kIoMethods.end()) throw_no_choice(what, text, kIoMethods);
  return static_cast<IoMethod>(found - kIoMethods.begin());
}

Recompute parse_recompute(std::string_view text, std::string_view what) {
  const auto found = std::find(kRecompute.begin(), kRecompute.end(), trimmed(text));
  if (found == kRecompute.end()) throw_no_choice(what, text, kRecompute);
  return static_cast<Recompute>(found - kRecompute.begin());
}

Bytes parse_device_bytes(std::string_view text, std::string_view what) {
  const Bytes bytes = parse_bytes(text, what);
  if (bytes < kLeastBudget) {
    throw UserError(
        fmt::format("{}: \"{}\" is less than {}; give more.", what, text, to_string(kLeastBudget)));
  }
  return bytes;
}

struct DeviceBudget {
  BudgetSpec spec;
  std::optional<BudgetDevice> device = std::nullopt;
};

/// A budget as in parse_budget, or that of a device: `cpu:8GiB`, `cuda:12GiB`.
DeviceBudget parse_device_budget(std::string_view text, std::string_view what) {
  if (text.find(':') == std::string_view::npos) return {.spec = parse_budget(text, what)};
  std::optional<BudgetSpec> cpu;
  std::optional<BudgetSpec> cuda;
  for (std::size_t first = 0; first <= text.size();) {
    const std::size_t end = std::min(text.find(',', first), text.size());
    const std::string_view part = text.substr(first, end - first);
    first = end + 1;
    const auto colon = part.find(':');
    const std::string_view device = trimmed(part.substr(0, colon));
    if (colon == std::string_view::npos || (device != "cpu" && device != "cuda")) {
      throw UserError(
          fmt::format("{}: \"{}\" is not a device with its budget; give one budget such as 8GiB, "
                      "or cpu:8GiB, or cuda:12GiB.",
                      what, part));
    }
    if (part.find('=') != std::string_view::npos) {
      throw UserError(
          fmt::format("{}: \"{}\" asks for a budget of one card of several, which is not supported "
                      "yet. Show each process one card by CUDA_VISIBLE_DEVICES, and give its "
                      "budget as cuda:12GiB.",
                      what, part));
    }
    const BudgetSpec spec = parse_budget(part.substr(colon + 1), what);
    std::optional<BudgetSpec>& known = device == "cpu" ? cpu : cuda;
    if (known) throw UserError(fmt::format("{}: \"{}\" names {} twice.", what, text, device));
    known = spec;
  }
  if (cpu && cuda) {
    throw UserError(
        fmt::format("{}: \"{}\" asks for budgets of two devices, which is not supported yet. Leave "
                    "the cpu part out to hold the graphics card's memory, or the cuda part to hold "
                    "the CPU's.",
                    what, text));
  }
  if (cuda) return {.spec = *cuda, .device = BudgetDevice::kCuda};
  // Every part named a device, and there is at least one.
  return {.spec = *cpu, .device = BudgetDevice::kCpu};
}

using Apply = void (*)(Settings&, std::string_view text, std::string_view variable);

struct Row {
  SettingDescription description;
  Apply apply;
};

constexpr auto kRows = std::to_array<Row>({
    {{"SPILLWAY_BUDGET", "--budget", "BYTES|%|auto", "Memory that tensors may hold."},
     [](Settings& s, std::string_view t, std::string_view v) {
       const DeviceBudget budget = parse_device_budget(t, v);
       s.budget = budget.spec;
       s.budget_of = budget.device;
     }},
    {{"SPILLWAY_HOST_BUDGET", "--host-budget", "BYTES|%|auto",
      "Host memory that may hold what left a card, an emulated device or TensorFlow's budget."},
     [](Settings& s, std::string_view t, std::string_view v) {
       s.host_budget = parse_budget(t, v);
     }},
    {{"SPILLWAY_DISK_BUDGET", "--disk-budget", "BYTES|%|auto", "Disk that the spool may use."},
     [](Settings& s, std::string_view t, std::string_view v) {
       s.disk_budget = parse_budget(t, v);
     }},
    {{"SPILLWAY_EMULATE_DEVICE", "--emulate-device", "BYTES",
      "Treat this much memory as a device, with the rest of the memory below it."},
     [](Settings& s, std::string_view t, std::string_view v) {
       s.emulate_device = parse_device_bytes(t, v);
     }},
    {{"SPILLWAY_MODE", "--mode", "off|record|enforce|fuzz|verify",
      "What is done with the tensors seen; enforce where a budget is set."},
     [](Settings& s, std::string_view t, std::string_view v) { s.mode = parse_mode(t, v); }},
    {{"SPILLWAY_SPOOL_DIR", "--spool-dir", "DIR",
      "Directory of the spool file, on a real and fast disk."},
     [](Settings& s, std::string_view t, std::string_view) { s.spool_dir = t; }},
    {{"SPILLWAY_IO", "--io", "auto|uring|threads",
      "How bytes get to the spool and back; auto takes io_uring where the machine allows it."},
     [](Settings& s, std::string_view t, std::string_view v) { s.io = parse_io(t, v); }},
    {{"SPILLWAY_MIN_SIZE", "--min-size", "BYTES",
      "Storages smaller than this never move. Unless it is set, TensorFlow's on the processor of 4 "
      "KiB and more do where memory runs out."},
     [](Settings& s, std::string_view t, std::string_view v) {
       s.min_size = s.least_size = parse_bytes(t, v);
     }},
    {{"SPILLWAY_START_AT", "--start-at", "0..1",
      "Share of the budget in use at which eviction begins."},
     [](Settings& s, std::string_view t, std::string_view v) { s.start_at = parse_share(t, v); }},
    {{"SPILLWAY_RECOMPUTE", "--recompute", "auto|on|off",
      "Whether PyTorch's tensors are dropped, not copied, where the op that made them runs again "
      "in less time; auto: in fuzz mode. In TensorFlow the planner decides, and off forbids it."},
     [](Settings& s, std::string_view t, std::string_view v) {
       s.recompute = parse_recompute(t, v);
     }},
    {{"SPILLWAY_OVER", "--over", "refuse|allow",
      "Whether an op that does not fit alone stops the program or exceeds the budget."},
     [](Settings& s, std::string_view t, std::string_view v) { s.overbook = parse_over(t, v); }},
    {{"SPILLWAY_TF_ASYNC", "--tf-async", "on|off",
      "Whether TensorFlow's swaps run beside its ops; off: each holds the thread that comes to "
      "it."},
     [](Settings& s, std::string_view t, std::string_view v) { s.tf_async = parse_switch(t, v); }},
    {{"SPILLWAY_STRICT", "", "1|0",
      "Whether a failure inside Spillway ends the program, or leaves it without a limit."},
     [](Settings& s, std::string_view t, std::string_view v) { s.strict = parse_switch(t, v); }},
    {{"SPILLWAY_SUMMARY", "--summary", "on|off", "Summary on standard error at the end."},
     [](Settings& s, std::string_view t, std::string_view v) { s.summary = parse_switch(t, v); }},
    {{"SPILLWAY_STATS", "--stats", "FILE", "Write the statistics as JSON at the end."},
     [](Settings& s, std::string_view t, std::string_view) { s.stats_path = t; }},
    {{"SPILLWAY_TRACE", "", "FILE",
      "Where record mode writes the trace; a name that ends in .zst compresses it."},
     [](Settings& s, std::string_view t, std::string_view) { s.trace_path = t; }},
    {{"SPILLWAY_PLANNER", "", "NAME[:OPTION=VALUE,...]",
      "Planner that decides which tensors of TensorFlow's graphs leave, and when they come back; "
      "none: no planner does."},
     [](Settings& s, std::string_view t, std::string_view) { s.planner = t; }},
    {{"SPILLWAY_PLAN_CACHE", "", "DIR",
      "Directory in which that planner's plans are kept for the next run."},
     [](Settings& s, std::string_view t, std::string_view) { s.plan_cache = t; }},
    {{"SPILLWAY_KEEP_OPS", "", "OP,OP,...", "Ops whose tensors stay in memory once used by them."},
     [](Settings& s, std::string_view t, std::string_view) { s.keep_ops = t; }},
    {{"SPILLWAY_STATUS_PAGE", "", "PATH",
      "Shared page for live counters; set by spillway run, not by hand."},
     [](Settings& s, std::string_view t, std::string_view) { s.status_path = t; }},
    {{"SPILLWAY_BUDGET_PAGE", "", "PATH",
      "Shared budget of the processes that multiprocessing starts; set by their parent, not by "
      "hand."},
     [](Settings& s, std::string_view t, std::string_view) { s.budget_page = t; }},
    {{"SPILLWAY_FAULTS", "", "POINT=FAULT@N,...",
      "Failures to act out, for tests of Spillway itself."},
     [](Settings& s, std::string_view t, std::string_view) { s.faults = t; }},
});

constexpr auto kDescriptions = [] {
  std::array<SettingDescription, kRows.size()> descriptions{};
  for (std::size_t i = 0; i < kRows.size(); ++i) descriptions[i] = kRows[i].description;
  return descriptions;
}();

// Where the planning commands find machines, and a report the command: nothing to a program.
constexpr std::array<std::string_view, 2> kOfTheCommands{"SPILLWAY_COMMAND", "SPILLWAY_MACHINES"};

// The prefix is left out of the comparison: nine equal letters would make any two names near.
[[noreturn]] void throw_unknown_variable(std::string_view name) {
  std::vector<std::string_view> words;
  words.reserve(kDescriptions.size());
  for (const SettingDescription& row : kDescriptions) {
    words.push_back(row.variable.substr(kPrefix.size()));
  }
  const std::string hint = suggestion(name.substr(kPrefix.size()), words, kPrefix);
  throw UserError(hint.empty()
                      ? fmt::format("{0} is not a setting; there are {1}{2}. Unset {0}.", name,
                                    kPrefix, fmt::join(words, fmt::format(", {}", kPrefix)))
                      : fmt::format("{0} is not a setting.{1} Else unset {0}.", name, hint));
}

void require_one_device(const Settings& settings) {
  if (settings.budget_of != BudgetDevice::kCuda || !settings.emulate_device) return;
  throw UserError(
      "SPILLWAY_EMULATE_DEVICE: a device is emulated in the CPU's memory, and SPILLWAY_BUDGET is a "
      "graphics card's. Unset one of them.");
}

// Mode off is as if nothing were set.
void require_mode_of_trace(const Settings& settings) {
  if (settings.trace_path.empty() || settings.mode == Mode::kOff) return;
  if (settings.effective_mode() == Mode::kRecord) return;
  throw UserError(fmt::format(
      "SPILLWAY_TRACE: \"{}\" is written by SPILLWAY_MODE=record alone. Else unset SPILLWAY_TRACE.",
      settings.trace_path));
}

}  // namespace

std::string_view to_string(IoMethod method) {
  return kIoMethods.at(static_cast<std::size_t>(method));
}

std::string_view to_string(Mode mode) { return kModes.at(static_cast<std::size_t>(mode)); }

Mode parse_mode(std::string_view text, std::string_view what) {
  const auto found = std::find(kModes.begin(), kModes.end(), trimmed(text));
  if (found == kModes.end()) throw_no_choice(what, text, kModes);
  return static_cast<Mode>(found - kModes.begin());
}

BudgetSpec parse_budget(std::string_view text, std::string_view what) {
  const std::string_view word = trimmed(text);
  if (word == "auto") return {.kind = BudgetSpec::Kind::kAuto};
  if (!word.empty() && word.back() == '%') {
    const auto percent = number_in(trimmed(word.substr(0, word.size() - 1)));
    if (!percent || !(*percent > 0 && *percent <= 100)) {
      throw UserError(
          fmt::format("{}: \"{}\" is not a share of the whole; give one above 0 % and "
                      "up to 100 %, such as 80%.",
                      what, text));
    }
    return {.kind = BudgetSpec::Kind::kPercent, .percent = *percent};
  }
  if (word.empty() || word.front() < '.' || word.front() > '9') {
    throw UserError(
        fmt::format("{}: \"{}\" is not a budget; give bytes such as 12GiB, a share such "
                    "as 80%, or auto.",
                    what, text));
  }
  const Bytes bytes = parse_bytes(word, what);
  if (bytes == Bytes{0}) {
    throw UserError(
        fmt::format("{}: \"{}\" leaves nothing; give bytes such as 12GiB, a share such "
                    "as 80%, or auto.",
                    what, text));
  }
  return {.kind = BudgetSpec::Kind::kBytes, .bytes = bytes};
}

std::string to_string(const BudgetSpec& spec) {
  switch (spec.kind) {
    case BudgetSpec::Kind::kPercent:
      return fmt::format("{}%", spec.percent);
    case BudgetSpec::Kind::kAuto:
      return "auto";
    case BudgetSpec::Kind::kBytes:
      break;
  }
  return to_string(spec.bytes);
}

Bytes resolve_budget(const BudgetSpec& spec, const MachineMemory& memory, std::string_view what) {
  const std::uint64_t processes = std::max(memory.local_processes, 1U);
  Bytes budget = spec.bytes;
  if (spec.kind == BudgetSpec::Kind::kPercent) {
    const double share = static_cast<double>(memory.total.count) * spec.percent / 100;
    budget = {static_cast<std::uint64_t>(share) / processes};
  } else if (spec.kind == BudgetSpec::Kind::kAuto) {
    const Bytes reserve = std::max(kLeastReserve, Bytes{memory.total.count / kReserveShare});
    budget = memory.ours + Bytes{saturating_sub(memory.available, reserve).count / processes};
  }
  if (budget > memory.total) {
    throw UserError(fmt::format("{}: need {}, have {}, short {}. Give at most {}, or auto.", what,
                                to_string(budget), to_string(memory.total),
                                to_string(budget - memory.total), to_string(memory.total)));
  }
  if (budget < kLeastBudget && spec.kind == BudgetSpec::Kind::kBytes) {
    throw UserError(fmt::format("{}: {} is too little: need {}, short {}. Give more.", what,
                                to_string(budget), to_string(kLeastBudget),
                                to_string(kLeastBudget - budget)));
  }
  if (budget < kLeastBudget) {
    throw UserError(fmt::format(
        "{}: {} is too little: need {}, have {}, short {} ({} in all, {} of them available, "
        "divided by {} processes). Give more, run fewer processes, or free memory.",
        what, to_string(spec), to_string(kLeastBudget), to_string(budget),
        to_string(kLeastBudget - budget), to_string(memory.total), to_string(memory.available),
        processes));
  }
  return budget;
}

// Processes share a budget of the CPU's memory alone.
bool Settings::names_no_device() const {
  return budget.has_value() && !budget_of && !emulate_device && budget_page.empty();
}

bool Settings::leaves_device_open() const {
  return names_no_device() && effective_mode() != Mode::kOff;
}

Mode Settings::effective_mode() const {
  if (mode) return *mode;
  return budget || emulate_device ? Mode::kEnforce : Mode::kOff;
}

Settings settings_from_environment(std::span<const NameValue> environment) {
  Settings settings;
  for (const NameValue& entry : environment) {
    const std::string& name = entry.first;
    if (name.compare(0, kPrefix.size(), kPrefix) != 0) continue;
    if (std::ranges::find(kOfTheCommands, name) != kOfTheCommands.end()) continue;
    const auto row = std::find_if(kRows.begin(), kRows.end(), [&name](const Row& candidate) {
      return candidate.description.variable == name;
    });
    if (row == kRows.end()) throw_unknown_variable(name);
    row->apply(settings, entry.second, name);
  }
  require_mode_of_trace(settings);
  require_one_device(settings);
  return settings;
}

std::vector<NameValue> current_environment() {
  std::vector<NameValue> environment;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const auto equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    environment.emplace_back(text.substr(0, equals), text.substr(equals + 1));
  }
  return environment;
}

std::span<const SettingDescription> setting_descriptions() { return kDescriptions; }

}  // namespace spillway::runtime
