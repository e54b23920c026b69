// SPDX-License-Identifier: Apache-2.0
#include "cuda/slots.hpp"

namespace spillway::torch::cuda {

const Slots* slots_of_torch() { return nullptr; }

}  // namespace spillway::torch::cuda
