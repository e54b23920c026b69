# SPDX-License-Identifier: Apache-2.0
"""`spillway what-if --batch`: which sizes it records, what it answers, how it fails.

A small program stands in for training: it writes the trace that recording would. The last test
trains with PyTorch.
"""

import importlib.util
import json
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.cli.pseudo_terminal import PATIENCE, clean_environment

MIB = 2**20

# Sixteen layers that each keep one MiB a sample for the way back.
STAND_IN = """
    import json, os, sys
    batch = int(sys.argv[1].split("=")[1])
    print("working on", batch)
    with open(sys.argv[2], "a") as log:
        print(batch, file=log)
    {extra}
    storages = [{{"id": 0, "bytes": 1, "role": "parameter", "persistent": True}}]
    ops = []
    for layer in range(16):
        storages.append({{"id": layer + 1, "bytes": batch << 20, "role": "activation"}})
        ops.append({{"name": "forward", "ns": 1000000, "creates": [layer + 1], "reads": [0],
                    "writes": [layer + 1]}})
    for layer in reversed(range(16)):
        ops.append({{"name": "backward", "ns": 2000000, "reads": [layer + 1],
                    "frees": [layer + 1]}})
    for name in os.environ:
        assert name == "SPILLWAY_WITHOUT_MEMORY" or not name.startswith("SPILLWAY_"), name
    path = os.environ["SPILLWAY_WITHOUT_MEMORY"]
    with open(path, "w") as file:
        json.dump({{"spillway_trace": 2, "storages": storages, "ops": ops}}, file)
"""


@pytest.fixture
def ask(spillway, tmp_path):
    """Asks for the largest size; returns the process and the sizes that were recorded."""

    def run(batches, *words, extra="pass", **changes):
        script, log = tmp_path / "train.py", tmp_path / "log"
        script.write_text(textwrap.dedent(STAND_IN).format(extra=extra))
        log.write_text("")
        result = spillway(
            "what-if", "--batch", batches, "--machine", "v100-pcie", "--planner", "lru", *words,
            "--", sys.executable, str(script), "--batch={batch}", str(log), **changes,
        )  # fmt: skip
        return result, [int(line) for line in log.read_text().split()]

    return run


def test_the_largest_size_that_fits_is_found_by_bisection(ask):
    # Two layers are needed at once, so a sample takes two MiB of the device at least.
    result, recorded = ask("1:512", "--budget", "100MiB", "--json", SPILLWAY_BUDGET="1GiB")
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    largest = answer["largest"]["batch"]
    assert answer["too_large"]["batch"] == largest + 1
    assert answer["largest"]["feasible"] and not answer["too_large"]["feasible"]
    assert 40 <= largest <= 100
    assert answer["largest"]["step_ns"] > answer["largest"]["compute_ns"] == 48_000_000
    assert recorded == [row["batch"] for row in answer["tries"]]
    assert recorded[0] == 512 and len(recorded) <= 12 and len(set(recorded)) == len(recorded)
    assert result.stderr == ""


