# SPDX-License-Identifier: Apache-2.0
"""Times steps of a large network on the card: steps.py NETWORK WAY STEPS.

Ways: `stock`, and what PyTorch has for less memory, `checkpoint` around each block and `offload`
(`save_on_cpu` with page-locked memory). The time of a step is the program's, losses read.
"""

import argparse
import contextlib
import functools
import json
import sys
import time
from dataclasses import astuple, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.append(str(Path(__file__).resolve().parents[3] / "benchmarks" / "programs"))

WAYS = ("stock", "checkpoint", "offload")


def gpt2_medium():
    """GPT-2 medium, 355 M parameters, 2 x 1024 tokens, bfloat16 by autocast, AdamW."""
    from gpt import GPT

    with torch.device("cuda"):
        model = GPT(layers=24, width=1024, heads=16, size=1024, vocabulary=50257)
    optimizer = torch.optim.AdamW(model.parameters(), 3e-4, foreach=False)
    tokens = torch.randint(50257, (2, 1025)).cuda()

    def loss_of():
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(tokens[:, :-1])
        return F.cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())

    return model, model.blocks, optimizer, loss_of


def resnet50():
    """torchvision's ResNet-50, 256 images of 224^2, SGD with momentum."""
    import torchvision

    with torch.device("cuda"):
        model = torchvision.models.resnet50(weights=None)
    layers = (model.layer1, model.layer2, model.layer3, model.layer4)
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    images = torch.randn(256, 3, 224, 224, device="cuda")
    labels = torch.randint(1000, (256,), device="cuda")
    blocks = [block for layer in layers for block in layer]
    return model, blocks, optimizer, lambda: F.cross_entropy(model(images), labels)


def unet3d():
    """A 3D U-Net of five levels, width 32, two crops of 128^3, AdamW."""
    from unet3d import UNet

    with torch.device("cuda"):
        model = UNet(32, classes=3)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    images = torch.randn(2, 1, 128, 128, 128, device="cuda")
    labels = torch.randint(3, (2, 128, 128, 128), device="cuda")
    blocks = [*model.down, *model.join]
    return model, blocks, optimizer, lambda: F.cross_entropy(model(images), labels)


NETWORKS = {f.__name__: f for f in (gpt2_medium, resnet50, unet3d)}


def saved(blocks, way):
    """The context of the forward pass."""
    if way == "checkpoint":
        for block in blocks:
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
    if way == "offload":
        return torch.autograd.graph.save_on_cpu(pin_memory=True)
    return contextlib.nullcontext()


@dataclass(frozen=True)
class Toll:
    """What Spillway did until now, or in between: bytes copied out and in, and seconds in which
    it held the program up. Nothing where it is not active."""

    moved: int = 0
    stalled: float = 0
    mapping: float = 0

    @classmethod
    def until_now(cls):
        if "spillway._activation" not in sys.modules:
            return cls()
        stats = sys.modules["spillway"].stats()
        moved = stats.evicted_bytes + stats.fetched_bytes
        return cls(moved, stats.stall_ns * 1e-9, stats.mapping_ns * 1e-9)

    def since(self, before):
        return Toll(*(now - then for now, then in zip(astuple(self), astuple(before), strict=True)))


def timed(network, way, steps):
    torch.manual_seed(0)
    model, blocks, optimizer, loss_of = NETWORKS[network]()
    keeping = saved(blocks, way)
    seconds, tolls, losses = [], [], []
    torch.cuda.synchronize()
    for _ in range(steps):
        before, begin = Toll.until_now(), time.perf_counter()
        optimizer.zero_grad()
        with keeping:
            loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin)
        toll = Toll.until_now().since(before)
        tolls.append(toll)
        print(
            f"{seconds[-1]:.3f} s, {toll.moved >> 20} MiB moved, stalled {toll.stalled:.3f} s, "
            f"mapping {toll.mapping:.3f} s",
            file=sys.stderr, flush=True,
        )  # fmt: skip
    parameters = sum(each.numel() for each in model.parameters())
    return {
        "seconds": seconds,
        **{key: [getattr(toll, key) for toll in tolls] for key in ("moved", "stalled", "mapping")},
        "losses": losses,
        "peak": torch.cuda.memory_stats()["allocated_bytes.large_pool.peak"],
        "parameters": parameters,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("network", choices=NETWORKS)
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("steps", type=int)
    chosen = parser.parse_args()
    print(json.dumps(timed(chosen.network, chosen.way, chosen.steps)))
