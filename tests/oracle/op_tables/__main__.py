# SPDX-License-Identifier: Apache-2.0
"""Makes, writes and compares the tables. See the package."""

import argparse
import json
import os
import sys
import tempfile
import warnings
from pathlib import Path

from tests.oracle.op_tables.table import Facts, header_text, read

ROOT = Path(__file__).resolve().parents[3]
TABLES = ROOT / "adapters/torch/generated/op_tables.hpp"


def minor():
    import torch

    return ".".join(torch.__version__.split(".")[:2])


def _work(options):
    """In a child: runs the cases, keeping a file from which a crash can be told."""
    import torch

    from tests.oracle.op_tables import composites, corpus, writes

    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    given = json.loads(Path(options.work).read_text())
    index, count = given["share"]
    skipped = set(given["skip"])
    cases = [c for c in corpus.cases()[index::count] if c.name not in skipped]
    if given["only"]:
        cases = [c for c in cases if c.name == given["only"]]
    done = []

    def progress(name, seen=(), unsafe=()):
        report = {"running": name, "done": done, "seen": list(seen), "unsafe": list(unsafe)}
        _write(options.output, report)
        done.append(name)

    if given["kind"] == "writes":
        result = writes.run(cases, progress)
    else:
        result = composites.run(cases, given["unsafe"], progress)
    _write(options.output, {"running": None, "complete": True, **result})


def _write(path, report):
    temporary = f"{path}.partial"
    Path(temporary).write_text(json.dumps(report))
    os.replace(temporary, path)


def _child(kind, folder, share, skip=(), unsafe=(), only=None):
    from tests.oracle.launch import start

    given = {"kind": kind, "share": share, "skip": list(skip), "unsafe": list(unsafe)}
    order = Path(folder) / "work.json"
    order.write_text(json.dumps({**given, "only": only}))
    return start("tests.oracle.op_tables", ["--work", str(order)], {}, folder, timeout=7200)


def find_writes(folder, share):
    """{name: arguments} of undeclared writes, and the names of all operators that ran."""
    report = _child("writes", folder, share).require_complete().report
    return report["writes"], set(report["seen"])


def _crashing(folder, share, name, unsafe):
    """The composites that end the process in this case, each found by halving those allowed."""
    from tests.oracle.op_tables.composites import candidates

    everything = [c for c in candidates() if c not in unsafe]
    suspects = everything
    while len(suspects) > 1:
        half = suspects[: len(suspects) // 2]
        frames = [c for c in everything if c not in half]
        child = _child("composites", folder, share, unsafe=[*unsafe, *frames], only=name)
        suspects = half if not child.report.get("complete") else suspects[len(half) :]
    return suspects


def find_composites(folder, share, unsafe=()):
    """(names that called others, names that must stay frames)."""
    skip, seen, unsafe, crashed = [], set(), set(unsafe), set()
    while True:
        child = _child("composites", folder, share, skip, unsafe)
        seen |= set(child.report.get("seen", ()))
        unsafe |= set(child.report.get("unsafe", ()))
        if child.report.get("complete"):
            return seen, unsafe
        running = child.report.get("running")
        if running is None:
            child.require_complete()
        print(f"{running} ended the process", file=sys.stderr, flush=True)
        skip += child.report["done"]
        if running in crashed:
            skip.append(running)
            continue
        crashed.add(running)  # once more, with its composite a frame
        unsafe |= set(_crashing(folder, share, running, sorted(unsafe)))


def kept_piece(folder, kind, share, find):
    """`find`'s findings for one share of the cases: those that the folder keeps, else made now."""
    index, count = share
    kept = Path(folder) / f"torch-{minor()}-{kind}-{index}-of-{count}.json"
    if not kept.exists():
        _write(kept, find())
        print(kept.name, file=sys.stderr, flush=True)
    return json.loads(kept.read_text())


def find_all(folder, pieces):
    """({name: arguments} of undeclared writes, safe composites, those that must stay frames).

    What a piece showed is kept in the folder: a run that was cut short goes on where it was.
    """
    written, seen, unsafe = {}, set(), set()

    def frames(share):
        return [sorted(names) for names in find_composites(folder, share, unsafe)]

    for share in ([index, pieces] for index in range(pieces)):
        found = kept_piece(folder, "writes", share, lambda s=share: find_writes(folder, s)[0])
        for name, bits in found.items():
            written[name] = written.get(name, 0) | bits
        called, kept = kept_piece(folder, "composites", share, lambda s=share: frames(s))
        seen |= set(called)
        unsafe |= set(kept)
    return written, seen - unsafe, unsafe


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.op_tables")
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument(
        "--pieces", type=int, default=40, metavar="N", help="shares that are run and kept apart"
    )
    parser.add_argument("--folder", help="keeps what finished pieces showed, for a later run")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.work:
        return _work(options)
    with tempfile.TemporaryDirectory() as scratch:
        writes, composites, unsafe = find_all(options.folder or scratch, options.pieces)
    print(f"must stay frames: {', '.join(sorted(unsafe)) or 'none'}")
    before = TABLES.read_text()
    text = header_text({**read(before), minor(): Facts(writes, frozenset(composites))})
    if options.check:
        return int(text != before)
    TABLES.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
