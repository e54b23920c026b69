# SPDX-License-Identifier: Apache-2.0
"""Traces worked out from two recordings, and the kept recordings themselves."""

import copy

import pytest

from benchmarks.paper_tables import kept
from benchmarks.paper_tables.affine import AffineTrace, NotAffineError, peak_bytes


def step(batch):
    """A parameter of 100 bytes, an activation of 8 bytes a sample, a loss of 4 bytes."""
    return {
        "spillway_trace": 2,
        "storages": [
            {"id": 0, "bytes": 100, "role": "parameter", "persistent": True},
            {"id": 1, "bytes": 8 * batch, "role": "activation"},
            {"id": 2, "bytes": 4, "role": "activation"},
        ],
        "ops": [
            {"name": "forward", "ns": 0, "flop": 50 * batch, "bytes": 100 + 8 * batch,
             "creates": [1], "reads": [0], "writes": [1]},
            {"name": "loss", "ns": 0, "bytes": 4 + 8 * batch, "creates": [2], "reads": [1],
             "writes": [2], "frees": [1, 2]},
        ],
    }  # fmt: skip


def test_two_batches_tell_every_other():
    affine = AffineTrace(2, step(2), 6, step(6))
    assert affine.at(17) == step(17)
    assert affine.at(1) == step(1)
    affine.verify(100, step(100))


def test_what_is_not_affine_is_found_at_the_third():
    affine = AffineTrace(2, step(2), 6, step(6))
    third = step(9)
    third["storages"][1]["bytes"] += 1
    with pytest.raises(NotAffineError, match="storages 1: bytes is 73 at 9, affine would be 72"):
        affine.verify(9, third)


def test_other_ops_are_not_affine():
    other = copy.deepcopy(step(6))
    other["ops"][1]["reads"] = [0, 1]
    with pytest.raises(NotAffineError, match="different ops"):
        AffineTrace(2, step(2), 6, other)


def test_peak_is_that_of_the_worst_op():
    trace = step(10)
    assert peak_bytes(trace) == 100 + 80 + 4
    trace["ops"][0]["workspace"] = 50
    assert peak_bytes(trace) == 100 + 80 + 50


RECORDINGS = [
    pytest.param(recording, value, id=recording.path(value).name)
    for recording in kept.recordings()
    for value in recording.values
    if recording.path(value).exists()
]


@pytest.mark.parametrize(("recording", "value"), RECORDINGS)
def test_kept_recordings_are_whole(recording, value):
    trace = kept.read_trace(recording.path(value))
    assert trace["spillway_trace"] >= 2
    assert trace["timed"] is False
    assert any(row["role"] == "parameter" for row in trace["storages"])
    assert any(op.get("flop") for op in trace["ops"])
    assert peak_bytes(trace) > 0


@pytest.mark.parametrize("recording", kept.recordings(), ids=str)
def test_a_network_is_kept_whole_or_not_at_all(recording):
    present = [recording.path(value).exists() for value in recording.values]
    assert all(present) or not any(present)


def test_no_file_is_kept_that_no_table_uses():
    used = {r.path(value).name for r in kept.recordings() for value in r.values}
    assert {path.name for path in kept.FOLDER.glob("*.zst")} <= used
