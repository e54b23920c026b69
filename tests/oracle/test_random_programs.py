# SPDX-License-Identifier: Apache-2.0
"""Property: no program over tensors can tell that everything it is not using was evicted.

RANDOM_SEED=S starts at another seed, RANDOM_COUNT=N runs more; both are printed on failure.
"""

import os
import signal
import subprocess
import sys

import pytest

from tests.oracle import judge
from tests.oracle.launch import start
from tests.oracle.turns import TODAY

PATIENCE = 60  # seconds that one program may take
FULL = os.environ.get("ORACLE", "quick") == "full"
COUNT = int(os.environ.get("RANDOM_COUNT", "2000" if FULL else "150"))
# A new start every day; a failure names the seed, which RANDOM_SEED then repeats.
SEED = int(os.environ.get("RANDOM_SEED", TODAY * 10_000))


def _shrunk(lines, seed, folder):
    """The least of a program that still ends its process, as a script; each attempt is a process.

    The whole of it, said to be so, where it needs the programs before it, or takes for ever.
    """
    from tests.oracle.random_programs import repro, shrink

    def ends_the_process(kept):
        file = folder / "lines.txt"
        file.write_text("\n".join(kept), encoding="utf-8")
        arguments = ["--seed", str(seed), "--lines", str(file)]
        child = start("tests.oracle.random_programs", arguments, {}, folder, timeout=PATIENCE)
        killed = child.returncode == -signal.SIGKILL  # by us, for its time
        return child.report.get("running") is not None and not killed

    if not ends_the_process(lines):
        return f"# alone it does not end its process\n{repro(lines, seed)}"
    return repro(shrink(lines, ends_the_process), seed)


def test_random_programs_are_equal(product, tmp_path):
    print(f"RANDOM_SEED={SEED} RANDOM_COUNT={COUNT}")
    arguments = ["--seed", str(SEED), "--count", str(COUNT)]
    child = start("tests.oracle.random_programs", arguments, {}, tmp_path)
    report = child.report
    if crashed := report.get("running"):
        program = _shrunk(crashed["lines"], crashed["seed"], tmp_path)
        pytest.fail(
            f"seed {crashed['seed']} ended the process ({child.returncode}):\n"
            f"{program}\n{child.stderr_tail}"
        )
    assert report.get("ran") == COUNT, f"the run did not finish:\n{child.stderr_tail}"
    # Writing through overlapping memory is undefined in torch too; more than a few are our mistake.
    assert len(report["unrepeatable"]) <= COUNT // 20, report["unrepeatable"]
    assert report["moved_bytes"] > 0, "fuzz moved nothing, so nothing was tested"
    judge.used_what_is_there(report["means"])
    texts = [f"# seed {f['seed']}\n{f.get('error', '')}{f['program']}" for f in report["failures"]]
    assert not texts, f"{len(texts)} of {COUNT} programs differ under fuzz:\n" + "\n".join(texts)


def test_what_ends_the_process_is_shrunk(product, tmp_path):
    deadly = "__import__('os').abort() if 1 in v else None"
    lines = ["v[0] = torch.ones(3)", "v[1] = torch.ones(3)", "v[2] = v[0] + v[1]", deadly]
    program = _shrunk(lines, 8, tmp_path)
    assert [line for line in lines if repr(line) in program] == [lines[1], deadly]


@pytest.mark.parametrize("seed", [8, 9])
def test_the_script_of_a_program_sees_what_the_comparison_saw(product, tmp_path, seed):
    """Also a value that a later line replaced, with odd seeds."""
    from tests.oracle.random_programs import repro

    # Not the same twice, so a script that compares it must fail.
    lines = ["v[0] = torch.full((3,), float(torch.seed() % 2**24))", "v[0] = torch.ones(3)"]
    script = tmp_path / "repro.py"
    script.write_text(repro(lines, seed), encoding="utf-8")
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert done.returncode == seed % 2, done.stderr
    assert done.returncode == 0 or "AssertionError: sum 0" in done.stderr


def test_shrinking_keeps_only_what_fails():
    """The shrinker itself, on a failure that needs exactly two of its lines."""
    pytest.importorskip("torch")
    from tests.oracle.random_programs import shrink

    lines = [str(index) for index in range(37)]
    assert shrink(lines, lambda kept: "5" in kept and "29" in kept) == ["5", "29"]
