// SPDX-License-Identifier: Apache-2.0
#include "doctor/doctor.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "doctor/doctor_checks.hpp"
#include "machine/machine_file.hpp"
#include "process/python_probe.hpp"
#include "spillway/base/error.hpp"
#include "spillway/runtime/transfer/spool.hpp"
#include "text/output_text.hpp"
#include "text/quantity_text.hpp"

namespace spillway::tools {
namespace {

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

/// Counts failures of what training under a budget needs.
std::size_t failures(const std::vector<Finding>& findings) {
  return static_cast<std::size_t>(
      std::count_if(findings.begin(), findings.end(), [](const Finding& finding) {
        return finding.verdict == Verdict::kFailed && finding.training_needs_it;
      }));
}

std::string closing_line(const std::vector<Finding>& findings) {
  const std::size_t failed = failures(findings);
  const std::size_t warnings = count(findings, Verdict::kWarning);
  if (failed > 0)
    return fmt::format("Training under a budget cannot work here: {} failed.", failed);
  if (count(findings, Verdict::kFailed) > 0) {
    return "Training under a budget works here; the machine's file was not written.";
  }
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

Finding save_finding(const std::string& path, const SpoolCheck& spool) {
  try {
    const Machine machine = save_machine(path, spool.speed, spool.free);
    return {"machine", Verdict::kOk, machine_summary(machine, path), ""};
  } catch (const UserError& error) {
    return {"machine", Verdict::kFailed, error.what(), "", false};
  }
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
  for (const auto& check :
       {check_python(python), check_memory(), check_limits(), {check_card()}, spool.findings}) {
    findings.insert(findings.end(), check.begin(), check.end());
  }
  if (request.save_path) findings.push_back(save_finding(*request.save_path, spool));
  return findings;
}

// Commands stand in lines of their own, to be copied.
std::vector<std::string> remedy_lines(std::string_view remedy, std::size_t width) {
  std::vector<std::string> lines;
  while (!remedy.empty()) {
    const std::size_t end = std::min(remedy.find('\n'), remedy.size());
    const std::vector<std::string> wrapped = wrap_text(remedy.substr(0, end), width);
    lines.insert(lines.end(), wrapped.begin(), wrapped.end());
    remedy.remove_prefix(std::min(end + 1, remedy.size()));
  }
  return lines;
}

}  // namespace

std::string format_findings(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    std::string topic = finding.topic;
    std::string verdict(to_string(finding.verdict));
    std::vector<std::string> lines = wrap_text(finding.what, kColumns - kTextStart);
    for (const std::string& line : remedy_lines(finding.remedy, kColumns - kTextStart - 3)) {
      lines.push_back((lines.empty() || line.empty() ? "" : "   ") + line);
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
  Json rows = Json::array();
  for (const Finding& finding : findings) {
    std::string verdict(to_string(finding.verdict));
    std::transform(verdict.begin(), verdict.end(), verdict.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    rows.push_back({{"topic", finding.topic},
                    {"verdict", verdict},
                    {"what", finding.what},
                    {"remedy", finding.remedy}});
  }
  return json_text({{"works", failures(findings) == 0}, {"findings", rows}});
}

int examine_machine(const DoctorRequest& request) {
  const std::vector<Finding> findings = examine(request);
  fmt::print("{}", request.json ? findings_as_json(findings) : format_findings(findings));
  if (failures(findings) > 0) return 1;
  constexpr int kNotWritten = 2;
  return count(findings, Verdict::kFailed) == 0 ? 0 : kNotWritten;
}

}  // namespace spillway::tools
