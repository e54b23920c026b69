# SPDX-License-Identifier: Apache-2.0
"""Unmodified models of installed packages on 40 % of their peak equal their unmanaged runs.

Two of the eleven families a day, in turn: every family within six days. ORACLE=full and
REQUIRE_FAMILIES=1 run all of them. One whose package is not installed is skipped, or fails where
REQUIRE_FAMILIES=1 or REQUIRE_TORCH=1, as in continuous integration.
"""

import importlib.util
import os

import pytest

from tests.oracle import catalog, judge
from tests.oracle.schedule import budget_for
from tests.oracle.turns import TODAY, of_the_day

SHARES = (40,)
A_DAY = 2
ALL = os.environ.get("REQUIRE_FAMILIES") == "1" or os.environ.get("ORACLE", "quick") == "full"


def _of_the_day(day):
    """Names of the families of that day, counted in days."""
    return of_the_day((family.name for family in catalog.FAMILIES), A_DAY, day)


FAMILIES = [family.name for family in catalog.FAMILIES] if ALL else _of_the_day(TODAY)


def _missing(name):
    return [p for p in catalog.find(name).needs if importlib.util.find_spec(p) is None]


def _case(name):
    return (name, catalog.find(name).optimizers[0])


def submit(schedule, items):
    """Called once by the schedule fixture with the tests of this module that were selected."""
    for item in items:
        if item.originalname != "test_family":
            continue
        name = item.callspec.params["name"]
        if not _missing(name):
            for attempt in range(2):
                schedule.batch((_case(name),), "full", attempt=attempt)
            schedule.budgets(_case(name), SHARES)
            schedule.idle_bytes(name)


def _leave_out(name, missing):
    """Skips the family, or fails where every package has to be there."""
    reason = f"{name} needs {', '.join(missing)}, not installed for this interpreter"
    if "1" in (os.environ.get("REQUIRE_FAMILIES"), os.environ.get("REQUIRE_TORCH")):
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.mark.parametrize(
    ("variable", "verdict"),
    [
        (None, pytest.skip.Exception),
        ("REQUIRE_FAMILIES", pytest.fail.Exception),
        ("REQUIRE_TORCH", pytest.fail.Exception),
    ],
)
def test_absent_packages(monkeypatch, variable, verdict):
    for name in ("REQUIRE_FAMILIES", "REQUIRE_TORCH"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(importlib.util, "find_spec", lambda package: None)
    with pytest.raises(verdict, match="monai_unet needs monai, not installed"):
        test_family(None, "monai_unet")


def test_every_family_has_its_turn():
    seen = {name for day in range(TODAY, TODAY + 6) for name in _of_the_day(day)}
    assert seen == {family.name for family in catalog.FAMILIES}
    assert len(set(_of_the_day(TODAY))) == A_DAY


@pytest.mark.parametrize("name", FAMILIES)
def test_family(schedule, name):
    missing = _missing(name)
    if missing:
        _leave_out(name, missing)
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
