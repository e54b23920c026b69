# SPDX-License-Identifier: Apache-2.0
"""What records or compiles work for the card, beside tensors that leave: graphs.py PART. Prints the
losses and a digest of the weights.
"""

import json
import sys

import torch
from torch import nn

from tests.gpu.device import digest_of, train_the_same_every_time

MIB = 1 << 20
STEPS = 4


def crowd():
    return [torch.empty(64 * MIB, dtype=torch.uint8, device="cuda") for _ in range(24)]


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024)).cuda()


def trained(model, inputs):
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad(set_to_none=False)
        loss = model(inputs).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        crowd()
    return {"losses": losses, "digest": digest_of(*model.parameters())}


def inputs():
    return torch.randn(512, 1024, generator=torch.Generator().manual_seed(1)).cuda()


def graphed_callables():
    sample = inputs()
    return trained(torch.cuda.make_graphed_callables(network(), (sample,)), sample)


def compiled():
    return trained(torch.compile(network()), inputs())


PARTS = (graphed_callables, compiled)

if __name__ == "__main__":
    train_the_same_every_time()
    print(json.dumps({part.__name__: part for part in PARTS}[sys.argv[1]]()))
