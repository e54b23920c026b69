# SPDX-License-Identifier: Apache-2.0
"""An op that does not fit: the error says everything, and training goes on after it."""

import re

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MESSAGE = re.compile(
    r"out of memory under the budget in (?P<op>aten::\w+)[\w.]*:\n  need (?P<need>[\d.]+ \w+)"
    r"(?: in all)?, have (?P<have>[\d.]+ \w+), short "
    r"(?P<short>[\d.]+ \w+) \(budget (?P<budget>[\d.]+ \w+)\)\.\n"
    r"  The smallest budget that would have let this pass is (?:at least )?"
    r"(?P<smallest>[\d.]+ \w+)\.",
)
UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def facts_of(error):
    found = MESSAGE.search(str(error))
    assert found, str(error)
    facts = dict(found.groupdict())
    for name in ("need", "have", "short", "budget", "smallest"):
        number, unit = facts[name].split()
        facts[name] = round(float(number) * UNITS[unit])
    return facts


def _multiply(rows=1024):
    """A product that needs 4 + 4 + 4 MiB at 1024 rows."""
    import torch

    generator = torch.Generator().manual_seed(3)
    left = torch.randn(rows, 1024, generator=generator)
    right = torch.randn(1024, 1024, generator=generator)
    return left @ right


@in_child
def test_the_error_says_what_is_missing():
    import torch

    import spillway

    activate(BUDGET="10MiB")
    left, right = torch.ones(1024, 1024), torch.ones(1024, 1024)
    try:
        left @ right
    except torch.OutOfMemoryError as error:
        facts = facts_of(error)
        text = str(error)
    else:
        raise AssertionError("12 MiB fitted 10 MiB")
    assert facts["op"] in ("aten::matmul", "aten::mm"), text
    assert facts["need"] == 4 << 20 and facts["budget"] == 10 << 20, text
    assert facts["have"] + facts["short"] == facts["need"], text
    assert facts["smallest"] == facts["budget"] + facts["short"], text
    pinned = re.findall(
        r"^ +4 MiB  used by an op or an export, made by aten::ones", text, re.MULTILINE
    )
    assert len(pinned) == 2, text
    assert "SPILLWAY_BUDGET" in text and "SPILLWAY_OVER=allow" in text, text
    assert "at least" in text and "The op was running" in text, text
    assert spillway.stats().overshoot_bytes == 0


@in_child
def test_the_budget_it_names_suffices():
    import torch

    import spillway
    from tests.faults.training import digest

    expected = digest(_multiply())
    activate(BUDGET="9MiB")
    try:
        _multiply()
    except torch.OutOfMemoryError as error:
        smallest = facts_of(error)["smallest"]
    spillway.enable(smallest)
    spillway.reset_peak()
    assert digest(_multiply()) == expected
    assert spillway.stats().peak_device_bytes <= smallest
    spillway.enable(smallest - (1 << 20))
    try:
        _multiply()
    except torch.OutOfMemoryError:
        return
    raise AssertionError("a smaller budget sufficed")


@in_child
def test_a_smaller_batch_goes_on_where_a_large_one_failed():
    """Many failures in a row leak neither memory nor pins, and change no value."""
    import torch

    import spillway
    from tests.faults.training import Training

    def run():
        training = Training()
        large = torch.nn.Linear(512, 8192)
        failures = 0
        for _ in range(3):
            for _ in range(5):
                try:
                    large(training.x[:1].expand(512, 512)).square().sum().backward()
                except torch.OutOfMemoryError:
                    failures += 1
            training.step()
        return training.outcome(), failures

    expected, none = run()
    activate(BUDGET="20MiB")
    outcome, failures = run()
    assert (none, failures) == (0, 15)
    assert outcome == expected
    assert spillway.stats().overshoot_bytes == 0


@in_child
def test_training_goes_on_under_a_raised_budget():
    import torch

    import spillway
    from tests.faults.training import Training, train

    expected = train(4)
    activate(BUDGET="12MiB")
    training = Training().steps(2)
    held = spillway.stats().budget_bytes
    try:
        torch.empty(16 << 20, dtype=torch.uint8)
    except torch.OutOfMemoryError as error:
        assert facts_of(error)["op"] == "aten::empty", error
    spillway.enable(held + (16 << 20))
    large = torch.ones(16 << 20, dtype=torch.uint8)
    training.steps(2)
    assert training.outcome() == expected
    assert int(large[-1]) == 1


