// SPDX-License-Identifier: Apache-2.0
// A simulated step for ui.perfetto.dev, and the words for what its timeline shows.
// Pure functions; thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "spillway/planning/sim/simulator.hpp"
#include "spillway/trace/trace.hpp"

namespace spillway::tools {

/// `waiting for room`, ...
std::string_view words_of(planning::StallCause cause);
/// `op`, `recompute`, `stall`, `copy`.
std::string_view word_of(planning::TimelineSpan::Kind kind);

/// Trace Event Format, which Perfetto and chrome://tracing open: a track for computing and one for
/// each link, and a counter for what each tier holds. The report has its timeline.
std::string trace_events(const planning::SimulationReport& report, const Trace& trace);

}  // namespace spillway::tools
