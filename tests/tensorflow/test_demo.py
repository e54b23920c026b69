# SPDX-License-Identifier: Apache-2.0
"""`make demo-tf` draws what was sampled. The demo itself needs scikit-learn."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "scripts"))

import demo_parts
import demo_tensorflow

MIB = 1 << 20


def _samples(steps):
    """One a second, of which the n-th has n MiB moved out."""
    return [
        {"time": float(turn), "steps": step, "evicted_bytes": turn * MIB}
        for turn, step in enumerate(steps)
    ]


def test_the_last_step_that_was_seen_whole():
    found = demo_tensorflow.whole_step(_samples([0, 1, 1, 2, 2, 2, 3, 3]))
    assert [sample["time"] for sample in found] == [0, 1, 2]
    assert [sample["evicted_bytes"] // MIB for sample in found] == [3, 4, 5]


def test_half_a_step_is_none():
    with pytest.raises(demo_parts.RunError, match="shorter than the samples"):
        demo_tensorflow.whole_step(_samples([0, 0, 1, 1]))


def test_the_chart_stacks_what_left_on_what_stayed():
    # 12 rows of 1 MiB; the budget, 6 MiB, is the line above the sixth.
    lines = demo_tensorflow.stacked(
        [6 * MIB, 3 * MIB, 0], [0, 6 * MIB, 12 * MIB], 6 * MIB, 12 * MIB
    )
    drawn = [line.plain[10:] for line in lines]
    assert drawn[0] == "  ▒"
    assert drawn[3] == " ▒▒"
    assert drawn[5] == "─▒▒"
    assert drawn[6] == "█▒▒"
    assert drawn[9] == "██▒"
    assert drawn[11] == "██▒"
    assert lines[0].plain.strip().startswith("12 MiB")
    assert lines[5].plain.strip().startswith("6 MiB")


def test_what_was_moved_adds_up():
    samples = _samples([0] * 100)
    moved = demo_tensorflow.growth(samples, "evicted_bytes", 10)
    assert len(moved) == 10
    assert sum(moved) == 99 * MIB


def test_the_words_of_tensorflow_are_found_and_training_on_is_an_error():
    class Trainer:
        def __init__(self, failure):
            self.failure = failure

        def run(self, name, steps, environment):
            assert environment["TF_CPU_BFC_MEM_LIMIT_IN_MB"] == "64"
            if self.failure:
                raise self.failure

    told = ["Traceback\n", "  OOM when allocating tensor with shape[1] by allocator cpu\n"]
    failure = demo_parts.RunError("ended", 1, told)
    words = demo_tensorflow.last_words(Trainer(failure), 3, 64 * MIB)
    assert words == (1, "OOM when allocating tensor with shape[1] by allocator cpu")
    with pytest.raises(demo_tensorflow.TrainedWithinLimitError):
        demo_tensorflow.last_words(Trainer(None), 3, 64 * MIB)
    other = demo_parts.RunError("ended", 1, ["NameError\n"])
    with pytest.raises(demo_parts.RunError, match="ended"):
        demo_tensorflow.last_words(Trainer(other), 3, 64 * MIB)
