# SPDX-License-Identifier: Apache-2.0
"""Two ranks of DistributedDataParallel over gloo, started by torchrun under `spillway run`."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.pseudo_terminal import clean_environment

PROGRAM = """
import hashlib, json, os, sys
import torch
from torch import distributed, nn

distributed.init_process_group("gloo")
rank = distributed.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(6)]
model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 10)))
optimizer = torch.optim.AdamW(model.parameters())
losses = []
for step in range(4):
    generator = torch.Generator().manual_seed(10 * step + rank)
    x = torch.randn(4096, 512, generator=generator)
    y = torch.randint(0, 10, (4096,), generator=generator)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item().hex())
weights = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters()))
report = {"losses": losses, "weights": weights.hexdigest()}
if any(name.startswith("SPILLWAY_") for name in os.environ):
    import spillway
    stats = spillway.stats()
    report["stats"] = {name: getattr(stats, name) for name in (
        "budget_bytes", "peak_device_bytes", "overshoot_bytes", "evicted_bytes", "fetched_bytes")}
with open(os.path.join(sys.argv[1], f"rank{rank}"), "w") as file:
    json.dump(report, file)
distributed.destroy_process_group()
"""
# Where gradients, buckets and a batch are after more was made than the budget holds.
WHERE_PROGRAM = """
import json, os, sys
import torch
from torch import distributed, nn
from tests.faults.pressure import address_of, is_in_memory, push_out

distributed.init_process_group("gloo")
layers = [nn.Sequential(nn.Linear(512, 512), nn.GELU()) for _ in range(4)]
views = sys.argv[2] == "gradients are views of buckets"
model = nn.parallel.DistributedDataParallel(
    nn.Sequential(*layers), bucket_cap_mb=2, gradient_as_bucket_view=views)
buckets = []

def reduce(_, bucket):
    buckets.append(address_of(bucket.buffer()))
    work = distributed.all_reduce(bucket.buffer(), async_op=True)
    return work.get_future().then(lambda done: done.value()[0])

model.register_comm_hook(None, reduce)
batch = torch.randn(4096, 512)
for step in range(3):
    buckets.clear()
    model.zero_grad(set_to_none=not views)
    model(batch).square().mean().backward()
gradients = [address_of(p.grad) for p in model.parameters() if p.numel() >= 1 << 18]
places = {"gradients": gradients, "buckets": buckets, "batch": [address_of(batch)]}
push_out(64)
there = {name: [is_in_memory(place) for place in them] for name, them in places.items()}
with open(os.path.join(sys.argv[1], f"rank{distributed.get_rank()}"), "w") as file:
    json.dump(there, file)
distributed.destroy_process_group()
"""
RANKS = 2
PATIENCE = 300  # seconds
ROOT = Path(__file__).resolve().parents[2]


def _train(folder, *before, program=PROGRAM, arguments=(), **variables):
    """Returns each rank's report, trained by torchrun with these words before it."""
    folder.mkdir()
    (folder / "train.py").write_text(program)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*before, *torchrun, f"--nproc-per-node={RANKS}", "train.py", str(folder), *arguments],
        cwd=folder,
        env=clean_environment({"OMP_NUM_THREADS": "1", **variables}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [json.loads(Path(folder, f"rank{rank}").read_text()) for rank in range(RANKS)]


def _results(reports):
    return [(report["losses"], report["weights"]) for report in reports]


def test_two_ranks_train_equal_within_their_budgets(command, tmp_path):
    stock = _train(tmp_path / "stock")
    assert stock[0]["weights"] == stock[1]["weights"]
    managed = _train(tmp_path / "managed", command, "run", "--budget", "70MiB", "--")
    assert _results(managed) == _results(stock)
    for report in managed:
        stats = report["stats"]
        assert stats["budget_bytes"] == 70 << 20
        assert stats["peak_device_bytes"] <= stats["budget_bytes"], stats
        assert stats["overshoot_bytes"] == 0 and stats["evicted_bytes"] > 0, stats


@pytest.mark.parametrize("layout", ["gradients are apart", "gradients are views of buckets"])
def test_gradients_and_buckets_stay_in_memory(command, tmp_path, layout):
    before = (command, "run", "--budget", "48MiB", "--")
    given = {"program": WHERE_PROGRAM, "arguments": (layout,), "PYTHONPATH": str(ROOT)}
    for there in _train(tmp_path / "managed", *before, **given):
        assert there["batch"] == [False], "nothing had to leave, so nothing was tested"
        assert len(there["gradients"]) == 4 and all(there["gradients"]), there
        assert len(there["buckets"]) > 1 and all(there["buckets"]), there


def test_other_collectives_are_equal_when_all_leaves_that_may(command, tmp_path):
    program = Path(__file__).with_name("collectives.py").read_text()
    stock = _train(tmp_path / "stock", program=program)
    forced = (command, "run", "--budget", "1GiB", "--mode", "fuzz", "--")
    managed = _train(tmp_path / "managed", *forced, program=program)
    for told in managed:
        assert told.pop("evicted") > 0
    assert managed == stock and len(stock[0]) == 13


def test_a_share_of_the_machine_is_divided_among_the_ranks(command, tmp_path):
    query = "import torch, spillway; print(spillway.stats().budget_bytes)"
    alone = subprocess.run(
        [command, "run", "--budget", "10%", "--", sys.executable, "-c", query],
        env=clean_environment({}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    ranks = _train(tmp_path / "divided", command, "run", "--budget", "10%", "--")
    budgets = [report["stats"]["budget_bytes"] for report in ranks]
    assert budgets == [int(alone.stdout) // RANKS] * RANKS, (alone.stdout, alone.stderr[-2000:])
