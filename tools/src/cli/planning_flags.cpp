// SPDX-License-Identifier: Apache-2.0
#include "cli/planning_flags.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <map>
#include <string_view>
#include <utility>

#include "cli/help_text.hpp"
#include "plan/planning_request_check.hpp"
#include "spillway/base/error.hpp"
#include "spillway/planning/registry.hpp"

namespace spillway::tools {
namespace {

using Command = PlanningRequest::Command;

constexpr std::array<std::pair<std::string_view, Command>, 5> kCommands{
    {{"plan", Command::kPlan},
     {"simulate", Command::kSimulate},
     {"compare", Command::kCompare},
     {"explain", Command::kExplain},
     {"what-if", Command::kWhatIf}}};

std::optional<std::string> given(const std::string& text) {
  return text.empty() ? std::nullopt : std::optional(text);
}

std::vector<std::string> words_of(const std::string& list) {
  std::vector<std::string> words;
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) words.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

template <typename Number>
Number parse_number(std::string_view text, std::string_view flag, std::string_view expected) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size() && number >= 0) return number;
  throw UserError(fmt::format("{} \"{}\" is not {}.", flag, text, expected));
}

/// `2s`, `500ms`, `1.5 min`; a bare number means seconds.
TimeNs parse_duration(std::string_view text, std::string_view flag) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"ms", 1e6}, {"min", 60e9}, {"s", 1e9}, {"", 1e9}}};
  constexpr std::string_view kExpected = "a time such as 2s, 500ms or 1min";
  constexpr double kMost = 86'400e9;
  for (const auto& [unit, factor] : kUnits) {
    if (text.size() < unit.size() || text.substr(text.size() - unit.size()) != unit) continue;
    std::string_view number = text.substr(0, text.size() - unit.size());
    while (!number.empty() && number.back() == ' ') number.remove_suffix(1);
    const double time = parse_number<double>(number, flag, kExpected) * factor;
    if (time <= kMost) return static_cast<TimeNs>(time);
    break;
  }
  throw UserError(fmt::format("{} \"{}\" is not {}, of at most a day.", flag, text, kExpected));
}

/// `1:512`, or `512` for one to so many.
std::pair<std::uint64_t, std::uint64_t> parse_range(std::string_view text, std::string_view flag) {
  constexpr std::string_view kExpected = "a range such as 1:512, from at least 1";
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  const std::size_t colon = text.find(':');
  const auto number = [&](std::string_view part) {
    return parse_number<std::uint64_t>(part, flag, kExpected);
  };
  const std::uint64_t least = colon == std::string_view::npos ? 1 : number(text.substr(0, colon));
  const std::uint64_t most =
      number(colon == std::string_view::npos ? text : text.substr(colon + 1));
  if (least < 1 || most < least || most > kMost) {
    throw UserError(fmt::format("{} \"{}\" is not {}.", flag, text, kExpected));
  }
  return {least, most};
}

double parse_share(std::string_view text, std::string_view flag) {
  constexpr std::string_view kExpected = "a share such as 5%";
  if (text.empty() || text.back() != '%') {
    throw UserError(fmt::format("{} \"{}\" is not {}.", flag, text, kExpected));
  }
  constexpr double kPercent = 100;
  return parse_number<double>(text.substr(0, text.size() - 1), flag, kExpected) / kPercent;
}

/// The meanings of the planners' options, by name.
std::map<std::string, std::string> option_meanings() {
  std::map<std::string, std::string> meanings;
  for (const planning::Planner* planner : planning::planners()) {
    for (const planning::OptionField& field : planner->options()) {
      std::string& text = meanings[std::string(field.name)];
      text += fmt::format("{}{}: {} ({})", text.empty() ? "" : " ", planner->name(), field.meaning,
                          planning::to_string(field.fallback));
    }
  }
  return meanings;
}

}  // namespace

void PlanningFlags::add_machine_flags(CLI::App& command, const std::string& otherwise) {
  command.add_option("--machine", machine_, "The machine: a name or a file. Default " + otherwise)
      ->type_name("NAME|FILE");
  command.add_flag("--estimate-times", estimate_times_,
                   "Durations by the machine's figures. Default where recorded elsewhere.");
  command.add_flag("--recorded-times", recorded_times_,
                   "Those of the trace, though it was recorded on another machine.");
  command.add_flag("--json", json_, "Print JSON.");
}

