# SPDX-License-Identifier: Apache-2.0
"""Runs programs of the catalog and writes what they computed, digested.

    python -m tests.oracle.run NAME[:OPTIMIZER]... [--optimizer sgd]... [--size full|tiny] [-o FILE]

Several programs may share one process, since importing torch costs more than most of them. Each
starts from the same seeds and settings whatever ran before it. The file is rewritten after every
run, so a crash still tells which one it was ("running").
"""

import argparse
import contextlib
import gc
import importlib
import json
import os
import random
import resource
import sys
import time
import warnings

import numpy
import torch

from tests.oracle import catalog
from tests.oracle.digests import digest_result

SEED = 20240229


def reset(threads):
    """The state every run starts from."""
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)
    torch.set_num_threads(threads)
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is not None:
        dynamo.reset()
    gc.collect()


def vm_hwm_bytes():
    """High-water mark of this process's resident set."""
    with contextlib.suppress(OSError), open("/proc/self/status", encoding="ascii") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def run_one(program, optimizer, size):
    """Runs one program and digests its result, which dies before this returns."""
    module = importlib.import_module(program.module)
    reset(program.threads)
    started = time.monotonic()
    result = module.run(optimizer, size)
    digested = digest_result(result)
    return {
        "program": program.name,
        "optimizer": optimizer,
        "size": size,
        "seconds": round(time.monotonic() - started, 3),
        **digested,
    }


def write(path, report):
    if path is None:
        return
    report["vm_hwm_bytes"] = vm_hwm_bytes()
    temporary = f"{path}.partial"
    with open(temporary, "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(temporary, path)


def _selection(names, optimizers):
    for spelled in names:
        name, _, own = spelled.partition(":")
        program = catalog.find(name)
        for optimizer in [own] if own else optimizers or program.optimizers[:1]:
            for one in program.optimizers if optimizer == "all" else [optimizer]:
                yield program, one


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="NAME or NAME:OPTIMIZER")
    parser.add_argument("--optimizer", action="append", help="sgd, adam_foreach, adamw_fused, all")
    parser.add_argument("--size", choices=("full", "tiny"), default="full")
    parser.add_argument("--import-only", metavar="NAME", help="import this program, run nothing")
    parser.add_argument("-o", "--output")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    report = {"runs": [], "running": None, "complete": False}
    if options.import_only:
        program = catalog.find(options.import_only)
        for module in (program.module, *program.loads):
            importlib.import_module(module)
    for program, optimizer in _selection(options.names, options.optimizer):
        report["running"] = [program.name, optimizer]
        write(options.output, report)
        report["runs"].append(run_one(program, optimizer, options.size))
        report["running"] = None
        write(options.output, report)
    report["complete"] = True
    write(options.output, report)
    if options.output is None:
        json.dump(report, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
