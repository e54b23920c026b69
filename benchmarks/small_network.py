# SPDX-License-Identifier: Apache-2.0
"""Worker: trains a multi-layer perceptron, as many steps at a time as it is told."""

import argparse
import sys
import time
from pathlib import Path

import torch
from step_protocol import Orders, counters
from torch import nn


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--device", default="cpu", help="stand-in: the card that is none")
    parser.add_argument("--held", type=int, default=0, help="bytes there beside the network")
    return parser.parse_args()


class Training:
    def __init__(self, width, layers, batch, device):
        parts = [part for _ in range(layers) for part in (nn.Linear(width, width), nn.ReLU())]
        self.network = nn.Sequential(*parts).to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), lr=1e-3)
        self.inputs, self.targets = torch.randn(2, batch, width).to(device)

    def step(self):
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.network(self.inputs), self.targets)
        loss.backward()
        self.optimizer.step()

    def timed_steps(self, count):
        seconds = []
        for _ in range(count):
            begin = time.perf_counter()
            self.step()
            seconds.append(time.perf_counter() - begin)
        return seconds

    def events(self, count):
        """Dispatcher calls, autograd nodes and user scopes per step: all that a hook sees."""
        with torch.autograd.profiler.profile(use_kineto=False) as profiler:
            for _ in range(count):
                self.step()
        return len(profiler.function_events) / count


def device_named(name):
    """The device as torch knows it."""
    if name != "stand-in":
        return name
    sys.path.append(str(Path(__file__).resolve().parents[1]))
    from tests.standin import true_values

    true_values.install()
    return "cuda"


def set_budget(size):
    """Sets Spillway's budget; 0 turns its hook off."""
    import spillway  # here: a stock worker must not load it

    if size:
        spillway.enable(budget=f"cpu:{size}")
    else:
        spillway.disable()


def main():
    arguments = parse_arguments()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    orders = Orders()
    device = device_named(arguments.device)
    training = Training(arguments.width, arguments.layers, arguments.batch, device)
    training.held = torch.empty(arguments.held, dtype=torch.uint8, device=device)
    while True:
        order, count = orders.next()
        if order == "events":
            orders.answer(events=training.events(int(count)))
        elif order == "budget":
            set_budget(int(count))
            orders.answer()
        else:
            orders.answer(seconds=training.timed_steps(int(count)), counters=counters())


if __name__ == "__main__":
    main()
