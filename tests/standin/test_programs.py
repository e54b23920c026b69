# SPDX-License-Identifier: Apache-2.0
"""Training programs of the oracle on the stand-in card, managed and unmanaged: the same bits within
budgets of the card's memory.

CARD_ORACLE=full  every program of the list, and of each that cannot whether that is still so;
                  otherwise one of either, on one of the budgets, whose turn is today
"""

import os
import re

import pytest

from tests.oracle import judge
from tests.oracle.launch import MIB, ChildFailedError, required_statistics, start
from tests.oracle.schedule import budget_for
from tests.oracle.turns import TODAY, of_the_day
from tests.standin import needed, on_card
from tests.standin.settings import variables_of

pytestmark = needed.STAND_IN
FULL = os.environ.get("CARD_ORACLE") == "full"
SHARES = (50, 30, 15)
A_DAY = 1


def _today(items, day=TODAY):
    return list(items) if FULL else of_the_day(items, A_DAY, day)


# Another one each time that all programs have had their turn.
SHARES_TODAY = _today(SHARES, TODAY // len(on_card.CASES))


def _train(case, folder, **variables):
    settings = variables_of(variables)
    if settings:
        settings |= {"SPILLWAY_SPOOL_DIR": str(folder), "SPILLWAY_HOST_BUDGET": "1GiB"}
    child = start(
        "tests.standin.train",
        [":".join(filter(None, case))],
        settings,
        folder,
        through=["tests/standin/run.py"],
    )
    return child.require_complete()


def _floor(fuzzed):
    """Bytes of the largest working set: under fuzz the card holds what the running op uses."""
    return fuzzed.stats["peak_live_bytes"]


def _is_equal(expected, child, case):
    judge.same_bits(expected.runs[case], child.runs[case], child)
    assert required_statistics(child)["undeclared_writes"] == 0


def _kept_its_budget(child, case, budget, peak, beside):
    stats = child.stats
    judge.was_managed(child, peak, budget - beside)
    assert stats["peak_device_bytes"] <= budget
    assert stats["overshoot_bytes"] == 0
    card = child.runs[case]["card"]
    assert card["driver"] <= budget, (
        f"the driver gave {card['driver'] / MIB:.0f} MiB; budget {budget / MIB:.0f} MiB, of it "
        f"PyTorch's own {card['small_reserved'] / MIB:.0f} MiB\n  to repeat: {child.command}"
    )


@pytest.mark.parametrize(("name", "optimizer"), _today(on_card.CASES))
def test_budgets_give_the_same_bits(name, optimizer, tmp_path):
    case = (name, optimizer)
    expected = _train(case, tmp_path)
    fuzzed = _train(case, tmp_path, mode="fuzz", budget="cuda:900MiB")
    _is_equal(expected, fuzzed, case)
    assert fuzzed.moved_bytes > 0
    peak = expected.runs[case]["card"]["large"]
    floor = _floor(fuzzed)
    # The budget covers PyTorch's own pool and the context besides.
    beside = fuzzed.stats["unmanaged_bytes"]
    for budget in sorted({budget_for(share, peak, floor) for share in SHARES_TODAY}, reverse=True):
        budget += beside
        child = _train(case, tmp_path, budget=f"cuda:{budget}")
        _is_equal(expected, child, case)
        _kept_its_budget(child, case, budget, peak, beside)


@pytest.mark.parametrize("name", _today(on_card.CANNOT))
def test_what_cannot_still_ends_so(name, tmp_path):
    """Unmanaged, too; otherwise the program belongs to the others."""
    with pytest.raises(ChildFailedError, match=re.escape(on_card.CANNOT[name].says)):
        _train((name, None), tmp_path)
