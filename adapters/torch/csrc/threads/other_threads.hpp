// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace spillway::torch {

/// Whether there was a moment during this call at which no other thread of the process ran, by the
/// kernel's account: each was asleep, waiting for something. One that computes is not, nor is one
/// for which others compute. False as well where the kernel does not tell.
///
/// Tries for up to 300 ms. To keep others from running afterwards, hold what
/// they wait for, such as the interpreter's lock.
bool all_others_sleep();

}  // namespace spillway::torch
