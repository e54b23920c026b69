# SPDX-License-Identifier: Apache-2.0
"""Training programs of the oracle on the stand-in card, managed and unmanaged: the same bits within
budgets of the card's memory.

CARD_ORACLE=full  every program of the list; otherwise that whose turn is today
"""

import os

import pytest

from tests.oracle import judge
from tests.oracle.launch import MIB, required_statistics, start
from tests.oracle.schedule import budget_for
from tests.oracle.turns import of_the_day
from tests.standin import needed, on_card

pytestmark = needed.STAND_IN
SHARES = (50, 30)
A_DAY = 1
CASES = (
    on_card.CASES if os.environ.get("CARD_ORACLE") == "full" else of_the_day(on_card.CASES, A_DAY)
)


def _train(case, folder, **variables):
    settings = {f"SPILLWAY_{name.upper()}": str(value) for name, value in variables.items()}
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


def _is_equal(expected, child, case):
    judge.same_bits(expected.runs[case], child.runs[case], child)
    assert required_statistics(child)["undeclared_writes"] == 0


def _kept_its_budget(child, case, budget, peak):
    stats = child.stats
    judge.was_managed(child, peak, budget)
    assert stats["peak_device_bytes"] <= budget
    assert stats["overshoot_bytes"] == 0
    card = child.runs[case]["card"]
    assert card["driver"] <= budget, (
        f"the driver gave {card['driver'] / MIB:.0f} MiB; budget {budget / MIB:.0f} MiB, of it "
        f"PyTorch's own {card['small_reserved'] / MIB:.0f} MiB\n  to repeat: {child.command}"
    )


@pytest.mark.parametrize(("name", "optimizer"), CASES)
def test_budgets_give_the_same_bits(name, optimizer, tmp_path):
    case = (name, optimizer)
    expected = _train(case, tmp_path)
    fuzzed = _train(case, tmp_path, mode="fuzz", budget="cuda:900MiB")
    _is_equal(expected, fuzzed, case)
    assert fuzzed.moved_bytes > 0
    peak = expected.runs[case]["card"]["large"]
    for share in SHARES:
        # The budget covers PyTorch's own pool besides.
        budget = budget_for(share, peak, fuzzed.stats["floor_bytes"])
        budget += fuzzed.stats["unmanaged_bytes"]
        child = _train(case, tmp_path, budget=f"cuda:{budget}")
        _is_equal(expected, child, case)
        _kept_its_budget(child, case, budget, peak)
