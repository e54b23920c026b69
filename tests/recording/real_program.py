# SPDX-License-Identifier: Apache-2.0
"""An ordinary program: what test_real_run.py records as it runs."""

import gc
import weakref

import torch
from torch import nn

from tests.recording.networks import Cnn


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Cnn()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(4):
        images = torch.randn(4, 3, 16, 16)
        labels = torch.randint(0, 10, (4,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    kept = weakref.ref(model), weakref.ref(model.stem.weight)
    del model, optimizer
    gc.collect()
    print("still there:", sum(each() is not None for each in kept))


if __name__ == "__main__":
    main()