def test_what_is_found_is_what_plans_say_of_each_size(ask, spillway, tmp_path):
    result, _ = ask("1:64", "--budget", "50MiB", "--json")
    largest = json.loads(result.stdout)["largest"]
    for batch, status in ((largest["batch"], 0), (largest["batch"] + 1, 1)):
        trace = tmp_path / "step.json"
        done = spillway(
            "record", "--without-memory", "-o", str(trace), "--",
            sys.executable, str(tmp_path / "train.py"), f"--batch={batch}", str(tmp_path / "log"),
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        planned = spillway(
            "plan", str(trace), "--budget", "50MiB", "--machine", "v100-pcie",
            "--planner", "lru", "--json",
        )  # fmt: skip
        assert planned.returncode == status
        if status == 0:
            assert json.loads(planned.stdout)["step_ns"] == largest["step_ns"]


def test_where_all_fits_one_recording_tells(ask):
    result, recorded = ask("1:4", "--budget", "1GiB")
    assert (result.returncode, recorded) == (0, [4])
    assert "largest       batch 4: peak 64 MiB without a plan\n" in result.stdout
    assert "too large     none: the largest size asked for fits\n" in result.stdout


def test_where_nothing_fits_the_smallest_was_tried(ask):
    result, recorded = ask("100:900", "--budget", "8MiB")
    assert result.returncode == 1
    assert recorded[-1] == 100
    assert "largest       none: not even the smallest size fits\n" in result.stdout
    assert "too large     batch 100: peak " in result.stdout and " short\n" in result.stdout


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ("sys.exit('no such data set')", ["ended with status 1", "no such data set"]),
        (
            "print('nearly', file=sys.stderr); os.kill(os.getpid(), 9)",
            ["ended by signal 9", "Its last lines:", "nearly"],
        ),
        ("sys.exit(0)", ["recorded nothing", "working on 9"]),
    ],
)
def test_a_program_that_fails_ends_the_search(ask, extra, told):
    result, recorded = ask("1:9", "--budget", "1GiB", extra=extra)
    assert (result.returncode, result.stdout, recorded) == (2, "", [9])
    assert result.stderr.startswith("spillway: ")
    for text in told:
        assert text in result.stderr


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--batch", "8:1", "--", "x{batch}"), "a range such as 1:512"),
        (("--batch", "0:1", "--", "x{batch}"), "a range such as 1:512"),
        (("--batch", "1:8", "--", "train.py"), "where the size goes"),
        (("--batch", "1:8"), "where the size goes"),
        (("t.json", "--batch", "1:8", "--", "x{batch}"), "A trace does not go with --batch"),
        (("--batch", "8", "--machines", "--", "x{batch}"), "does not go with --machines"),
        (("--batch", "8", "--slowdown", "5%", "--", "x{batch}"), "does not go with --slowdown"),
        (("t.json", "--", "train.py"), "means nothing without spillway what-if --batch"),
        (("t.json", "--assume", "0"), "--assume goes with --batch"),
        (("--batch", "8", "--", "./no-such-program", "{batch}"), "Cannot run"),
    ],
)
def test_mistakes_are_named(spillway, words, told):
    result = spillway("what-if", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert told in result.stderr


def test_a_terminal_shows_which_size_is_tried_and_ctrl_c_ends_both(terminal, tmp_path):
    script = tmp_path / "slow.py"
    script.write_text("import sys, time\nopen(sys.argv[1], 'w').close()\ntime.sleep(60)\n")
    started = tmp_path / "started"
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    one = terminal(
        "what-if", "--batch", "1:512", "--", sys.executable, str(script), str(started) + "{batch}",
        TMPDIR=str(temporary),
    )  # fmt: skip
    one.until_text("what-if 1 of ")
    assert "recording batch 512" in one.screen.text()[0]
    one.type("\x03")
    assert one.finish() == -signal.SIGINT
    assert not any("what-if" in row for row in one.screen.history())
    assert list(temporary.iterdir()) == []


PROGRAM = """
    import sys, torch
    model = torch.nn.Sequential(*[torch.nn.Linear(256, 256) for _ in range(8)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        x = torch.zeros(1024 * int(sys.argv[1]), 256)
        for layer in model:
            x = torch.tanh(layer(x))
        x.sum().backward()
        optimizer.step()
    print("trained")
"""


@pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or importlib.util.find_spec("spillway") is None,
    reason="needs PyTorch with Spillway",
)
def test_a_real_program_is_recorded_at_each_size(command, tmp_path):
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(PROGRAM))
    # Every size loads PyTorch anew, for seconds where others use the machine too.
    result = subprocess.run(
        [command, "what-if", "--batch", "4:16", "--budget", "40MiB", "--machine", "v100-pcie",
         "--json", "--planner", "lru", "--", sys.executable, str(script), "{batch}"],
        capture_output=True, text=True, check=False, timeout=PATIENCE * 20,
        env=clean_environment({}),
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    answer = json.loads(result.stdout)
    # A tensor of the step has 1 MiB a unit; the weights and gradients take 4 MiB.
    largest = answer["largest"]
    assert 4 <= largest["batch"] < answer["too_large"]["batch"] == largest["batch"] + 1
    assert largest["batch"] * MIB < 40 * MIB < answer["too_large"]["peak"]
    assert answer["tries"][0]["batch"] == 16


def test_a_temporary_folder_that_is_not_there_is_a_mistake_of_the_user(ask):
    result, recorded = ask("1:4", TMPDIR="/nonexistent")
    assert result.returncode == 2, result.stderr
    assert "Set TMPDIR to a folder that you can write to" in result.stderr and not recorded
