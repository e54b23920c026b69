# SPDX-License-Identifier: Apache-2.0
"""Kernels of random length on three streams, over more tensors than the budget holds.

three_streams.py SEED. Each tensor holds one value, known to the program. Of the streams each waits
for who wrote last, and nothing else; kernels that only wait (`torch.cuda._sleep`) put off the work
of a stream by up to 2 ms, so that copies which do not wait for it bring other values.
"""

import random
import sys

import torch

MIB = 1 << 20
TENSORS, MIB_EACH = 40, 8
TURNS = 1500
MOST_CYCLES = 3_000_000  # some 2 ms


def work(seed):
    chance = random.Random(seed)
    streams = [torch.cuda.Stream() for _ in range(3)]
    tensors = [torch.full((MIB_EACH * MIB // 4,), float(i), device="cuda") for i in range(TENSORS)]
    values = [float(i) for i in range(TENSORS)]
    torch.cuda.synchronize()
    written = [None] * TENSORS
    checks = []
    for _ in range(TURNS):
        stream = chance.choice(streams)
        source, target = chance.sample(range(TENSORS), 2)
        with torch.cuda.stream(stream):
            for which in (source, target):
                if written[which]:
                    stream.wait_event(written[which])
            if chance.random() < 0.2:
                torch.cuda._sleep(chance.randrange(MOST_CYCLES))
            if chance.random() < 0.3:  # a new one in its place: the old may still be in use
                tensors[target].record_stream(stream)
                tensors[target] = tensors[source] + 1
                values[target] = values[source] + 1
            else:
                tensors[target].add_(tensors[source]).remainder_(1021)
                values[target] = (values[target] + values[source]) % 1021
            if chance.random() < 0.1:
                checks.append((tensors[target].min(), tensors[target].max(), values[target]))
            # Both: who writes the source next has to wait for this reader.
            written[source] = written[target] = stream.record_event()
    torch.cuda.synchronize()
    for least, most, value in checks:
        assert least.item() == most.item() == value
    for tensor, value in zip(tensors, values, strict=True):
        assert tensor.eq(value).all().item()


if __name__ == "__main__":
    work(int(sys.argv[1]))
    print("{}")
