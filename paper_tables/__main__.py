# SPDX-License-Identifier: Apache-2.0
"""Prints the tables: `python -m paper_tables [--papers Meng] [--json FILE]`."""

import argparse
import json
import pathlib
import sys

from spillway import UserError

from paper_tables import kept
from paper_tables.reach import Limits, Reach
from paper_tables.rows import ROWS, Row


def device_bytes(machine: str) -> int:
    """Capacity of the machine's device, from its file."""
    path = pathlib.Path(__file__).parent.parent / "machines" / f"{machine}.json"
    return json.loads(path.read_text(encoding="utf-8"))["device"]["capacity"]["bytes"]


def outcome(row: Row) -> dict:
    """The figures of one row."""
    recording = kept.of_row(row)
    reach = Reach(recording, Limits(row.machine, device_bytes(row.machine), row.host_bytes))
    result = {
        "paper": row.paper,
        "network": row.title,
        "grows": row.unit,
        "machine": row.machine,
        "planner": row.planner,
        "published_without": row.published_base,
        "published": row.published,
        "soft": row.soft,
        "remark": row.remark,
        "without": None,
    }
    if not recording.is_kept:
        return result
    result["without"] = reach.largest(reach.without, row.published_base or row.published)
    for name in (row.planner, "hybrid"):
        result[f"largest:{name}"] = reach.largest(
            lambda value, name=name: reach.plan(name, value) is not None, row.published
        )
        at_published = reach.plan(name, recording.nearest(row.published))
        if at_published:
            result[f"slowdown:{name}"] = at_published.slowdown
            if row.throughput is not None:
                samples = dict(row.sizes).get("batch", 1)
                result[f"throughput:{name}"] = samples * 1e9 / at_published.step_ns
                result["published_throughput"] = row.throughput
    return result


def line(result: dict) -> str:
    """A row of the Markdown table."""
    planner = result["planner"]

    def number(key: str, form: str = "{:,}") -> str:
        value = result.get(key)
        return "-" if value is None else form.format(value)

    def reached(name: str) -> str:
        slow = result.get(f"slowdown:{name}")
        return number(f"largest:{name}") + ("" if slow is None else f" ({slow:.2f}x)")

    mark = " *" if result["soft"] else ""
    return (
        f"| {result['paper']}{mark} | {result['network']} | {result['machine']} "
        f"| {number('published_without')} | {number('without')} | {number('published')} "
        f"| {reached(planner)} | {reached('hybrid')} |"
    )


HEAD = (
    "| paper | network | machine | without, paper | without, ours | with, paper "
    "| with, its planner here | with, hybrid |\n|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    parser = argparse.ArgumentParser(prog="paper_tables", description=__doc__)
    parser.add_argument("--papers", default="", help="only rows whose paper contains this")
    parser.add_argument("--json", help="also write the figures here")
    options = parser.parse_args()
    results = []
    print(HEAD)
    for row in ROWS:
        if options.papers.lower() not in row.paper.lower():
            continue
        try:
            results.append(outcome(row))
            print(line(results[-1]), flush=True)
        except UserError as error:
            print(f"{row.paper}, {row.title}: {error}", file=sys.stderr)
            return 2
    print("\nSizes are the largest that fit; in brackets the step time at the published size over")
    print("that of a device without limit. * second-hand figures; - no recording, or no plan")
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
