# SPDX-License-Identifier: Apache-2.0
"""The adapter's tables of operators agree with running them.

OPTABLES=sample   one tenth of the databases, which one rotates with the date (sample:K, the K-th)
OPTABLES=all      everything: the tables must be just what it shows
"""

import os

import pytest

from tests.oracle.op_tables.__main__ import (
    TABLES,
    find_composites,
    find_writes,
    kept_piece,
    minor,
)
from tests.oracle.op_tables.table import read, used_under
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
    """The facts that the adapter of this minor goes by."""
    return used_under(read(TABLES.read_text()), minor())


def test_undeclared_writes_are_listed(product, tmp_path):
    found, seen = find_writes(tmp_path, _share())
    listed = _listed().writes
    assert len(seen) > 100, "too few operators ran to say anything"
    missing = {name: bits for name, bits in found.items() if bits & ~listed.get(name, 0)}
    assert not missing, f"written, but neither by schema nor by table: {missing}"
    if CHOICE == "all":
        assert found == listed, "the table names writes that did not happen"


def test_listed_composites_are_safe(product, tmp_path):
    seen, unsafe = find_composites(tmp_path, _share())
    listed = _listed().composites
    wrong = sorted(listed & unsafe)
    assert not wrong, f"evicting inside these is not safe: {wrong}"
    assert len(seen) > 20, "too few composites ran to say anything"
    if CHOICE == "all":
        assert seen - unsafe == listed, "make the table anew"


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
