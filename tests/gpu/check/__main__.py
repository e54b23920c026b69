# SPDX-License-Identifier: Apache-2.0
"""Asks a card whether a budget of its memory holds there, and what it costs:

    python -m tests.gpu.check [PART...] [--json FILE] [--seconds N]

Runs the parts in their order (all by default), writes what was found after each, and begins no part
once the seconds are over. Ends with 1 if a part found a fault, with 0 and the reason where there is
no card.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from tests.gpu.check import parts


def what_is_here():
    import torch

    if not torch.cuda.is_available():
        return None
    card = torch.cuda.get_device_properties(0)
    return {
        "card": card.name,
        "bytes": card.total_memory,
        "pytorch": torch.__version__,
        "python": sys.version.split()[0],
        "date": time.strftime("%Y-%m-%d"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(parts.ALL))
    parser.add_argument("--json", type=Path, default=Path("gpu-check.json"))
    parser.add_argument("--seconds", type=float, default=460)
    parser.add_argument("--quick", action="store_true", help="fewer cases of bits and programs")
    parser.add_argument("--gate", type=Path, help="spillway_card_gate")
    options = parser.parse_args()
    if unknown := [name for name in options.parts if name not in parts.ALL]:
        parser.error(f"unknown part {unknown[0]}; there are: {', '.join(parts.ALL)}")
    here = what_is_here()
    if here is None:
        print("SKIPPED: PyTorch sees no graphics card here")
        return 0
    begin = time.monotonic()
    found = {"here": here, "parts": {}}
    for name in options.parts or parts.ALL:
        left = options.seconds - (time.monotonic() - begin)
        if left <= 0:
            print(f"{name}: NOT RUN, the {options.seconds:.0f} s are over", flush=True)
            continue
        started = time.monotonic()
        part = parts.ALL[name](options)
        part["seconds"] = round(time.monotonic() - started, 1)
        found["parts"][name] = part
        options.json.write_text(json.dumps(found, indent=1))
        print(f"{name}: {part['seconds']} s, {len(part['faults'])} faults", flush=True)
        for line in [*part["faults"], *part.get("figures", [])]:
            print(f"  {line}", flush=True)
    return int(any(part["faults"] for part in found["parts"].values()))


if __name__ == "__main__":
    sys.exit(main())