void PlanningFlags::add_budget_flags(CLI::App& command) {
  command.add_option("--budget", budgets_, "Device memory: 12GiB, or 60% of the step's peak.")
      ->type_name("B")
      ->delimiter(',')
      // The word behind it is the trace.
      ->allow_extra_args(false);
  command.add_option("--host", host_, "Host memory. Default what the machine can page-lock.")
      ->type_name("B");
  command.add_option("--disk", disk_, "Disk space. Default none, if there is a host tier.")
      ->type_name("B");
}

void PlanningFlags::add_margin_flag(CLI::App& command) {
  command
      .add_option("--workspace-margin", workspace_share_,
                  "Share of the largest working set that plans leave free where the trace was "
                  "recorded without kernels. Default 0.6.")
      ->type_name("SHARE")
      ->check(CLI::Range(0.0, 10.0));
}

void PlanningFlags::add_planner_flags(CLI::App& command) {
  command.add_option("--time-limit", time_limit_, "How long a search may take. Default 2s.")
      ->type_name("T");
  command.add_option("--seed", seed_, "Let a search start from the others' plans: all.")
      ->type_name("all");
  for (const auto& [name, meaning] : option_meanings()) {
    OptionText& row = options_.emplace_back();
    row.name = name;
    row.command = &command;
    // `--disk` states a size; whether hybrid uses it is `--use-disk`.
    const bool taken = command.get_option_no_throw("--" + name) != nullptr;
    row.option =
        command.add_option((taken ? "--use-" : "--") + name, row.text, meaning)->type_name("X");
  }
}

// The words go on to Python as they are (ReportRequest): these are for --help, and for the nearest
// right word.
void PlanningFlags::add_report(CLI::App& app) {
  CLI::App* report = app.add_subcommand("report", "One page in HTML of a trace, a plan or a run.");
  report->prefix_command();
  struct Flag {
    const char* name;
    const char* value;
    const char* meaning;
  };
  constexpr std::array<Flag, 7> kFlags{{
      {"-o,--output", "FILE", "The page to write."},
      {"--trace", "FILE", "The trace that a plan or a run belongs to."},
      {"--machine", "NAME|FILE", "Where to simulate the plan. Default as it was made for."},
      {"--compare", "FILE", "What spillway compare --json printed."},
      {"--run", "FILE", "Statistics of a run with the plan."},
      {"--perfetto", "FILE", "Also write the step for ui.perfetto.dev."},
      {"--title", "TEXT", "Heading of the page."},
  }};
  for (const Flag& flag : kFlags) {
    report->add_option(flag.name, report_word_, flag.meaning)->type_name(flag.value);
  }
  report->add_flag("--json")->description("Print the names of the written files as JSON.");
}

void PlanningFlags::add_what_if(CLI::App& what_if) {
  what_if.add_option("--slowdown", slowdown_, "The smallest budget that costs no more.")
      ->type_name("5%");
  what_if
      .add_option("--batch", batch_,
                  "The largest size that fits: the program behind -- is recorded without memory, "
                  "the size in place of {batch}.")
      ->type_name("A:B");
  what_if
      .add_option("--assume", assume_,
                  "With --batch: the value that the program reads from a tensor.")
      ->type_name("N");
  what_if.add_flag("--machines", all_machines_, "Try every known machine.");
  what_if.add_option("--planner", planner_, "Who decides. Default hybrid.")->type_name("NAME");
  add_budget_flags(what_if);
  add_margin_flag(what_if);
  add_machine_flags(what_if, "h200.");
  add_planner_flags(what_if);
}

