// SPDX-License-Identifier: Apache-2.0
#include "planning_inputs.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <system_error>
#include <utility>

#include "spillway/base/error.hpp"
#include "spillway/base/nearest.hpp"
#include "spillway/machine/machine_io.hpp"
#include "spillway/planning/cost/roofline.hpp"
#include "spillway/trace/trace_io.hpp"

namespace spillway::tools {
namespace {

namespace fs = std::filesystem;

/// In the Python package below the prefix of the installed command, whichever Python that is for;
/// in share/ where there is no package; else in the source tree that this was built from.
fs::path machines_folder() {
  if (const char* given = std::getenv("SPILLWAY_MACHINES")) return given;
  std::error_code error;
  const fs::path prefix = fs::read_symlink("/proc/self/exe", error).parent_path().parent_path();
  for (const auto& python : fs::directory_iterator(prefix / "lib", error)) {
    for (const char* packages : {"site-packages", "dist-packages"}) {
      const fs::path machines = python.path() / packages / "spillway/machines";
      if (fs::is_directory(machines, error)) return machines;
    }
  }
  const fs::path shared = prefix / "share/spillway/machines";
  return fs::is_directory(shared, error) ? shared : fs::path(SPILLWAY_SOURCE_MACHINES);
}

std::vector<std::string> machine_names() {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& file : fs::directory_iterator(machines_folder(), error)) {
    if (file.path().extension() == ".json") names.push_back(file.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

bool is_machine_file(std::string_view name) {
  return name.find('/') != std::string_view::npos || name.find('.') != std::string_view::npos;
}

Machine find_machine(const std::string& name) {
  if (is_machine_file(name)) return read_machine(name);
  const std::vector<std::string> names = machine_names();
  if (std::find(names.begin(), names.end(), name) != names.end()) {
    return read_machine((machines_folder() / (name + ".json")).string());
  }
  const std::vector<std::string_view> words(names.begin(), names.end());
  const auto nearest = nearest_word(name, words);
  if (names.empty()) {
    throw UserError(fmt::format("There is no machine \"{}\": {} holds none. Name a file.", name,
                                machines_folder().string()));
  }
  throw UserError(fmt::format("There is no machine \"{}\".{} Known: {}. A file is given as a path.",
                              name, nearest ? fmt::format(" Did you mean \"{}\"?", *nearest) : "",
                              fmt::join(names, ", ")));
}

std::vector<Machine> known_machines() {
  std::vector<Machine> machines;
  for (const std::string& name : machine_names()) machines.push_back(find_machine(name));
  return machines;
}

Bytes device_budget(const std::string& text, const Trace& trace) {
  if (text.empty() || text.back() != '%') return parse_bytes(text, "--budget");
  double percent = 0;
  const char* const last = text.data() + text.size() - 1;
  const auto [end, error] = std::from_chars(text.data(), last, percent);
  if (error != std::errc{} || end != last || percent <= 0) {
    throw UserError(fmt::format("--budget \"{}\" is not a share such as 60%.", text));
  }
  constexpr double kPercent = 100;
  return {static_cast<std::uint64_t>(static_cast<double>(peak_bytes(trace).count) * percent /
                                     kPercent)};
}

Budgets lower_budgets(const PlanningRequest& request, const Machine& machine) {
  Budgets budgets = capacities(machine);
  const bool has_host = machine.link(LinkKind::kDeviceToHost).has_value();
  if (!has_host) budgets[Tier::kHost] = {};
  if (has_host || !machine.link(LinkKind::kHostToDisk)) budgets[Tier::kDisk] = {};
  if (request.host_budget) budgets[Tier::kHost] = parse_bytes(*request.host_budget, "--host");
  if (request.disk_budget) budgets[Tier::kDisk] = parse_bytes(*request.disk_budget, "--disk");
  return budgets;
}

PlanningInputs read_inputs(const PlanningRequest& request, const std::string& path) {
  PlanningInputs inputs;
  inputs.machine = find_machine(request.machine.value_or(kDefaultMachine));
  inputs.trace = read_trace(path);
  if (request.estimate_times) {
    inputs.trace.timed = false;
    std::fill(inputs.trace.ops.duration_ns.begin(), inputs.trace.ops.duration_ns.end(), 0);
  }
  inputs.trace = planning::timed_on(std::move(inputs.trace), inputs.machine);
  inputs.budgets = lower_budgets(request, inputs.machine);
  if (!request.device_budgets.empty()) {
    inputs.budgets[Tier::kDevice] = device_budget(request.device_budgets.front(), inputs.trace);
  }
  return inputs;
}

planning::Options options_for(const planning::Planner& planner, const PlanningRequest& request,
                              bool lenient) {
  planning::Options options(planner.options());
  for (const auto& [name, text] : request.options) {
    const auto has = std::any_of(planner.options().begin(), planner.options().end(),
                                 [&](const auto& field) { return field.name == name; });
    if (!has && lenient) continue;
    if (!has) {
      throw UserError(fmt::format("--{} is no option of the planner {}.", name, planner.name()));
    }
    options.set(name, std::string_view(text));
  }
  return options;
}

}  // namespace spillway::tools
