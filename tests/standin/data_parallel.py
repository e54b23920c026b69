# SPDX-License-Identifier: Apache-2.0
"""One rank of DistributedDataParallel over gloo, on a stand-in card of its own. Prints the losses,
a digest of weights and optimizer state, and the most that its card ever gave out, as JSON.

python tests/standin/run.py -m tests.standin.data_parallel RENDEZVOUS_FILE RANK RANKS
"""

import hashlib
import json
import sys

import torch
import torch.distributed
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from tests.standin import true_values

WIDTH, LAYERS, STEPS = 1024, 6, 3


def main(rendezvous, rank, ranks):
    true_values.install()
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{rendezvous}", rank=rank, world_size=ranks
    )
    torch.manual_seed(0)
    layers = [layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU())]
    network = DistributedDataParallel(nn.Sequential(*layers).cuda(), device_ids=[0])
    optimizer = torch.optim.Adam(network.parameters(), 1e-4, foreach=False)
    chance = torch.Generator().manual_seed(rank)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = network(torch.randn(64, WIDTH, generator=chance).cuda()).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    digest = hashlib.sha256()
    for tensor in [
        *network.parameters(),
        *(value for state in optimizer.state.values() for value in state.values()),
    ]:
        digest.update(tensor.detach().cpu().numpy().tobytes())
    peak = true_values.card_peak_bytes()
    print(json.dumps({"losses": losses, "digest": digest.hexdigest(), "card": peak}))
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
