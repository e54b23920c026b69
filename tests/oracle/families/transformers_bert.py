# SPDX-License-Identifier: Apache-2.0
"""BERT of the transformers package, masked language modelling with padding."""

import torch
from transformers import BertConfig, BertForMaskedLM

from tests.oracle.training import optimizer_for, outcome, pick


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 16, 32, 1), full=(8, 128, 192, 6))
    config = BertConfig(
        vocab_size=2000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=4 * width,
        max_position_embeddings=length,
    )
    model = BertForMaskedLM(config).train()
    steps = optimizer_for(optimizer, model.parameters())
    losses = []
    for _ in range(3):
        tokens = torch.randint(5, 2000, (batch, length))
        attend = (torch.arange(length) < torch.randint(length // 2, length, (batch, 1))).long()
        masked = torch.rand(batch, length) < 0.15
        masked[:, 0] = True
        labels = tokens.masked_fill(~masked, -100)
        steps.zero_grad()
        loss = model(tokens.masked_fill(masked, 4), attention_mask=attend, labels=labels).loss
        loss.backward()
        steps.step()
        losses.append(loss.item())
    return outcome(losses, model, optimizer=steps)
