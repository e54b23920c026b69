# SPDX-License-Identifier: Apache-2.0
"""A step captured once as a CUDA graph and replayed, with inputs from CPU memory; without a card
the step runs as it is."""

import torch
from torch import nn

from tests.gpu.device import DEVICE, train_the_same_every_time
from tests.oracle.training import outcome, pick


def run(optimizer_name, size):
    train_the_same_every_time()
    width = pick(size, tiny=32, full=512)
    model = nn.Sequential(nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 8)).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, foreach=True)
    batches = [torch.randn(512, width) for _ in range(6)]
    held = torch.zeros(512, width, device=DEVICE)
    losses = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = model(held).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    if DEVICE == "cuda":
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                step()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        optimizer.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            captured = step()
    for batch in batches:
        held.copy_(batch * 2)
        if DEVICE == "cuda":
            graph.replay()
            losses.append(captured.item())
        else:
            losses.append(step().item())
    return outcome(losses, model, optimizer=optimizer)
