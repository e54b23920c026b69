# SPDX-License-Identifier: Apache-2.0
"""The table of operators that all minors share: what was written about each is what is read back.

made under   2.11 a b   2.12 a c   ->   a            ->   2.11 a b   2.12 a c
                                        b "2.11"
                                        c "2.12"
"""

import random

import pytest

from tests.oracle.op_tables.__main__ import ROOT, TABLES
from tests.oracle.op_tables.table import Facts, header_text, read, used_under

MINORS = ("2.9", "2.10", "2.11", "2.12")


def _drawn(generator):
    names = [f"aten::op_{index}" for index in range(12)]
    return {
        minor: Facts(
            {name: 1 << generator.randrange(3) for name in generator.sample(names, 4)},
            frozenset(generator.sample(names, 9)),
        )
        for minor in generator.sample(MINORS, generator.randint(1, len(MINORS)))
    }


@pytest.mark.parametrize("seed", range(50))
def test_what_is_written_is_read_back(seed):
    facts = _drawn(random.Random(seed))
    assert read(header_text(facts)) == facts


def test_rows_that_all_share_stand_once_and_name_no_minor():
    shared, old = Facts({"aten::a": 2}, frozenset({"aten::b"})), frozenset({"aten::b", "aten::old"})
    text = header_text({"2.10": shared, "2.9": Facts({"aten::a": 6}, old), "2.11": shared})
    assert [line.strip() for line in text.splitlines() if "aten::" in line] == [
        'UndeclaredWrite{"aten::a", 0x2, "2.10 2.11"},',
        'UndeclaredWrite{"aten::a", 0x6, "2.9"},',
        'SafeComposite{"aten::b"},',
        'SafeComposite{"aten::old", "2.9"},',
    ]


def test_a_minor_that_is_run_anew_changes_its_own_facts_alone():
    before = read(TABLES.read_text())
    changed = {**before, "2.12": Facts({}, before["2.12"].composites - {"aten::selu"})}
    after = read(header_text(changed))
    assert after.pop("2.12") != before.pop("2.12")
    assert after == before


def test_a_minor_that_was_never_run_has_the_writes_of_all_and_no_composites():
    facts = {"2.9": Facts({"aten::a": 1}, frozenset({"aten::c"})), "2.10": Facts({"aten::a": 2})}
    assert used_under(facts, "2.9") == facts["2.9"]
    assert used_under(facts, "2.11") == Facts({"aten::a": 3})


def test_the_table_that_is_checked_in():
    """It is as it would be written, and says something of each minor that can be built against."""
    text = TABLES.read_text()
    facts = read(text)
    assert header_text(facts) == text
    adapter = (ROOT / "scripts/cmake/frameworks.cmake").read_text()
    assert f"set(SPILLWAY_TORCH_MINORS {' '.join(facts)})" in adapter
    for minor, found in facts.items():
        assert len(found.composites) > 300 and "aten::native_batch_norm" in found.writes, minor
        assert ("aten::qr" in found.composites) == (minor in ("2.11", "2.12", "2.13"))
