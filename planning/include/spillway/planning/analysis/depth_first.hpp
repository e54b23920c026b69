// SPDX-License-Identifier: Apache-2.0
// The ops of a step in depth-first order, as a study of what another order would gain. No plan
// orders ops: training runs them as the program does.
//
//   program       a0 b0 a1 b1 a2 b2 sum        two branches, layer by layer
//   depth-first   a0 a1 a2 b0 b1 b2 sum        one to its end, then the other
//
// An op runs when all that it depends on have run. What became ready last runs next; what one op
// makes ready, and what depends on nothing, keeps the program's order. Deterministic.
//
// An op depends on the last writer of what it touches (to create is to write) and, where it writes,
// on all readers since. The trace has no views: whoever uses one touches its storage. Ops that draw
// random numbers or have effects beyond their storages keep their order among each other: those
// that are not `recomputable` though they write nothing in place. What the trace does not tell:
//
// - whether an op in place draws random numbers as well (`bernoulli_`): only its storages hold it;
// - where the program looks at a result on the host, and what it would do next;
// - whether two writers of one storage could change places, because they write other parts of it or
//   add to it: they stay in order, and so do the sums that a gradient is made of;
// - what ops would take in this order: durations, workspace and all else of an op go with it.
//
// A trace of version 1 calls no op recomputable, so that only its ops in place move.
//
// Source: TensorFlowMem (J. Wei, A. Qiao, A. Jayarajan, G. Gibson, V. Vasudevan, E. Xing, "Training
// larger models on TensorFlow without additional GPU", SysML 2018), partitioned execution: what is
// cut into partitions is a depth-first traversal, which consumes intermediate results early. Theirs
// is of a graph before it runs, per device; this one is of a recorded step, which has one device.
// The order of ops that are ready at the same time is ours.
//
// Pure functions of a valid trace, linear in ops and what they touch. Thread-safe.
#pragma once

#include <span>
#include <vector>

#include "spillway/trace/trace.hpp"

namespace spillway::planning {

/// By position, the op of the program that runs there.
std::vector<OpIndex> depth_first_order(const Trace& trace);

/// The step with its ops in the order given, which holds every op once and keeps what they depend
/// on. A storage that the step frees is freed by the op that touches it last; one that no op
/// touches goes with the op that frees it. Threads and streams are numbered anew, by appearance.
/// Plans for the one step do not fit the other.
Trace reordered(const Trace& trace, std::span<const OpIndex> order);

}  // namespace spillway::planning
