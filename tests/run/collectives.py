# SPDX-License-Identifier: Apache-2.0
"""Collectives among ranks other than DistributedDataParallel's, one digest each.

Started by torchrun; writes ``rankN`` into the folder it is given.
"""

import hashlib
import json
import os
import sys
import time

import torch
from torch import distributed, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_model_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

SIZE = 1 << 18  # elements
# Seconds before the end. Threads of gloo outlive `destroy_process_group` where FSDP's state holds
# the groups, and one that drops the last tensor of a collective while Python finalizes ends the
# process with "terminate called without an active exception", without Spillway too.
DROP = 1.0
LATE = 0.1  # seconds by which the second rank begins each: the first waits in the middle of it


def between():
    """Ops after which forced eviction takes what a collective in flight does not hold."""
    torch.ones(3).sum()
    torch.randn(SIZE).sin()


def digest(*tensors):
    done = hashlib.sha256()
    for tensor in tensors:
        whole = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
        done.update(whole.detach().numpy().tobytes())
    return done.hexdigest()


def in_flight(rank):
    """Each collective that returns before it has run."""
    mine = torch.randn(SIZE)
    begun = {
        "all_reduce": lambda out: distributed.all_reduce(out, async_op=True),
        "broadcast": lambda out: distributed.broadcast(out, 0, async_op=True),
        "reduce_scatter": lambda out: distributed.reduce_scatter_tensor(
            out[: SIZE // 2], mine, async_op=True
        ),
        "all_to_all": lambda out: distributed.all_to_all_single(out, mine, async_op=True),
        "all_gather": lambda out: distributed.all_gather_into_tensor(
            out, mine[: SIZE // 2].clone(), async_op=True
        ),
    }
    for name, begin in begun.items():
        out = mine.clone()
        time.sleep(LATE * rank)
        work = begin(out)
        between()
        work.wait()
        between()
        yield name, digest(out)
    received = torch.empty(SIZE)
    both = [
        distributed.P2POp(distributed.isend, mine, 1 - rank),
        distributed.P2POp(distributed.irecv, received, 1 - rank),
    ]
    time.sleep(LATE * rank)
    works = distributed.batch_isend_irecv(both)
    between()
    for work in works:
        work.wait()
    yield "sent", digest(received)
    doubled = distributed.all_reduce(mine, async_op=True).get_future()
    doubled = doubled.then(lambda done: done.value()[0] * 2)
    between()
    yield "future", digest(doubled.wait())


def objects(rank):
    mine = torch.randn(SIZE)
    everyone = [None, None]
    time.sleep(LATE * rank)
    distributed.all_gather_object(everyone, {"tensor": mine, "rank": rank})
    yield "all_gather_object", digest(*(one["tensor"] for one in everyone))
    gathered = [None, None] if rank == 0 else None
    distributed.gather_object(mine, gathered, dst=0)
    yield "gather_object", digest(*(gathered or []))
    told = [mine if rank == 0 else None]
    distributed.broadcast_object_list(told, 0)
    yield "broadcast_object_list", digest(told[0])
    time.sleep(LATE * rank)
    parts = [torch.empty(SIZE) for _ in range(2)] if rank == 0 else None
    distributed.gather(mine, parts, 0)
    yield "gather", digest(*(parts or []))


def sharded(rank, folder):
    """A model of which each rank holds half, its checkpoint, and the same read back."""
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 64))
    for layer in (model[0], model[2], model):
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(rank)
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(8, 128)).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    yield "sharded", digest(*model.parameters())
    state = {"model": get_model_state_dict(model), "other": torch.full((70_000,), 3.0)}
    empty = {name: torch.zeros_like(value) for name, value in state["model"].items()}
    read = {"model": empty, "other": torch.zeros(70_000)}
    path = os.path.join(folder, "checkpoint")
    checkpoint.save(state, checkpoint_id=path)
    checkpoint.load(read, checkpoint_id=path)
    yield "checkpoint", digest(*read["model"].values(), read["other"])


def main():
    folder = sys.argv[1]
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.manual_seed(rank)
    told = dict(in_flight(rank)) | dict(objects(rank)) | dict(sharded(rank, folder))
    if any(name.startswith("SPILLWAY_") for name in os.environ):
        import spillway

        told["evicted"] = spillway.stats().evicted_bytes
    with open(os.path.join(folder, f"rank{rank}"), "w") as file:
        json.dump(told, file)
    distributed.barrier()
    distributed.destroy_process_group()
    time.sleep(DROP)


if __name__ == "__main__":
    main()
