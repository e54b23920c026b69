# SPDX-License-Identifier: Apache-2.0
"""Vision transformer of the transformers package, image classification."""

import torch
from transformers import ViTConfig, ViTForImageClassification

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    batch, width, layers = pick(size, tiny=(2, 32, 1), full=(16, 192, 6))
    config = ViTConfig(
        image_size=64,
        patch_size=8,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        num_labels=10,
        hidden_dropout_prob=0.1,
    )
    model = ViTForImageClassification(config).train()
    batch = (torch.randn(batch, 3, 64, 64), torch.randint(10, (batch,)))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [batch], lambda m, b: m(pixel_values=b[0], labels=b[1]).loss, steps)
    return outcome(losses, model, optimizer=steps)
