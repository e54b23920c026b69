// SPDX-License-Identifier: Apache-2.0
#include "doctor.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "doctor_checks.hpp"
#include "machine_file.hpp"
#include "python_probe.hpp"
#include "quantity_text.hpp"
#include "spillway/runtime/transfer/spool.hpp"

namespace spillway::tools {
namespace {

constexpr std::size_t kColumns = 80;
constexpr std::size_t kTopicColumns = 14;
constexpr std::size_t kVerdictColumns = 9;
constexpr std::size_t kTextStart = kTopicColumns + kVerdictColumns;

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarning:
      return "warning";
    case Verdict::kFailed:
      return "FAILED";
  }
  return "";
}

std::size_t count(const std::vector<Finding>& findings, Verdict verdict) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const Finding& finding) { return finding.verdict == verdict; }));
}

std::string closing_line(const std::vector<Finding>& findings) {
  const std::size_t failed = count(findings, Verdict::kFailed);
  const std::size_t warnings = count(findings, Verdict::kWarning);
  if (failed > 0)
    return fmt::format("Training under a budget cannot work here: {} failed.", failed);
  if (warnings == 1) return "Training under a budget works here; see the warning.";
  if (warnings > 1) {
    return fmt::format("Training under a budget works here; see the {} warnings.", warnings);
  }
  return "All is well.";
}

std::string spool_directory(const DoctorRequest& request) {
  if (request.spool_dir) return *request.spool_dir;
  const char* variable = std::getenv("SPILLWAY_SPOOL_DIR");
  if (variable != nullptr && *variable != '\0') return variable;
  return runtime::default_spool_directory();
}

std::string machine_summary(const Machine& machine, const std::string& path) {
  constexpr double kGiga = 1e9;
  const auto& rates = machine.device.flop_per_second;
  return fmt::format("{:.0f} GFLOP/s in float32, memory {}: written to {}",
                     rates[static_cast<std::size_t>(Arithmetic::kFloat32)].value / kGiga,
                     short_rate(machine.device.memory_bytes_per_second.value), path);
}

std::vector<Finding> examine(const DoctorRequest& request) {
  std::vector<Finding> findings;
  utsname system{};
  uname(&system);
  findings.push_back({"spillway", Verdict::kOk, SPILLWAY_VERSION, ""});
  findings.push_back({"kernel", Verdict::kOk,
                      fmt::format("{} {} {}", system.sysname, system.release, system.machine), ""});
  PythonFacts python = probe_python("python3");
  if (!python.found) python = probe_python("python");
  const SpoolCheck spool = check_spool(spool_directory(request));
  for (const auto& check : {check_python(python), check_memory(), check_limits(), spool.findings}) {
    findings.insert(findings.end(), check.begin(), check.end());
  }
  if (request.save_path) {
    const Machine machine = save_machine(*request.save_path, spool.speed, spool.free);
    findings.push_back({"machine", Verdict::kOk, machine_summary(machine, *request.save_path), ""});
  }
  return findings;
}

}  // namespace

std::string format_findings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    std::string topic = finding.topic;
    std::string verdict(to_string(finding.verdict));
    std::vector<std::string> lines = wrap_text(finding.what, kColumns - kTextStart);
    for (const std::string& line : wrap_text(finding.remedy, kColumns - kTextStart - 3)) {
      lines.push_back((lines.size() == 0 || line.empty() ? "" : "   ") + line);
    }
    for (const std::string& line : lines) {
      text += fmt::format("{:<{}}{:<{}}{}\n", topic, kTopicColumns, verdict, kVerdictColumns, line);
      topic.clear();
      verdict.clear();
    }
  }
  return text + "\n" + closing_line(findings) + "\n";
}

std::string findings_as_json(const std::vector<Finding>& findings) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    std::string verdict(to_string(finding.verdict));
    std::transform(verdict.begin(), verdict.end(), verdict.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    rows.push_back({{"topic", finding.topic},
                    {"verdict", verdict},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json document{{"works", count(findings, Verdict::kFailed) == 0},
                                        {"findings", rows}};
  // Paths may hold bytes that are no UTF-8.
  return document.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int examine_machine(const DoctorRequest& request) {
  const std::vector<Finding> findings = examine(request);
  fmt::print("{}", request.json ? findings_as_json(findings) : format_findings(findings));
  return count(findings, Verdict::kFailed) == 0 ? 0 : 1;
}

}  // namespace spillway::tools
