# SPDX-License-Identifier: Apache-2.0
"""The adapter's tables of operators agree with running them.

OPTABLES=sample   one tenth of the databases, which one rotates with the date (sample:K, the K-th)
OPTABLES=all      everything: the tables must be just what it shows
"""

import os
import re

import pytest

from tests.oracle.op_tables.__main__ import (
    find_composites,
    find_writes,
    kept_piece,
    path_of_tables_in_use,
)
from tests.oracle.turns import TODAY

pytest.importorskip("expecttest", reason="torch's operator database needs expecttest")

TENTHS = 10
CHOICE = os.environ.get("OPTABLES", "sample")


def _share():
    if CHOICE == "all":
        return [0, 1]
    word, _, index = CHOICE.partition(":")
    if word != "sample" or (index and not index.isdigit()):
        raise pytest.UsageError(f"OPTABLES={CHOICE!r}: expected all, sample or sample:K")
    return [(int(index) if index else TODAY) % TENTHS, TENTHS]


def _listed():
    """(undeclared writes, safe composites) of the table that is checked in."""
    text = path_of_tables_in_use().read_text()
    writes = re.findall(r'UndeclaredWrite\{"([^"]+)", (0x[0-9a-f]+)\}', text)
    composites = re.findall(r'^    "([^"]+)",$', text, re.MULTILINE)
    assert composites == sorted(composites), "it is searched by halving"
    return {name: int(bits, 16) for name, bits in writes}, composites


def test_undeclared_writes_are_listed(product, tmp_path):
    found, seen = find_writes(tmp_path, _share())
    listed, _ = _listed()
    assert len(seen) > 100, "too few operators ran to say anything"
    missing = {name: bits for name, bits in found.items() if bits & ~listed.get(name, 0)}
    assert not missing, f"written, but neither by schema nor by table: {missing}"
    if CHOICE == "all":
        assert found == listed, "the table names writes that did not happen"


def test_listed_composites_are_safe(product, tmp_path):
    seen, unsafe = find_composites(tmp_path, _share())
    _, listed = _listed()
    wrong = sorted(set(listed) & unsafe)
    assert not wrong, f"evicting inside these is not safe: {wrong}"
    assert len(seen) > 20, "too few composites ran to say anything"
    if CHOICE == "all":
        assert sorted(seen - unsafe) == listed, "make the table anew"


def test_a_finished_piece_is_not_run_again(tmp_path):
    found = []

    def find():
        found.append(True)
        return {"aten::native_batch_norm": 0x18}

    for _ in range(2):
        kept = kept_piece(tmp_path, "writes", [0, 2], find)
        assert kept == {"aten::native_batch_norm": 0x18}
    assert len(found) == 1
    kept_piece(tmp_path, "writes", [1, 2], find)
    assert len(found) == 2
