# SPDX-License-Identifier: Apache-2.0
"""Code that the training scripts here share: options, the loop, one line of JSON per step.

Each script is a program as anyone would write it: it knows nothing of Spillway. Data are synthetic
and fixed, weights random from a seed, so two runs print the same losses and the same hash.
"""

import argparse
import hashlib
import json
import time

import torch


def options(description, steps=10, ways=(), **sizes):
    """The parsed command line: --steps, --threads, one --NAME per size, and --saved.

    `ways` are those of less_memory; without any there is no --saved.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--threads", type=int, default=0, help="0: what torch chooses")
    for name, value in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    if ways:
        parser.add_argument("--saved", choices=ways, default=ways[0], help="where, for backward")
    chosen = parser.parse_args()
    if chosen.threads:
        torch.set_num_threads(chosen.threads)
    torch.manual_seed(0)
    return chosen


def train(model, optimizer, loss_of, steps):
    """`loss_of()` is the forward pass; the time of a step includes reading its loss."""
    for step in range(steps):
        begin = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        value = loss.item()
        del loss
        seconds = time.perf_counter() - begin
        print(json.dumps({"step": step, "seconds": round(seconds, 6), "loss": value}), flush=True)
    print(json.dumps({"weights": hash_of(model)}), flush=True)


def hash_of(model):
    """Returns the hash of all parameters and buffers, bit for bit."""
    digest = hashlib.sha256()
    with torch.no_grad():
        for name, tensor in sorted(model.state_dict().items()):
            digest.update(name.encode())
            digest.update(tensor.contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()
