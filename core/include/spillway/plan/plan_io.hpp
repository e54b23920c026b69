// SPDX-License-Identifier: Apache-2.0
// Plans as JSON, an action per line, compressed with zstd where the file's name ends in `.zst`. The
// format is described in docs/formats.md.
//
// Reading trusts nothing: actions and places are in order and of known kinds, or it is a UserError
// that says where the input is wrong. Whether a plan is any good for a trace, the validator says.
// Thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "spillway/base/bytes.hpp"
#include "spillway/plan/plan.hpp"

namespace spillway {

/// The version that is written. All versions from 1 are read.
inline constexpr int kPlanVersion = 4;

/// Longest text that is read. A plan of 100 000 actions takes about 6 MiB.
inline constexpr Bytes kMostPlanText = kMiB * 512;

std::string format_plan(const Plan& plan);

/// Reads JSON or its zstd compression, whichever `contents` is. `what` names it in errors.
Plan parse_plan(std::string contents, std::string_view what);

/// The file appears complete or not at all. Throws UserError if it cannot be written.
void write_plan(const Plan& plan, const std::string& path);

Plan read_plan(const std::string& path);

}  // namespace spillway
