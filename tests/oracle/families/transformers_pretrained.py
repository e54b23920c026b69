# SPDX-License-Identifier: Apache-2.0
"""GPT-2 of the transformers package as fine-tuning uses it: loaded from a file, saved after."""

import tempfile
from pathlib import Path

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

from tests.oracle.training import optimizer_for, outcome, pick, train


def run(optimizer, size):
    batch, length, width, layers = pick(size, tiny=(2, 16, 32, 1), full=(2, 64, 384, 8))
    config = GPT2Config(vocab_size=2000, n_positions=length, n_embd=width, n_layer=layers, n_head=4)
    config.bos_token_id = config.eos_token_id = 0
    with tempfile.TemporaryDirectory() as folder:
        GPT2LMHeadModel(config).save_pretrained(folder)
        model = GPT2LMHeadModel.from_pretrained(folder).train()
        tokens = torch.randint(2000, (batch, length))
        steps = optimizer_for(optimizer, model.parameters())
        losses = train(model, [tokens], lambda m, b: m(input_ids=b, labels=b).loss, steps)
        model.save_pretrained(folder, max_shard_size="10MB")
        files = sorted(Path(folder).glob("*.safetensors"))
        saved = {file.name: torch.from_numpy(numpy.fromfile(file, "u1")) for file in files}
    return outcome(losses, model, optimizer=steps, **saved)
