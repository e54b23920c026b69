# SPDX-License-Identifier: Apache-2.0
"""GPT-2 of the transformers package, language modelling."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 16, 32, 1), full=(4, 192, 192, 6))
    config = GPT2Config(vocab_size=2000, n_positions=length, n_embd=width, n_layer=layers, n_head=4)
    config.bos_token_id = config.eos_token_id = 0
    model = GPT2LMHeadModel(config).train()
    tokens = torch.randint(2000, (batch, length))
    steps = optimizer_for(optimizer, model.parameters())
    losses = train(model, [tokens], lambda m, b: m(input_ids=b, labels=b).loss, steps)
    return outcome(losses, model, optimizer=steps)
