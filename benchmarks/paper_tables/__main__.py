# SPDX-License-Identifier: Apache-2.0
"""Prints the tables.

python -m benchmarks.paper_tables [--papers Meng] [--json FILE] [--page FILE]
"""

import argparse
import dataclasses
import json
import pathlib
import re
import sys
from collections.abc import Sequence
from typing import TypeVar

from spillway import UserError

from . import kept, outcome, tables
from .rows import MEMORY_ROWS, ROWS, MemoryRow, Row

AnyRow = TypeVar("AnyRow", Row, MemoryRow)


def progress(text: str) -> None:
    """Shows the work in progress on one line of a terminal."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:78]}", end="", file=sys.stderr, flush=True)


def chosen(rows: Sequence[AnyRow], papers: str) -> list[AnyRow]:
    """Those of the papers asked for whose recordings are kept; says which are not."""
    found = []
    for row in rows:
        if papers.lower() not in row.paper.lower():
            continue
        if kept.of_row(row).is_kept:
            found.append(row)
        else:
            print(f"{row.paper}, {row.title}: no recording is kept", file=sys.stderr)
    return found


def sections(papers: str) -> dict[str, list]:
    """All figures, by the table that they belong to."""
    found: dict[str, list] = {"sizes": [], "speeds": [], "memory": []}
    for row in chosen(ROWS, papers):
        sizes, speeds = outcome.of_row(row, progress)
        found["sizes"].append(sizes)
        found["speeds"] += speeds
    for row in chosen(MEMORY_ROWS, papers):
        found["memory"].append(outcome.of_memory_row(row, progress))
    progress("")
    return found


_TABLES = {
    "sizes": tables.size_table,
    "speeds": tables.speed_table,
    "memory": tables.memory_table,
}


def write_between_markers(page: pathlib.Path, name: str, text: str) -> None:
    """Puts the text where the page has `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    pattern = re.compile(f"(<!-- {name}: begin -->\n).*?(<!-- {name}: end -->)", re.DOTALL)
    old = page.read_text(encoding="utf-8")
    new, count = pattern.subn(lambda match: f"{match[1]}{text}\n{match[2]}", old)
    if count != 1:
        raise UserError(f"{page} has no place for {name}")
    page.write_text(new, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(prog="paper_tables", description=__doc__)
    parser.add_argument("--papers", default="", help="only rows whose paper contains this")
    parser.add_argument("--json", help="also write the figures here")
    parser.add_argument("--page", help="also put the tables into this page")
    options = parser.parse_args()
    short = False
    try:
        found = sections(options.papers)
        for name, table in _TABLES.items():
            if found[name]:
                text = table(found[name])
                short = short or tables.SHORT in text
                print(f"{text}\n", flush=True)
                if options.page:
                    write_between_markers(pathlib.Path(options.page), name, text)
    except UserError as error:
        print(f"paper_tables: {error}", file=sys.stderr)
        return 2
    print(f"* second-hand figures; † more than {tables.TOLERANCE:.0%} off what was published;")
    print(f"{tables.SHORT} hybrid below what was published, or slower than the paper's planner.")
    if options.json:
        figures = {
            name: [dataclasses.asdict(each) for each in rows] for name, rows in found.items()
        }
        pathlib.Path(options.json).write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if short else 0


if __name__ == "__main__":
    sys.exit(main())
