# SPDX-License-Identifier: Apache-2.0
"""The oracle's programs on the card: unmanaged twice, under fuzz, and on a share of their peak.

What differs between two unmanaged runs can't be compared, and is told. Of each program the first of
its optimizers.
"""

import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.oracle import catalog
from tests.oracle.compare import differences
from tests.oracle.launch import MIB, ChildFailedError, start
from tests.oracle.schedule import budget_for
from tests.standin import on_card

SHARE = 50
LIMIT = 100  # seconds
# Those the stand-in alone has no kernels for, or no compiler.
OF_THE_STAND_IN = ("compiled", "nested_strided", "quantised_tensors", "sparse_adam")


@dataclass
class Judged:
    name: str
    faults: list = field(default_factory=list)
    said: str = "equal"


def _train(name, **settings):
    variables = {f"SPILLWAY_{key.upper()}": str(value) for key, value in settings.items()}
    twice = [name] if settings else [name, name]
    with tempfile.TemporaryDirectory() as folder:
        if settings:
            variables |= {"SPILLWAY_SPOOL_DIR": folder, "SPILLWAY_HOST_BUDGET": "2GiB"}
        arguments = ["--device", "card", *twice]
        return start("tests.standin.train", arguments, variables, folder, timeout=LIMIT)


def _last_words(error):
    return " | ".join(str(error).splitlines()[-2:])


def _judge(name):
    judged = Judged(name)
    try:
        stock = _train(name).require_complete()
    except ChildFailedError as error:
        judged.said = f"does not train unmanaged: {_last_words(error)}"
        return judged
    expected, again = stock.report["runs"]
    if differences(expected, again):
        judged.said = "two unmanaged runs differ"
        return judged
    peak = max(run["card"]["large"] for run in stock.report["runs"])
    fuzzed = _compare(judged, expected, "fuzz", mode="fuzz", budget="cuda:8GiB")
    if fuzzed is not None:
        budget = budget_for(SHARE, peak, fuzzed.stats["peak_live_bytes"])
        budget += fuzzed.stats["unmanaged_bytes"]
        tight = _compare(judged, expected, f"{SHARE} %", budget=f"cuda:{budget}")
        if tight is not None and tight.stats["overshoot_bytes"]:
            over = tight.stats["overshoot_bytes"] / MIB
            judged.faults.append(f"{name} {SHARE} %: over by {over:.1f} MiB")
    return judged


def _compare(judged, expected, way, **settings):
    try:
        child = _train(judged.name, **settings).require_complete()
    except ChildFailedError as error:
        judged.faults.append(f"{judged.name} {way}: {_last_words(error)}")
        return None
    found = differences(expected, child.report["runs"][0])
    if found:
        judged.faults.append(f"{judged.name} {way}: other bits: {'; '.join(found[:3])}"[:200])
    if child.stats["undeclared_writes"]:
        judged.faults.append(f"{judged.name} {way}: undeclared writes")
    return child


def judged(at_once, quick):
    """Of a quick check every fifth."""
    names = [
        program.name
        for program in catalog.PROGRAMS
        if program.name not in on_card.CANNOT or program.name in OF_THE_STAND_IN
    ]
    with ThreadPoolExecutor(at_once) as pool:
        every = list(pool.map(_judge, names))
    faults = [fault for each in every for fault in each.faults]
    equal = [each.name for each in every if each.said == "equal" and not each.faults]
    others = [f"{each.name}: {each.said}"[:200] for each in every if each.said != "equal"]
    figures = [f"{len(equal)} of {len(names)} programs equal under fuzz and on {SHARE} %", *others]
    return {"faults": faults, "figures": figures, "outcomes": [each.name for each in every]}
