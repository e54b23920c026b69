# SPDX-License-Identifier: Apache-2.0
"""T5 of the transformers package: encoder-decoder with relative positions and gradient clipping."""

import torch
from transformers import T5Config, T5ForConditionalGeneration

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 8, 32, 1), full=(6, 96, 160, 4))
    config = T5Config(
        vocab_size=1500,
        d_model=width,
        d_kv=width // 4,
        d_ff=4 * width,
        num_layers=layers,
        num_heads=4,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).train()
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        source, labels = torch.randint(2, 1500, (2, batch, length))
        steps.zero_grad()
        loss = model(input_ids=source, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
