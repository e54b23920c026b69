// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace spillway::torch {

/// An access through a raw pointer to memory that was evicted faults. From now on such a fault
/// prints which storage it was and how to keep it, before whatever handler was there runs.
void install_stale_pointer_message();

}  // namespace spillway::torch
