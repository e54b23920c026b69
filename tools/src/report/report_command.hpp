// SPDX-License-Identifier: Apache-2.0
// `spillway report` hands over to the Python package, which draws the page. It does not return
// where that starts. Throws UserError where there is no Python, or none with the package.
#pragma once

#include "request/command_requests.hpp"

namespace spillway::tools {

[[noreturn]] void draw_report(const ReportRequest& request);

}  // namespace spillway::tools
