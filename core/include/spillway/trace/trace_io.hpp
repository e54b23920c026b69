// SPDX-License-Identifier: Apache-2.0
// Traces as text: one JSON object with an op per line, compressed with zstd where the file's name
// ends in `.zst`. The format is described in docs/formats.md.
//
// Reading trusts nothing: what it returns is valid (see validate()), and anything else is a
// UserError that says where the input is wrong. Memory is bounded by a fixed multiple of the text,
// and the text by kMostTraceText, whatever sizes the input claims. All functions are thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway {

/// The version that is written. All versions from 1 are read.
inline constexpr int kTraceVersion = 5;

/// Longest text that is read. A step of 100 000 ops takes about 20 MiB.
inline constexpr Bytes kMostTraceText = kMiB * 512;

/// The trace as JSON. Names that are not UTF-8 come out with their bad bytes replaced. Throws
/// InternalError if the trace is not valid.
std::string format_trace(const Trace& trace);

/// Reads JSON or its zstd compression, whichever `contents` is. `what` names it in errors.
Trace parse_trace(std::string contents, std::string_view what);

/// Writes the file, compressed if its name ends in `.zst`. The file appears complete or not at all,
/// unless `path` is a pipe or a device. Throws UserError if it cannot be written.
void write_trace(const Trace& trace, const std::string& path);

/// Reads a file that either form was written to, whatever its name.
Trace read_trace(const std::string& path);

}  // namespace spillway
