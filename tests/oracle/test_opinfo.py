# SPDX-License-Identifier: Apache-2.0
"""Every operator of torch's test database, unmanaged against fuzz, bit for bit.

OPINFO=day        two of ten parts, in turn (default)
OPINFO=all        every operator
OPINFO=part:K     one part, K from 0 to 9
"""

import json
import os
import re

import pytest

from tests.oracle import judge
from tests.oracle.launch import start
from tests.oracle.opinfo_exceptions import EXCEPTIONS, Reason
from tests.oracle.turns import of_the_day

pytest.importorskip("expecttest", reason="torch's operator database needs expecttest")

TENTHS = 10
A_DAY = 2
CHOICE = os.environ.get("OPINFO", "day")


def _tenths():
    if CHOICE == "all":
        return list(range(TENTHS))
    if CHOICE == "day":
        return of_the_day(range(TENTHS), A_DAY)
    word, _, index = CHOICE.partition(":")
    if word != "part" or index not in map(str, range(TENTHS)):
        raise pytest.UsageError(f"OPINFO={CHOICE!r}: expected day, all, or part:K, K from 0 to 9")
    return [int(index)]


def _operator(case_name):
    """`new_empty:int64` -> `new_empty`; exceptions hold for all types of an operator."""
    return case_name.partition(":")[0]


def _run(arguments, folder):
    """Spillway is turned on and off inside the process, so its variables stay unset."""
    return start("tests.oracle.opinfo", arguments, {}, folder, timeout=3600)


def _run_share(share, folder):
    """All operators of a share. One that ends the process is noted, and the others go on."""
    crashed, merged = [], {"cases": [], "different": {}, "unrepeatable": {}, "moved_bytes": 0}
    while True:
        done = ",".join(merged["cases"] + crashed)
        child = _run(["--share", share, *(["--skip", done] if done else [])], folder)
        merged["cases"] += child.report.get("cases", [])
        merged["moved_bytes"] += child.report.get("moved_bytes", 0)
        merged["means"] = child.report.get("means")
        for kind in ("different", "unrepeatable"):
            merged[kind] |= child.report.get(kind, {})
        if child.report.get("complete"):
            return merged, crashed
        running = child.report.get("running")
        if running is None:
            child.require_complete()
        crashed.append(running)


@pytest.mark.parametrize("tenth", _tenths())
def test_operators(product, tmp_path, tenth):
    report, crashed = _run_share(f"{tenth}/{TENTHS}", tmp_path)
    assert len(report["cases"]) + len(crashed) > 50, "the database is larger than that"
    unlisted = {
        name: variants
        for name, variants in (report["different"] | report["unrepeatable"]).items()
        if _operator(name) not in EXCEPTIONS
    }
    assert report["moved_bytes"] > 0, "fuzz moved nothing, so nothing was tested"
    assert not crashed, f"ended the process: {crashed}"
    judge.used_what_is_there(report["means"])
    assert not unlisted, (
        f"{len(unlisted)} operators differ (tenth {tenth}): {json.dumps(unlisted, indent=1)}\n"
        f"  to repeat: python -m tests.oracle.opinfo --only '^{next(iter(unlisted))}$'"
    )


def test_exceptions_are_few_and_have_reasons(product, tmp_path):
    assert all(isinstance(reason, Reason) for reason in EXCEPTIONS.values())
    child = _run(["--count"], tmp_path).require_complete()
    known = {_operator(name) for name in child.report["known"]}
    strangers = sorted(EXCEPTIONS.keys() - known)
    assert not strangers, f"listed, but not in torch's database: {strangers}"
    assert len(EXCEPTIONS) <= len(known) // 100


def test_each_exception_still_differs(product, tmp_path):
    """An entry whose operator has become repeatable hides what could be tested."""
    stale = []
    for reason, flags in (
        (Reason.NONDETERMINISTIC, []),
        (Reason.UNINITIALISED, ["--uninitialised"]),
    ):
        listed = sorted(name for name, why in EXCEPTIONS.items() if why is reason)
        if listed:
            pattern = "|".join(f"^{re.escape(name)}:" for name in listed)
            child = _run(["--only", pattern, *flags], tmp_path).require_complete()
            differing = {_operator(name) for name in child.report["unrepeatable"]}
            stale += sorted(set(listed) - differing)
    assert not stale, f"equal now, so they must leave opinfo_exceptions.py: {stale}"
