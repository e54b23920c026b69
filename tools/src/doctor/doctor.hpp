// SPDX-License-Identifier: Apache-2.0
// `spillway doctor`: looks at the machine, gives each finding a verdict, and says how to mend what
// is not well. Starts one short Python and writes a nameless file of at most 256 MiB for a second;
// changes nothing else, unless it is asked for a machine file. What cannot be looked at, measured
// or written is a finding too.
#pragma once

#include <string>
#include <vector>

#include "request/command_requests.hpp"

namespace spillway::tools {

enum class Verdict { kOk, kWarning, kFailed };

struct Finding {
  std::string topic;
  Verdict verdict = Verdict::kOk;
  std::string what;
  std::string remedy;             ///< empty where there is nothing to mend
  bool training_needs_it = true;  ///< a failure means that training under a budget cannot work
};

/// At most 80 columns.
std::string format_findings(const std::vector<Finding>& findings);
std::string findings_as_json(const std::vector<Finding>& findings);

/// Prints to standard output. 0; 1 if a finding makes training under a budget impossible; 2 if only
/// the machine file was not written.
int examine_machine(const DoctorRequest& request);

}  // namespace spillway::tools
