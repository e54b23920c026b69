// SPDX-License-Identifier: Apache-2.0
// Random numbers of the stand-in card. A launch reads the seed and the offset of PyTorch's
// generator for the card and moves the offset on, as launches do; the numbers come from a generator
// of the processor with a seed of both. So they follow from manual_seed and set_rng_state, and are
// others than a card's.
#pragma once

#include <ATen/core/Generator.h>

#include <cstdint>
#include <optional>

namespace spillway::standin {

/// For one launch that draws for `elements`. None: the card's own generator.
at::Generator generator_for(const std::optional<at::Generator>& asked, std::int64_t elements);

}  // namespace spillway::standin
