# SPDX-License-Identifier: Apache-2.0
"""The search for the seeds' largest begins with what the page has."""

import importlib

import pytest


@pytest.fixture
def tables():
    return importlib.import_module("seed_tables")


class Kept:
    def __init__(self, rows):
        self._rows = {row[0]: row for row in rows}

    def row(self, name):
        return self._rows.get(name, ())


def test_what_was_found_before(tables):
    framework, limited = tables.FRAMEWORKS["tensorflow"], tables.Limited.TENSORS
    seed = tables.SEEDS["depth"]
    name = tables.name_of(framework, "depth", limited, "hybrid")
    kept = Kept(
        [(name, "a paper", "3.8", f"{seed.amount(16):,}", f"at least {seed.amount(300):,}")]
    )
    found = tables.found_before(kept, framework, "depth", limited)
    assert found == {"hybrid": (16, 300)}


@pytest.mark.parametrize("name", ["batch", "depth", "resolution", "experts", "sequence"])
def test_an_amount_is_of_one_value(tables, name):
    seed = tables.SEEDS[name]
    for value in range(seed.granule, 40 * seed.granule, seed.granule):
        assert seed.value_of(seed.amount(value)) == value
