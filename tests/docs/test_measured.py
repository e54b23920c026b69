# SPDX-License-Identifier: Apache-2.0
"""The figures in the text of pages are those of the tables."""

import re
import statistics
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent.parent / "docs"


def steps_of_roofline():
    """The last column of the table of networks."""
    text = (DOCS / "gpu" / "measured.md").read_text(encoding="utf-8")
    table = text[text.index("<!-- prediction: begin -->") : text.index("<!-- prediction: end -->")]
    return [float(n) for n in re.findall(r"ms \| (\d+\.\d+) \|$", table, re.MULTILINE)]


@pytest.mark.parametrize("page", ["gpu/README.md", "recording.md"])
def test_how_far_steps_are_from_the_roofline(page):
    found = steps_of_roofline()
    assert len(found) == 10
    text = re.sub(r"\s+", " ", (DOCS / page).read_text(encoding="utf-8"))
    assert f"{min(found):.2f} to {max(found):.2f} of" in text
    assert f"{statistics.median(found):.1f} in the median" in text


def test_how_many_published_sizes_come_out_otherwise():
    text = (DOCS / "paper-tables.md").read_text(encoding="utf-8")
    table = text[text.index("<!-- sizes: begin -->") : text.index("<!-- sizes: end -->")]
    rows = [line for line in table.splitlines() if re.match(r"\| (?!paper \|)\w", line)]
    off = [row for row in rows if "†" in row]
    assert len(rows) == 28
    lineage = re.sub(r"\s+", " ", (DOCS / "lineage.md").read_text(encoding="utf-8"))
    assert f"{len(off)} of the {len(rows)} in" in lineage
    for row in off:  # "all of them larger"
        cells = [cell.strip() for cell in row.strip("|").split("|")]
        published, ours = (int(re.sub(r"\D", "", cells[at])) for at in (5, 6))
        assert ours > published, row
