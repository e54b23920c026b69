# SPDX-License-Identifier: Apache-2.0
"""Whatever runs out of memory is torch.OutOfMemoryError, in words that batch finders look for."""

import os
import re
import subprocess
import sys

import pytest

from tests.faults.batch_finders import FINDERS
from tests.faults.in_child import in_child
from tests.faults.starter import activate, clean_environment
from tests.faults.test_shortage import facts_of

MIB = 1 << 20


def _fused(sizes, mib=1):
    """Weights with gradients, and the optimizer that changes all of them by one op."""
    import torch

    weights = [torch.nn.Parameter(torch.ones(mib * MIB // 4)) for _ in range(sizes)]
    for weight in weights:
        weight.grad = torch.ones_like(weight)
    return torch.optim.AdamW(weights, lr=1e-3, fused=True), weights


@in_child
def test_a_fused_optimizer_is_short_by_all_it_uses():
    """4 MiB each of weight, gradient and two moments make 16 MiB: one answer, which then holds."""
    import torch

    import spillway

    activate(BUDGET="12MiB")
    optimizer, weights = _fused(4)
    try:
        optimizer.step()
    except torch.OutOfMemoryError as error:
        facts, text = facts_of(error), str(error)
    else:
        raise AssertionError("16 MiB fitted 12 MiB")
    assert facts["op"] == "aten::_fused_adamw_", text
    assert 16 * MIB <= facts["need"] <= 17 * MIB, text
    assert 16 * MIB < facts["smallest"] <= 18 * MIB, text
    assert "fused=False" in text and 'optim="adamw_torch"' in text, text
    assert max(map(len, text.splitlines())) <= 80, text
    spillway.enable(facts["smallest"])
    optimizer.step()
    assert all(bool((weight != 1).all()) for weight in weights)


@in_child
def test_what_helps_helps():
    import torch

    activate(BUDGET="12MiB")
    _, weights = _fused(4)
    torch.optim.AdamW(weights, lr=1e-3, fused=False).step()
    assert all(bool((weight != 1).all()) for weight in weights)


@in_child
def test_an_op_that_calls_others_before_it_reads():
    """Fused Adam asks its step counters for numbers, which are ops, before it meets what was
    refused to it."""
    import torch

    activate(BUDGET="12MiB")
    for kind in (torch.optim.Adam, torch.optim.AdamW):
        _, weights = _fused(4)
        try:
            kind(weights, lr=1e-3, fused=True).step()
        except RuntimeError as error:
            assert type(error) is torch.OutOfMemoryError, (type(error), error)
        else:
            raise AssertionError("16 MiB fitted 12 MiB")
        del weights


def _shortages():
    """Errors of each way to run out of memory: (how, error)."""
    import numpy
    import torch

    import spillway

    def before_an_op():
        left, right = torch.ones(5 * MIB // 4), torch.ones(5 * MIB // 4)
        left.add_(right)

    def within_an_op():
        torch.ones(1024, 1024) @ torch.ones(1024, 1024)

    def fused():
        _fused(4)[0].step()

    def between_ops():
        kept = [torch.ones(4 * MIB // 4) for _ in range(3)]
        spillway.keep(*kept)

    def addresses():
        return [numpy.asarray(torch.ones(4 * MIB // 4)) for _ in range(3)]

    for attempt in (before_an_op, within_an_op, fused, between_ops, addresses):
        try:
            attempt()
        except RuntimeError as error:
            yield attempt.__name__, error.with_traceback(None)
        else:
            raise AssertionError(f"{attempt.__name__} had room")


@pytest.mark.parametrize("finder", FINDERS)
@in_child
def test_every_way_to_run_out_is_one_error(finder):
    import torch

    activate(BUDGET="9MiB")
    for how, error in _shortages():
        assert type(error) is torch.OutOfMemoryError, (how, type(error), error)
        assert FINDERS[finder](error), (how, error)


@pytest.mark.parametrize("finder", FINDERS)
@in_child
def test_what_the_kernel_refuses_is_the_same_error(finder):
    import torch

    FINDERS[finder](RuntimeError(""))  # imports what it has to while there is memory
    activate(BUDGET="64MiB", FAULTS="arena.map=ENOMEM@1+")
    try:
        torch.ones(16 * MIB)
    except RuntimeError as error:
        assert type(error) is torch.OutOfMemoryError, type(error)
        assert FINDERS[finder](error), error
        assert "vm.max_map_count" in str(error), error
    else:
        raise AssertionError("no mapping was needed")


@pytest.mark.parametrize("finder", FINDERS)
@in_child
def test_what_malloc_refuses_a_forked_process_is_the_same_error(finder):
    import torch

    activate(BUDGET="64MiB")
    torch.ones(1)
    child = os.fork()
    if child == 0:
        status = 1
        try:
            torch.empty(1 << 60, dtype=torch.uint8)
        except torch.OutOfMemoryError as error:
            status = 0 if FINDERS[finder](error) else 2
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("finder", FINDERS)
@in_child
def test_a_broken_disk_is_another_error(finder):
    import torch

    from tests.faults.pressure import filled, push_out

    activate(BUDGET="12MiB")
    tensor = filled(1)
    push_out()
    os.environ["SPILLWAY_FAULTS"] = "spool.read=EIO@1+"
    import spillway

    spillway.enable("12MiB")
    try:
        tensor.sum()
    except RuntimeError as error:
        assert type(error) is not torch.OutOfMemoryError, error
        assert not FINDERS[finder](error), error
    else:
        raise AssertionError("it was read")


def test_with_stacks_of_cpp_it_is_the_same_error():
    """TORCH_SHOW_CPP_STACKTRACES gives errors a stack by a function of torch's own."""
    program = (
        "import torch\n"
        "left, right = torch.ones(5 << 18), torch.ones(5 << 18)\n"
        "try: left.add_(right)\n"
        "except RuntimeError as error: print(type(error).__name__, 'frame #' in str(error))\n"
        "try: torch.ones(3, 4) @ torch.ones(5, 6)\n"
        "except RuntimeError as error: print(type(error).__name__, 'frame #' in str(error))\n"
    )
    environment = clean_environment() | {
        "SPILLWAY_BUDGET": "9MiB", "TORCH_SHOW_CPP_STACKTRACES": "1",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.splitlines() == ["OutOfMemoryError True", "RuntimeError True"], done.stderr


@in_child
def test_the_text_is_in_lines_and_ends_with_what_helps():
    import torch

    activate(BUDGET="9MiB")
    try:
        torch.ones(1024, 1024) @ torch.ones(1024, 1024)
    except torch.OutOfMemoryError as error:
        lines = str(error).splitlines()
    assert lines[0].startswith("Spillway: out of memory under the budget in aten::"), lines
    assert re.match(r"  need [\d.]+ MiB, have ", lines[1]), lines
    assert max(map(len, lines)) <= 80, lines
    at = lines.index("What helps, any of:")
    assert lines[at + 1].startswith("  - Raise SPILLWAY_BUDGET to "), lines
    assert all(line.startswith(("  - ", "    ")) for line in lines[at + 1 :]), lines
    assert not any("SPILLWAY_" in line for line in lines[:at]), lines
