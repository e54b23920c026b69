# SPDX-License-Identifier: Apache-2.0
"""Worker: launches additions on a card, one op after the other, as many thousands as it is told.

On the stand-in launches are skipped (STAND_IN_KERNELS), so the time is the host's alone: PyTorch's
for dispatch and launch, and what a hook adds.
"""

import time

import torch
from step_protocol import Orders, counters

MIB = 1 << 20
OPS = 1000
TENSORS = 25  # an op on each in turn: that many are a step
HELD = 256 * MIB  # with the tensors, so that a budget can be tight although nothing moves


def timed_thousand(tensors):
    begin = time.perf_counter()
    for _ in range(OPS // TENSORS):
        for tensor in tensors:
            tensor.add_(1)
    seconds = time.perf_counter() - begin
    torch.cuda.synchronize()
    return seconds


def main():
    orders = Orders()
    tensors = [torch.empty(MIB, device="cuda") for _ in range(TENSORS)]
    held = torch.empty(HELD - TENSORS * 4 * MIB, dtype=torch.uint8, device="cuda")
    while True:
        _, count = orders.next()
        seconds = [timed_thousand(tensors) for _ in range(int(count))]
        orders.answer(seconds=seconds, counters=counters(), held=held.nbytes)


if __name__ == "__main__":
    main()
