// SPDX-License-Identifier: Apache-2.0
// PyTorch's words in the error of an op that does not fit.
#include "session/storage_owner.hpp"

namespace spillway::torch {

// Stock PyTorch's text is what batch finders look for: accelerate's find_executable_batch_size,
// which the Trainer's auto_find_batch_size calls, and Lightning's.
runtime::ShortageWords TorchFramework::shortage_words(const std::string& op) {
  runtime::ShortageWords words{
      .also_known_as = device_.is_cuda()
                           ? "In PyTorch's words: CUDA out of memory."
                           : "In PyTorch's words: DefaultCPUAllocator: can't allocate memory.",
      .remedies = {}};
  // One op over the weights, gradients and state of a whole group.
  if (op.starts_with("aten::_fused_")) {
    words.remedies.emplace_back(
        "Give the optimizer fused=False, or the Trainer of transformers optim=\"adamw_torch\": it "
        "then takes one weight at a time.");
  } else {
    words.remedies.emplace_back("Make the op smaller: a smaller batch, the loss in pieces.");
  }
  return words;
}

}  // namespace spillway::torch
