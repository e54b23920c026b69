# SPDX-License-Identifier: Apache-2.0
"""A table that is measured row by row keeps the rows that a run does not measure."""

import datetime

import pytest

from benchmarks import dated_table

TODAY = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
PAGE = """\
# A page

<!-- key: begin -->
| name | time | measured |
|---|---|---|
| one | 5 | 2026-01-02, load 0.1, machine 1 |
| three | 7 | 2026-01-03, load 0.1, machine 2 |
<!-- key: end -->

## Machines

1. First machine.
2. Second machine.
"""


@pytest.fixture
def opened(tmp_path, monkeypatch):
    """Opens the page's table on a machine."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)

    def open_on(machine, heads=("name", "time")):
        monkeypatch.setattr(dated_table, "machine", lambda *_: machine)
        names = ("one", "two", "three")
        return page, dated_table.DatedTable(page, "key", "How long?", heads, names, "framework")

    return open_on


def rows(page):
    return [line for line in page.read_text().splitlines() if line.startswith("| ")][1:]


def test_a_row_takes_its_place_and_the_others_stay(opened):
    page, table = opened("Second machine.")
    table.put(("two", "6"))
    assert [row.split(" | ")[0] for row in rows(page)] == ["| one", "| two", "| three"]
    assert rows(page)[0] == "| one | 5 | 2026-01-02, load 0.1, machine 1 |"
    assert f"| two | 6 | {TODAY}, load" in rows(page)[1]
    assert rows(page)[1].endswith("machine 2 |")


def test_a_row_replaces_the_one_of_its_name(opened):
    page, table = opened("Third machine.")
    table.put(("one", "4"))
    assert len(rows(page)) == 2
    assert rows(page)[0].startswith(f"| one | 4 | {TODAY}")
    assert "3. Third machine." in page.read_text()


def test_what_was_measured_here_since_a_day_is_known(opened):
    _, table = opened("First machine.")
    assert table.is_measured("one", "2026-01-02")
    assert not table.is_measured("one", "2026-01-03")
    assert not table.is_measured("two", "2026-01-01")
    assert not table.is_measured("three", "2026-01-01"), "elsewhere"
    table.put(("two", "6"))
    assert table.is_measured("two", TODAY)


def test_rows_of_another_table_are_not_kept(opened):
    page, table = opened("First machine.", ("name", "space"))
    table.put(("two", "6"))
    assert len(rows(page)) == 1
