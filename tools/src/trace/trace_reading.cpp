// SPDX-License-Identifier: Apache-2.0
#include "trace/trace_reading.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "spillway/trace/trace_io.hpp"
#include "text/output_text.hpp"

namespace spillway::tools {

Trace read_trace_shown(const std::string& path, ProgressLine* shown) {
  constexpr std::size_t kNameWidth = 60;
  const std::string name = printable(std::filesystem::path(path).filename().string(), kNameWidth);
  Trace trace;
  const auto read = [&] { trace = read_trace(path); };
  if (shown != nullptr) {
    shown->during(fmt::format("reading {}", name), read);
  } else {
    ProgressLine(1, "reading").during(name, read);
  }
  return trace;
}

}  // namespace spillway::tools
