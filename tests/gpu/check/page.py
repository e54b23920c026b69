# SPDX-License-Identifier: Apache-2.0
"""Writes what the check found as a page:

    python -m tests.gpu.check.page gpu-check.json [MORE.json...] > docs/gpu/CARD-DATE.md

Of a part that is in several files the last one counts; the page says which date each is of.
"""

import argparse
import json
import sys
from pathlib import Path

from tests.gpu.check.children import Outcome
from tests.gpu.check.parts import step_rows

GIB = 1 << 30
TITLES = {
    "gate": "May memory be mapped beside running kernels?",
    "functions": "PyTorch's functions, graphs, compiled work, and how the hook rests",
    "bits": "Equal bits within budgets",
    "streams": "Kernels of random length on three streams",
    "hook": "What the hook costs",
    "gpt2_medium": "A step of GPT-2 medium",
    "resnet50": "A step of ResNet-50",
    "unet3d": "A step of a 3D U-Net",
    "programs": "The oracle's programs",
}

BESIDE = {  # the gate's names; the last three it asks since after it first ran on a card
    "idle": "nothing",
    "beside_kernels": "kernels",
    "beside_copies_out": "copies out",
    "beside_copies_in": "copies in",
    "beside_a_thread_that_maps": "a thread that maps",
}


def rows_of(rows):
    head, *body = rows
    return [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *body)]


def gate(part):
    """Medians of the calls by size, and what was seen beside kernels."""
    found = part["gate"]
    calls = ("create", "map", "allow_access", "unmap", "release")
    rows = [("MiB", "beside", *calls)]
    for name, beside in BESIDE.items():
        rows += [
            (str(size["mib"]), beside, *(f"{size[call]['median_us']:.0f} µs" for call in calls))
            for size in found.get(name, ())
        ]
    kernels, copies, one = (
        found[name] for name in ("kernels_of_100_us", "copies_out", "beside_a_kernel_of_50_ms")
    )
    return [
        *rows_of(rows),
        "",
        f"{kernels['count']} kernels of 100 µs took "
        f"{kernels['beside_mapping_us'] / kernels['alone_us']:.3f} of their time alone while "
        f"{kernels['mapped_and_unmapped']} blocks were mapped and unmapped; the 99th percentile of "
        f"launches was {kernels['launch_p99_us'][1]:.1f} µs ({kernels['launch_p99_us'][0]:.1f} "
        f"alone). Copies out ran at {copies['beside_mapping_gb_per_s']:.1f} GB/s "
        f"({copies['alone_gb_per_s']:.1f} alone). Beside a kernel of 50 ms a block was mapped in "
        f"{one['create_map_allow_us']:.0f} µs. **Verdict**: memory is "
        f"{'mapped so' if found['verdict']['maps_memory_itself'] else 'not to be mapped so'}.",
        *ranges_and_events(found),
    ]


def ranges_and_events(found):
    """Which the gate asks since after it first ran on a card."""
    if "events" not in found:
        return []
    rows = [("handles of 2 MiB in a range", "map all", "allow_access", "unmap", "at once")]
    rows += [
        (
            str(each["handles"]),
            *(f"{each[call]:.0f} µs" for call in ("map_all_us", "allow_access_us", "unmap_us")),
            "yes" if each["unmapped_at_once"] else "no",
        )
        for each in found["handles_in_a_range"]
    ]
    events = ", ".join(
        f"{name.removesuffix('_us').replace('_', ' ')} {took:.2f} µs"
        for name, took in found["events"].items()
        if name.endswith("_us")
    )
    return ["", *rows_of(rows), "", f"Events: {events}."]


def outcomes_of(part):
    return [Outcome(**each) for each in part["outcomes"]]


def table_of_steps(part):
    return rows_of(step_rows(outcomes_of(part)))


TABLES = {
    "gate": gate,
    "gpt2_medium": table_of_steps,
    "resnet50": table_of_steps,
    "unet3d": table_of_steps,
}


def section(name, part, here):
    lines = [f"## {TITLES[name]}", ""]
    if name in TABLES:
        lines += TABLES[name](part)
    else:
        lines += [line for line in part["figures"] if not line.startswith("## ")]
        count = len(part["outcomes"])
        if count:
            lines.append(f"{count} runs of programs, {len(part['faults'])} faults.")
    lines += [f"- fault: {fault}" for fault in part["faults"]]
    return [*lines, "", f"`{name}`, {here['date']}, {part['seconds']:.0f} s.", ""]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+", type=Path)
    options = parser.parse_args()
    parts, here = {}, None
    for file in options.files:
        found = json.loads(file.read_text())
        here = found["here"]
        parts |= {name: (part, here) for name, part in found["parts"].items()}
    print("<!-- SPDX-License-Identifier: Apache-2.0 -->")
    print(f"# The check on one {here['card']}\n")
    print(
        f"{here['bytes'] / GIB:.0f} GiB, PyTorch {here['pytorch']}, Python {here['python']}. "
        "Written by `tests/gpu/check/page.py` ([how](README.md#the-check)).\n"
    )
    for name in TITLES:
        if name in parts:
            print("\n".join(section(name, *parts[name])))
    return 0


if __name__ == "__main__":
    sys.exit(main())
