# SPDX-License-Identifier: Apache-2.0
"""GPT-2 (124M) of transformers, batch 2, sequence 1024, AdamW: weights, optimizer state, logits."""

import torch
from training import options, train
from transformers import GPT2Config, GPT2LMHeadModel


def main():
    chosen = options(__doc__, size=1024, batch=2, layers=12, vocabulary=50257)
    # Without dropout, as models are pretrained now: with it, attention keeps its full matrices.
    config = GPT2Config(
        n_layer=chosen.layers, vocab_size=chosen.vocabulary, bos_token_id=0, eos_token_id=0,
        use_cache=False, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
    )  # fmt: skip
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    tokens = torch.randint(chosen.vocabulary, (chosen.batch, chosen.size))
    train(model, optimizer, lambda: model(input_ids=tokens, labels=tokens).loss, chosen.steps)


if __name__ == "__main__":
    main()