@in_child
def test_over_allow_lets_an_op_exceed_the_budget_and_counts_it():
    import spillway
    from tests.faults.training import digest

    expected = digest(_multiply())
    activate(BUDGET="9MiB", OVER="allow")
    assert digest(_multiply()) == expected
    stats = spillway.stats()
    assert 1 << 20 <= stats.overshoot_bytes <= 8 << 20, stats
    assert stats.peak_device_bytes == stats.budget_bytes + stats.overshoot_bytes, stats


@in_child
def test_an_emulated_device_refuses_likewise():
    import torch

    import spillway

    activate(EMULATE_DEVICE="10MiB", HOST_BUDGET="16MiB")
    try:
        _multiply()
    except torch.OutOfMemoryError as error:
        assert facts_of(error)["budget"] == 10 << 20
    else:
        raise AssertionError("12 MiB fitted 10 MiB")
    assert torch.equal(_multiply(256), _multiply(256))
    assert spillway.stats().overshoot_bytes == 0


@in_child
def test_an_op_that_allocates_nothing_fails_likewise():
    """Its inputs do not fit together: that shows when the second one is to come back."""
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact

    activate(BUDGET="9MiB")
    left, right = filled(1, mib=5), filled(2, mib=5)
    try:
        left.add_(right)
    except torch.OutOfMemoryError as error:
        facts = facts_of(error)
    else:
        raise AssertionError("10 MiB fitted 9 MiB")
    assert facts["op"] == "aten::add_"
    assert is_intact(left, 1) and is_intact(right, 2)
    spillway.enable(facts["smallest"] + (1 << 20))  # for the small tensors made since
    left.add_(right)
    assert is_intact(left, 3)


@in_child
def test_an_error_of_the_program_stays_what_it_was():
    import torch

    activate(BUDGET="9MiB")
    for _ in range(2):
        try:
            torch.ones(3, 4) @ torch.ones(5, 6)
        except RuntimeError as error:
            assert type(error) is RuntimeError and "cannot be multiplied" in str(error), error
        else:
            raise AssertionError("3x4 times 5x6")


@in_child
def test_an_op_seen_before_is_checked_before_it_starts():
    """Dropout draws its mask before it allocates its result: failing there moves the generator."""
    import torch

    import spillway

    activate(BUDGET="128MiB")
    x = torch.ones(4 << 20)
    could_leave = torch.ones(1 << 20)
    for _ in range(3):
        torch.native_dropout(x, 0.5, True)
    spillway.enable("26MiB")
    state = torch.get_rng_state()
    try:
        torch.native_dropout(x, 0.5, True)
    except torch.OutOfMemoryError as error:
        facts = facts_of(error)
        assert "could not be written out" not in str(error), "nothing was tried, nothing failed"
    else:
        raise AssertionError("36 MiB fitted 26 MiB")
    assert torch.equal(state, torch.get_rng_state())
    assert facts["op"] == "aten::native_dropout"
    assert facts["need"] >= 20 << 20 and facts["budget"] == 26 << 20, facts
    assert facts["smallest"] - facts["budget"] == facts["short"], facts
    spillway.enable(facts["smallest"])
    spillway.reset_peak()
    torch.native_dropout(x, 0.5, True)
    assert spillway.stats().peak_device_bytes <= facts["smallest"]
    assert could_leave.sum() == 1 << 20


def _big_then_small(op):
    """Runs `op` on 4 Mi elements under a large budget, on 1 Mi under one that only these fit."""
    import spillway

    spillway.enable("256MiB")
    for _ in range(3):
        op(4 << 20)
    spillway.enable("16.25MiB")  # blocks may start some pages into their range
    for _ in range(3):
        op(1 << 20)


@in_child
def test_the_same_op_on_less_is_not_refused():
    """Observations of large tensors say nothing of small ones, whatever names the size."""
    import torch

    activate(BUDGET="256MiB")
    _big_then_small(lambda size: torch.empty(size * 4, dtype=torch.uint8))
    _big_then_small(torch.zeros)
    _big_then_small(lambda size: torch.ones(size).to(torch.float64))
    _big_then_small(lambda size: torch.cat([torch.ones(size), torch.ones(size)]))
    column = torch.ones(2048, 1)
    _big_then_small(lambda size: column + torch.ones(1, size >> 11))
    _big_then_small(lambda size: column + (torch.ones(1, 2048) if size >> 22 else column))
    all_ = torch.ones(2 << 20, dtype=torch.bool)
    some = torch.zeros(2 << 20, dtype=torch.bool)
    some[: 1 << 19] = True
    # A mask's positions take 8 bytes each.
    _big_then_small(lambda size: (all_ if size >> 22 else some).nonzero())
    _big_then_small(lambda size: all_[all_ if size >> 22 else some])
