# SPDX-License-Identifier: Apache-2.0
"""Unmodified models of installed packages on 40 % of their peak equal their unmanaged runs.

A package that is not installed skips its families, or fails them where REQUIRE_FAMILIES=1. Four
families are in the quick selection; ORACLE=full and REQUIRE_FAMILIES=1 run all ten.
"""

import importlib.util
import os

import pytest

from tests.oracle import catalog, judge
from tests.oracle.schedule import budget_for

SHARES = (40,)
REQUIRED = os.environ.get("REQUIRE_FAMILIES") == "1"
ALL = REQUIRED or os.environ.get("ORACLE", "quick") == "full"
FAMILIES = [family.name for family in catalog.FAMILIES if ALL or family.quick]


def _missing(name):
    return [p for p in catalog.find(name).needs if importlib.util.find_spec(p) is None]


def _case(name):
    return (name, catalog.find(name).optimizers[0])


def submit(schedule, items):
    """Called once by the schedule fixture with the tests of this module that were selected."""
    for item in items:
        name = item.callspec.params["name"]
        if not _missing(name):
            for attempt in range(2):
                schedule.batch((_case(name),), "full", attempt=attempt)
            schedule.budgets(_case(name), SHARES)
            schedule.idle_bytes(name)


@pytest.mark.parametrize("name", FAMILIES)
def test_family(schedule, name):
    missing = _missing(name)
    if missing:
        reason = f"{name} needs {', '.join(missing)}, not installed for this interpreter"
        pytest.fail(reason) if REQUIRED else pytest.skip(reason)
    case = _case(name)
    first, second = (
        schedule.batch((case,), "full", attempt=attempt).result()[case].require_complete()
        for attempt in range(2)
    )
    judge.same_bits(first.runs[case], second.runs[case], second)
    runs = schedule.budgets(case, SHARES).result()
    stats = runs["record"].stats
    budget = budget_for(SHARES[0], stats["peak_device_bytes"], stats["floor_bytes"])
    child = runs[SHARES[0]].require_complete()
    judge.same_bits(first.runs[case], runs["record"].runs[case], runs["record"])
    judge.same_bits(first.runs[case], child.runs[case], child)
    judge.was_managed(child, stats["peak_device_bytes"], budget)
    # The packages themselves are resident too: an idle process that imported them is the measure.
    judge.budget_held(child, budget, schedule.idle_bytes(name).result())
    judge.used_what_is_there(child.stats)