void PlanningFlags::add_commands(CLI::App& app) {
  const auto add = [&](const char* name, const char* meaning, const char* files) {
    CLI::App* command = app.add_subcommand(name, meaning);
    command->add_option(files, files_, "Written by spillway record or spillway plan.");
    return command;
  };
  CLI::App* plan = add("plan", "Decide what leaves, when, where to, and when it is back.", "TRACE");
  plan->add_option("-o,--output", output_, "Where the plan goes; .zst compresses it.")
      ->type_name("FILE");
  plan->add_option("--planner", planner_, "Who decides. Default hybrid.")->type_name("NAME");
  add_budget_flags(*plan);
  add_margin_flag(*plan);
  add_machine_flags(*plan, "h200.");
  add_planner_flags(*plan);

  CLI::App* simulate = add("simulate", "Predict a step, with a plan or without limits.", "TRACE");
  simulate->add_option("--plan", plan_, "The plan to carry out.")->type_name("FILE");
  simulate->add_flag("--timeline", timeline_, "With --json: every op, stall and copy.");
  simulate->add_option("--perfetto", perfetto_, "Write the timeline for ui.perfetto.dev.")
      ->type_name("FILE");
  add_budget_flags(*simulate);
  add_machine_flags(*simulate, "the plan's, else h200.");

  CLI::App* compare = add("compare", "All planners at several budgets, side by side.", "TRACE");
  compare->add_option("--planners", planners_, "Only these, separated by commas.")
      ->type_name("A,B");
  add_budget_flags(*compare);
  add_margin_flag(*compare);
  add_machine_flags(*compare, "h200.");
  add_planner_flags(*compare);

  CLI::App* explain = add("explain", "Say in words what a plan does, and why.", "PLAN");
  explain->add_option("--trace", trace_, "The trace it was made for, if it has moved.")
      ->type_name("FILE");
  explain->add_option("--storage", storage_, "Only this storage: its name or number.")
      ->type_name("NAME");
  explain->add_option("--op", op_, "Only what is done before this op.")->type_name("N");
  explain->add_option("--top", top_, "So many of the largest decisions. Default 20.")
      ->type_name("N");
  add_machine_flags(*explain, "the plan's, else h200.");

  add_what_if(*add("what-if", "Smallest budget, largest batch, which card.", "TRACE"));
  add_report(app);
}

bool PlanningFlags::is_planning(const CLI::App& command) {
  return std::any_of(kCommands.begin(), kCommands.end(),
                     [&](const auto& row) { return row.first == command.get_name(); });
}

PlanningRequest PlanningFlags::request(const CLI::App& command,
                                       std::vector<std::string> program) const {
  PlanningRequest request;
  for (const auto& [name, kind] : kCommands) {
    if (name == command.get_name()) request.command = kind;
  }
  request.program = std::move(program);
  request.assume = assume_;
  if (!batch_.empty()) request.batch = parse_range(batch_, "--batch");
  if (files_.empty() && !request.batch) {
    throw UserError(fmt::format("No file: {} {}", command_path(command),
                                request.command == Command::kExplain ? "PLAN" : "TRACE"));
  }
  if (files_.size() > 1 && request.command != Command::kWhatIf) {
    throw UserError(
        fmt::format("{} takes one file, not \"{}\" too.", command_path(command), files_[1]));
  }
  request.files = files_;
  request.trace_path = given(trace_);
  request.plan_path = given(plan_);
  request.output_path = given(output_);
  request.perfetto_path = given(perfetto_);
  request.machine = given(machine_);
  request.device_budgets = budgets_;
  request.host_budget = given(host_);
  request.disk_budget = given(disk_);
  if (estimate_times_) request.durations = Durations::kEstimated;
  if (recorded_times_) {
    if (estimate_times_) {
      throw UserError("--estimate-times does not go with --recorded-times: leave one of them out.");
    }
    request.durations = Durations::kRecorded;
  }
  request.workspace_share = workspace_share_;
  request.planner = planner_;
  request.planners = words_of(planners_);
  if (!planners_.empty() && request.planners.empty()) {
    throw UserError(
        fmt::format("--planners \"{}\" names none: give lru,hybrid for two.", planners_));
  }
  for (const OptionText& row : options_) {
    if (row.command == &command && row.option->count() > 0) {
      request.options.emplace_back(row.name, row.text);
    }
  }
  if (!time_limit_.empty()) request.time_limit_ns = parse_duration(time_limit_, "--time-limit");
  if (!seed_.empty() && seed_ != "all") {
    throw UserError(fmt::format("--seed \"{}\" is not all.", seed_));
  }
  request.seed_all = !seed_.empty();
  request.storage = given(storage_);
  if (!op_.empty()) request.op = parse_number<std::uint64_t>(op_, "--op", "the number of an op");
  if (!top_.empty()) request.top = parse_number<std::size_t>(top_, "--top", "a number");
  if (!slowdown_.empty()) request.slowdown = parse_share(slowdown_, "--slowdown");
  request.all_machines = all_machines_;
  request.timeline = timeline_;
  request.json = json_;
  check_request(request);
  return request;
}

}  // namespace spillway::tools
