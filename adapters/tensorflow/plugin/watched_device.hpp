// SPDX-License-Identifier: Apache-2.0
// TensorFlow's processor, which shows each op that it runs: the variables that it works on to
// Variables, and all of it to a watcher. Beside a card a build of TensorFlow for cards keeps its
// own processor, which shows nothing.
#pragma once

#include "op_watcher.hpp"

namespace spillway::tf {

/// Devices that the framework makes from now on are watched. Before its first tensor. `watcher` may
/// be null. False beside a card: none will be.
[[nodiscard]] bool watch_devices(OpWatcher* watcher);

}  // namespace spillway::tf
