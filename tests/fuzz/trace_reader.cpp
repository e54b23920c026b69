// SPDX-License-Identifier: Apache-2.0
// Any bytes are a valid trace or a UserError; a trace is written and read back unchanged.
#include <cstddef>
#include <cstdint>
#include <string>

#include "spillway/base/error.hpp"
#include "spillway/trace/trace_io.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spillway::Trace trace;
  try {
    trace = spillway::parse_trace(std::string(reinterpret_cast<const char*>(data), size), "input");
  } catch (const spillway::UserError&) {
    return 0;
  }
  if (spillway::validate(trace)) __builtin_trap();
  if (spillway::parse_trace(spillway::format_trace(trace), "again") != trace) __builtin_trap();
  return 0;
}
