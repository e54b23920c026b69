// SPDX-License-Identifier: Apache-2.0
// `spillway report`: handed over to the Python package, which draws the page. Does not return where
// that starts. Throws UserError where there is no Python, or none with the package.
#pragma once

#include <string>
#include <vector>

namespace spillway::tools {

/// Everything behind `report` goes to the Python report as it is.
struct ReportRequest {
  std::vector<std::string> arguments;
};

[[noreturn]] void draw_report(const ReportRequest& request);

}  // namespace spillway::tools
