# SPDX-License-Identifier: Apache-2.0
"""How the hook rests on a card, with a budget that leaves 600 MiB for tensors: a program of its
own, which fails at the first that is not as it should be. Its arguments name parts, all by default.
It is started with a wide budget.

    live   |  ....training....   | held: 85 %  |  90 %: awake  |  more than the budget
    ops    |  1 2 3 4 . . . . .  |  . . . . .  |  5 6 7 8 ...  |  evictions
"""

import queue
import sys
import threading

import torch
from torch import nn

import spillway
from tests.gpu.device import train_the_same_every_time
from tests.gpu.room import make_room, run_parts

MIB = 1 << 20
ROOM = 600 * MIB
MORE_THAN_FITS = ROOM // (40 * MIB) + 1  # tensors of 40 MiB
UNTIL_REST = 5  # steps: three to look at, and one more at each end


class Training:
    """A perceptron of some 100 MiB at its peak; autograd runs its backward pass on a thread of its
    own."""

    def __init__(self, device="cuda"):
        torch.manual_seed(0)
        layers = [layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
        self.network = nn.Sequential(*layers, nn.Linear(1024, 10)).to(device)
        self.optimizer = torch.optim.SGD(self.network.parameters(), 0.01, momentum=0.9)
        self.losses = []

    def step(self):
        chance = torch.Generator().manual_seed(len(self.losses))
        inputs = torch.randn(512, 1024, generator=chance).cuda()
        self.optimizer.zero_grad()
        loss = self.network(inputs).square().mean()
        loss.backward()
        self.optimizer.step()
        self.losses.append(loss.item())

    def steps(self, count):
        for _ in range(count):
            self.step()
        return self

    def outcome(self):
        return self.losses, [each.detach().cpu() for each in self.network.parameters()]


def are_equal(one, other):
    (losses, weights), (expected_losses, expected) = one, other
    return losses == expected_losses and all(map(torch.equal, weights, expected))


def seen_by(action):
    """Returns the number of ops that were seen during `action`."""
    before = spillway.stats().ops
    action()
    return spillway.stats().ops - before


def resting():
    training = Training().steps(UNTIL_REST)
    assert seen_by(training.step) == 0
    return training


def share_in_use():
    stats = spillway.stats()
    return (stats.device_bytes + stats.unmanaged_bytes) / stats.budget_bytes


def filled(value, mib=8):
    return torch.full((mib * MIB // 4,), float(value), device="cuda")


def is_intact(tensor, value):
    return tensor.eq(value).all().item()


def rests_after_three_steps_that_fit():
    training = resting()
    steps = spillway.stats().steps
    assert seen_by(lambda: training.steps(4)) == 0
    assert spillway.stats().steps == steps + 4
    budget = spillway.stats().budget_bytes
    spillway.disable()
    assert are_equal(training.outcome(), Training().steps(UNTIL_REST + 5).outcome())
    spillway.enable(f"cuda:{budget}")


def wakes_before_the_budget_is_full():
    training = resting()
    held = []
    while share_in_use() < 0.8:
        held.append(filled(len(held)))
    before = spillway.stats()
    held += [filled(value) for value in range(len(held), len(held) + MORE_THAN_FITS * 5)]
    stats = spillway.stats()
    assert stats.ops > before.ops
    assert stats.evictions > before.evictions
    assert stats.overshoot_bytes == 0
    assert stats.peak_device_bytes + stats.unmanaged_bytes <= stats.budget_bytes
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    del held
    training.steps(2)
    budget = spillway.stats().budget_bytes
    spillway.disable()
    assert are_equal(training.outcome(), Training().steps(UNTIL_REST + 3).outcome())
    spillway.enable(f"cuda:{budget}")


def what_was_used_unseen_leaves_after_that():
    """A stream that no op was seen on writes tensors, which leave as soon as ops are seen."""
    tensors = [filled(value) for value in range(8)]
    training = resting()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(20):
            for tensor in tensors:
                tensor.add_(1)
    crowd = [filled(-1, 40) for _ in range(MORE_THAN_FITS)]
    assert spillway.stats().evictions > 0
    torch.cuda.current_stream().wait_stream(side)
    assert all(is_intact(tensor, value + 20) for value, tensor in enumerate(tensors))
    assert len(crowd) == MORE_THAN_FITS and training


def another_threads_op_wakes():
    training = resting()
    orders, done = queue.Queue(), queue.Queue()

    def add_up():
        while orders.get():
            done.put(torch.ones(2 * MIB, device="cuda").sum().item())

    thread = threading.Thread(target=add_up)
    thread.start()
    for _ in range(2):
        orders.put(True)
        assert done.get() == 2 * MIB
    assert seen_by(training.step) > 0
    training.steps(2 * UNTIL_REST)
    assert seen_by(training.step) == 0
    orders.put(False)
    thread.join()


def captures():
    """What a capture uses stays on the card, though no op was seen before it."""
    training = resting()
    weights = filled(2)
    result = torch.empty_like(weights)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        torch.mul(weights, 3, out=result)
    crowd = [filled(-1, 40) for _ in range(MORE_THAN_FITS)]
    graph.replay()
    assert is_intact(result, 6)
    assert len(crowd) == MORE_THAN_FITS and training


PARTS = (
    rests_after_three_steps_that_fit,
    wakes_before_the_budget_is_full,
    what_was_used_unseen_leaves_after_that,
    another_threads_op_wakes,
    captures,
)

if __name__ == "__main__":
    train_the_same_every_time()
    make_room(ROOM)
    run_parts(PARTS, sys.argv[1:])
