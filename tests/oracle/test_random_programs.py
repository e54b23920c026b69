# SPDX-License-Identifier: Apache-2.0
"""Property: no program over tensors can tell that everything it is not using was evicted.

RANDOM_SEED=S starts at another seed, RANDOM_COUNT=N runs more; both are printed on failure.
"""

import datetime
import os

import pytest

from tests.oracle import judge
from tests.oracle.launch import start

FULL = os.environ.get("ORACLE", "quick") == "full"
COUNT = int(os.environ.get("RANDOM_COUNT", "2000" if FULL else "150"))
# A new start every day; a failure names the seed, which RANDOM_SEED then repeats.
TODAY = datetime.datetime.now(tz=datetime.timezone.utc).toordinal() * 10_000
SEED = int(os.environ.get("RANDOM_SEED", TODAY))


def test_random_programs_are_equal(product, tmp_path):
    print(f"RANDOM_SEED={SEED} RANDOM_COUNT={COUNT}")
    arguments = ["--seed", str(SEED), "--count", str(COUNT)]
    child = start("tests.oracle.random_programs", arguments, {}, tmp_path)
    report = child.report
    if report.get("running"):
        crashed = report["running"]
        pytest.fail(
            f"seed {crashed['seed']} ended the process ({child.returncode}):\n"
            f"{crashed['program']}\n{child.stderr_tail}"
        )
    assert report.get("ran") == COUNT, f"the run did not finish:\n{child.stderr_tail}"
    # Writing through overlapping memory is undefined in torch too; more than a few are our mistake.
    assert len(report["unrepeatable"]) <= COUNT // 20, report["unrepeatable"]
    assert report["moved_bytes"] > 0, "fuzz moved nothing, so nothing was tested"
    judge.used_what_is_there(report["means"])
    texts = [f"# seed {f['seed']}\n{f.get('error', '')}{f['program']}" for f in report["failures"]]
    assert not texts, f"{len(texts)} of {COUNT} programs differ under fuzz:\n" + "\n".join(texts)


def test_shrinking_keeps_only_what_fails():
    """The shrinker itself, on a failure that needs exactly two of its lines."""
    pytest.importorskip("torch")
    from tests.oracle.random_programs import shrink

    lines = [str(index) for index in range(37)]
    assert shrink(lines, lambda kept: "5" in kept and "29" in kept) == ["5", "29"]
