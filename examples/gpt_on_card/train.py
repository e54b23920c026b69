# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT on bytes, on a graphics card where there is one: PyTorch's own layers and defaults.

With the default sizes it has 1.2 billion parameters, which take 19 GB with gradients and AdamW's
averages.
"""

import argparse
import hashlib
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=2048, help="a multiple of 64")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--context", type=int, default=512)
    parser.add_argument("--batch", type=int, default=4)
    return parser.parse_args()


class Gpt(nn.Module):
    def __init__(self, width, layers, context):
        super().__init__()
        self.bytes, self.places = nn.Embedding(256, width), nn.Embedding(context, width)
        layer = nn.TransformerEncoderLayer(
            width, width // 64, 4 * width, 0.0, functional.gelu, batch_first=True, norm_first=True
        )
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 256))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, tokens):
        x = self.bytes(tokens) + self.places.weight
        return self.head(self.body(x, mask=self.mask, is_causal=True))


def main():
    chosen = parse_arguments()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    with torch.device(device):
        model = Gpt(chosen.width, chosen.layers, chosen.context)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4)
    # PyTorch's own Python source is text enough, and everywhere at hand.
    sources = sorted(Path(torch.__file__).parent.glob("*.py"))
    text = torch.frombuffer(bytearray(b"".join(map(Path.read_bytes, sources))), dtype=torch.uint8)
    for step in range(chosen.steps):
        starts = torch.randint(len(text) - chosen.context, (chosen.batch,)).tolist()
        rows = torch.stack([text[start : start + chosen.context + 1] for start in starts])
        rows = rows.to(device).long()
        optimizer.zero_grad()
        scores = model(rows[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}", flush=True)
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().cpu().numpy())
    print("weights sha256", digest.hexdigest())


if __name__ == "__main__":
    main()
