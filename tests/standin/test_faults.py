# SPDX-License-Identifier: Apache-2.0
"""Calls to the driver that fail while PyTorch trains: the program trains on to the same bits, or it
ends with text that says at what. Nothing hangs, and no value is wrong.

CARD_ORACLE=full  every function, once in a step and always; by default some in turn.
"""

import json
import os
import subprocess
import sys

import pytest

from tests.oracle.turns import of_the_day
from tests.standin import needed
from tests.standin.settings import variables_of

pytestmark = needed.STAND_IN
INVALID_VALUE, OUT_OF_MEMORY = 1, 2
NAMES = {INVALID_VALUE: "CUDA_ERROR_INVALID_VALUE", OUT_OF_MEMORY: "CUDA_ERROR_OUT_OF_MEMORY"}
GIVES_MEMORY = ("cuMemCreate", "cuMemMap", "cuMemSetAccess")
FUNCTIONS = [
    *GIVES_MEMORY,
    "cuMemUnmap",
    "cuMemRelease",
    "cuMemcpyDtoHAsync",
    "cuMemcpyHtoDAsync",
    "cuStreamWaitEvent",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventQuery",
]
# What has failed once is tried again, or done without.
SURVIVED = [
    *((function, OUT_OF_MEMORY, "third") for function in GIVES_MEMORY),
    *(("cuMemcpyDtoHAsync", code, "third") for code in NAMES),
    *(("cuMemHostRegister", code, "ever") for code in NAMES),  # copies hold the program up
]
# Nothing can leave, or nothing more can come.
SHORT = [
    *((function, OUT_OF_MEMORY, "all") for function in GIVES_MEMORY),
    *(("cuMemcpyDtoHAsync", code, "all") for code in NAMES),
]
FAULTS = [
    *(
        (function, code, which)
        for function in FUNCTIONS
        for code in NAMES
        for which in ("third", "all")
    ),
    *(fault for fault in SURVIVED if fault[2] == "ever"),
]
# Whether the third call of a step comes depends on what has ended by then.
MAY_NOT_COME = ("cuEventCreate",)
if os.environ.get("CARD_ORACLE") != "full":
    FAULTS = of_the_day(FAULTS, 4)


def train(folder, *fault, **settings):
    """Returns the ended process, and what it printed, if it came to its end."""
    settings |= {"spool_dir": folder} if settings else {}
    child = subprocess.run(
        [sys.executable, "tests/standin/run.py", "-m", "tests.standin.faulty", *map(str, fault)],
        env=os.environ | variables_of(settings),
        capture_output=True,
        text=True,
        timeout=120,
    )
    return child, json.loads(child.stdout) if child.returncode == 0 else None


@pytest.fixture(scope="module")
def unmanaged(tmp_path_factory):
    child, found = train(tmp_path_factory.mktemp("unmanaged"))
    assert found, child.stderr
    return found


@pytest.fixture(scope="module")
def settings(unmanaged):
    return {"budget": f"cuda:{unmanaged['peak'] * 6 // 10}", "host_budget": "1GiB"}


def require_right_end(fault, child, found, unmanaged):
    function, code, _ = fault
    last = child.stderr
    if found:
        assert found["losses"] == unmanaged["losses"]
        assert found["digest"] == unmanaged["digest"]
        assert fault not in SHORT
        assert found["failed"] > 0 or function in MAY_NOT_COME
        return
    assert fault not in SURVIVED, last
    assert child.returncode == 1, last
    short = "torch.OutOfMemoryError: Spillway: out of memory" in last
    if short:
        assert "In PyTorch's words: CUDA out of memory." in last
    else:
        assert "RuntimeError: Spillway: " in last
        assert fault not in SHORT
    # Of a card that has no memory that is all there is to say.
    assert NAMES[code] in last or (short and code == OUT_OF_MEMORY), last


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: "-".join(map(str, fault)))
def test_a_call_that_fails(fault, unmanaged, settings, tmp_path):
    require_right_end(fault, *train(tmp_path, *fault, **settings), unmanaged)


def test_a_call_that_fails_while_storages_are_made_again(unmanaged, settings, tmp_path):
    fault = ("cuStreamWaitEvent", INVALID_VALUE, "all")
    ended = train(tmp_path, *fault, mode="fuzz", recompute="on", **settings)
    require_right_end(fault, *ended, unmanaged)


def test_a_card_that_is_lost(settings, tmp_path):
    child, _ = train(tmp_path, "lost", **settings)
    assert child.returncode == 1, child.stderr
    assert "a fault in a kernel" in child.stderr
