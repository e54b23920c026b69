# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT on bytes to continue Python source, on the standard library of this very Python.

24.3 million parameters, plain modules, AdamW: weights and optimizer state are more than half of
what the training needs, so the memory is not in the activations.
"""

import argparse
import hashlib
import sysconfig
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

WIDTH, HEADS, LAYERS, CONTEXT, BATCH = 704, 11, 4, 128, 4
PROMPT = b"def "


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=150, help="training steps (default 150)")
    parser.add_argument("--stop", type=int, help="end after so many of them, without a sample")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--size", type=int, default=CONTEXT, help="bytes of context")
    parser.add_argument("--out", type=Path, default=Path("out/byte_gpt"))
    arguments = parser.parse_args()
    if arguments.steps < 1 or arguments.size < 8:
        parser.error("--steps must be at least 1, --size at least 8")
    return arguments


def load_text():
    """The modules of the standard library, tests and tables aside, in the order of their paths."""
    root = Path(sysconfig.get_path("stdlib"))
    skipped = {"site-packages", "dist-packages", "test", "tests", "idle_test"}
    skipped |= {"encodings", "pydoc_data"}
    files = [path for path in root.rglob("*.py") if not skipped & set(path.relative_to(root).parts)]
    text = bytearray()
    for path in sorted(files, key=lambda path: path.relative_to(root).as_posix()):
        text += path.read_bytes()
    return torch.frombuffer(text, dtype=torch.uint8)


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a norm and around a residual."""

    def __init__(self):
        super().__init__()
        self.attention_norm = nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.attention_out = nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(WIDTH),
            nn.Linear(WIDTH, 4 * WIDTH),
            nn.GELU(),
            nn.Linear(4 * WIDTH, WIDTH),
        )

    def forward(self, x):
        batch, length, _ = x.shape
        qkv = self.qkv(self.attention_norm(x)).view(batch, length, 3, HEADS, WIDTH // HEADS)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attention_out(mixed.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.feed_forward(x)


class ByteGpt(nn.Module):
    def __init__(self, context):
        super().__init__()
        self.bytes = nn.Embedding(256, WIDTH)
        self.positions = nn.Embedding(context, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, 256, bias=False)
        self.initialise()

    def initialise(self):
        """As GPT-2: small weights, smaller still where a branch joins the residual stream."""
        for name, parameter in self.named_parameters():
            if name.endswith(".bias"):
                nn.init.zeros_(parameter)
            elif parameter.dim() > 1:
                joins = name.endswith(("attention_out.weight", "feed_forward.3.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * LAYERS) ** 0.5 if joins else 0.02)

    def forward(self, tokens):
        positions = self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(self.bytes(tokens) + positions)))


def train(network, text, steps, context):
    optimizer = torch.optim.AdamW(network.parameters(), lr=5e-4, betas=(0.9, 0.95))
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1, (step + 1) / 10))
    losses = []
    for step in range(1, steps + 1):
        starts = torch.randint(len(text) - context, (BATCH,)).tolist()
        rows = torch.stack([text[start : start + context + 1] for start in starts]).long()
        optimizer.zero_grad()
        scores = network(rows[:, :-1])
        loss = functional.cross_entropy(scores.flatten(0, 1), rows[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        warmup.step()
        losses.append(loss.item())
        print(f"step {step} loss {losses[-1]:.4f}", flush=True)
    return losses


@torch.no_grad()
def sample(network, context, count=120, temperature=0.7):
    tokens = torch.tensor([list(PROMPT)])
    for _ in range(count):
        scores = network(tokens[:, -context:])[0, -1] / temperature
        following = torch.multinomial(scores.softmax(0), 1)
        tokens = torch.cat([tokens, following[None]], dim=1)
    return bytes(tokens[0].tolist()).decode(errors="replace")


def fingerprint(network):
    """SHA-256 over names, types, shapes and bytes of all weights."""
    digest = hashlib.sha256()
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        digest.update(tensor.contiguous().numpy())
    return digest.hexdigest()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(True)
    torch.manual_seed(arguments.seed)
    arguments.out.mkdir(parents=True, exist_ok=True)

    text = load_text()
    network = ByteGpt(arguments.size)
    steps = min(arguments.steps, arguments.stop or arguments.steps)
    losses = train(network, text, steps, arguments.size)

    if not arguments.stop:
        network.eval()
        written = sample(network, arguments.size)
        (arguments.out / "sample.txt").write_text(written + "\n", encoding="utf-8")
        print(f"sample {written!r}")
    print("losses", *(loss.hex() for loss in losses))
    print("weights sha256", fingerprint(network))


if __name__ == "__main__":
    main()
