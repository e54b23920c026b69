# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the oracle's catalog on the stand-in card, and writes what they computed.

python tests/standin/run.py -m tests.standin.train NAME[:OPTIMIZER]... [-o FILE]
python -m tests.standin.train --device card NAME[:OPTIMIZER]...     on a real one

The programs name no device: what they make without one is made on the card.
"""

import argparse
import dataclasses
import sys
import warnings

import torch

from tests.gpu.device import train_the_same_every_time
from tests.oracle import catalog
from tests.oracle import run as oracle_run
from tests.standin import true_values


def figures(driver):
    """Of the card's memory, in bytes: what PyTorch says, and what `driver()` does."""
    stats = torch.cuda.memory_stats()
    return {
        "large": stats["allocated_bytes.large_pool.peak"],
        "small_reserved": stats["reserved_bytes.small_pool.peak"],
        "driver": driver(),
    }


def prepare(device):
    """Returns how the driver is asked for the most it has given; a real one is asked elsewhere."""
    if device == "card":
        train_the_same_every_time()
        return lambda: None
    true_values.install()
    return true_values.card_peak_bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="NAME or NAME:OPTIMIZER")
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--device", choices=("stand-in", "card"), default="stand-in")
    parser.add_argument("-o", "--output")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    driver = prepare(options.device)
    torch.set_default_device("cuda")
    report = {"runs": [], "running": None, "complete": False}
    for spelled in options.names:
        name, _, optimizer = spelled.partition(":")
        # One thread: a stream is worked off by another than the program's, with its own count.
        program = dataclasses.replace(catalog.find(name), threads=1)
        optimizer = optimizer or program.optimizers[0]
        report["running"] = [name, optimizer]
        oracle_run.write(options.output, report)
        run = oracle_run.run_one(program, optimizer, options.size)
        torch.cuda.synchronize()
        card = figures(driver)
        if card["large"] == 0:
            raise RuntimeError(f"{name} makes no tensor of more than 1 MiB: none is managed")
        report["runs"].append(run | {"card": card})
        report["running"] = None
    report["complete"] = True
    oracle_run.write(options.output, report)
    if options.output is None:
        print(report)


if __name__ == "__main__":
    sys.exit(main())
