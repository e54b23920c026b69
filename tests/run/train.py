# SPDX-License-Identifier: Apache-2.0
"""The training program of this folder's tests: some 300 MiB at its peak, most of it optimizer
state.

    python tests/run/train.py REPORT [--steps N] [--depth N] [--bar]

writes the losses and a digest of all weights, equal only if every bit is, the most that was ever
resident of the process, and after each step what Spillway counted, if it is managed.
"""

import argparse
import hashlib
import json
import os

import torch
from torch import nn

DEPTH, WIDTH, BATCH = 16, 1024, 256
COUNTED = (
    "mode",
    "budget_bytes",
    "peak_device_bytes",
    "overshoot_bytes",
    "host_bytes",
    "disk_bytes",
    "evicted_bytes",
    "clean_evicted_bytes",
    "fetched_bytes",
    "disk_written_bytes",
    "stall_ns",
)


def resident_peak_bytes():
    """Returns the kernel's maximum of this process's memory."""
    with open("/proc/self/status", encoding="ascii") as status:
        (line,) = [line for line in status if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


class Training:
    def __init__(self, depth):
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.GELU()) for _ in range(depth)]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.x = torch.randn(BATCH, WIDTH)
        self.losses, self.counts = [], []

    def step(self):
        self.optimizer.zero_grad()
        loss = (self.model(self.x) - self.x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item().hex())
        if any(name.startswith("SPILLWAY_") for name in os.environ):
            import spillway

            stats = spillway.stats()
            self.counts.append({name: getattr(stats, name) for name in COUNTED})

    def report(self, path):
        digest = hashlib.sha256()
        for parameter in self.model.parameters():
            digest.update(parameter.detach().numpy())
        report = {
            "losses": self.losses,
            "weights": digest.hexdigest(),
            "resident_peak_bytes": resident_peak_bytes(),
            "counts": self.counts,
        }
        with open(path, "w", encoding="ascii") as file:
            json.dump(report, file)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--depth", type=int, default=DEPTH, help="layers, 16 MiB each and more")
    parser.add_argument("--bar", action="store_true", help="show a progress bar")
    options = parser.parse_args()
    training = Training(options.depth)
    steps = range(options.steps)
    if options.bar:
        from tqdm import tqdm

        steps = tqdm(steps, desc="training")
    for _ in steps:
        training.step()
    training.report(options.report)


if __name__ == "__main__":
    main()
