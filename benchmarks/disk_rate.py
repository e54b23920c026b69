# SPDX-License-Identifier: Apache-2.0
"""How fast a directory takes and gives bytes: direct I/O, 4 MiB a time, eight at once.

Measured by fio where it is installed, else by eight threads here.
"""

import json
import mmap
import os
import shutil
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

BLOCK = 4 << 20
DEPTH = 8
# Environment of fio. A request to a disk takes some 250 pieces of memory, so one of 4 MiB in pages
# of 4 KiB becomes several, and on a virtual disk costs a multiple. Spillway's memory is huge pages.
HUGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}
SMALL_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=0"}


@dataclass(frozen=True)
class Rates:
    """Bytes per second, and what measured them."""

    write: float
    read: float
    method: str

    def seconds(self, written, read):
        """The least time for these bytes, one after the other."""
        return written / self.write + read / self.read


def measure(directory, total):
    """Writes and then reads a file of `total` bytes; OSError where direct I/O does not work."""
    total = max(total // (BLOCK * DEPTH), 1) * BLOCK * DEPTH
    with tempfile.NamedTemporaryFile(dir=directory, prefix="spillway-bench-") as file:
        for engine in ("io_uring", "libaio") if shutil.which("fio") else ():
            # The write fills the whole file first: reading space that is only reserved costs
            # nothing and would say so.
            speeds = [fio(file.name, direction, total, engine) for direction in ("write", "read")]
            if all(speeds):
                return Rates(*speeds, f"fio, {engine}")
        return Rates(
            threads(file.name, os.O_WRONLY, total),
            threads(file.name, os.O_RDONLY, total),
            "threads",
        )


def fio(path, direction, total, engine):
    """Bytes per second, or 0 if fio fails, as where a container forbids io_uring."""
    job = fio_job(path, direction, total, engine)
    return job[direction]["bw_bytes"] if job else 0


def fio_job(path, pattern, total, engine, *options, pages=HUGE_PAGES):
    """Returns fio's figures of a job, or nothing if it fails. `pages` are those of its buffers."""
    command = [
        "fio", "--name=rate", f"--filename={path}", f"--rw={pattern}", f"--size={total}",
        f"--bs={BLOCK}", f"--iodepth={DEPTH}", f"--ioengine={engine}", "--direct=1",
        "--output-format=json", *options,
    ]  # fmt: skip
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **pages}
    )
    try:
        return json.loads(done.stdout)["jobs"][0]
    except (ValueError, KeyError, IndexError):
        return None


def threads(path, flags, total):
    noise = os.urandom(BLOCK)  # lest the disk compress it
    descriptor = os.open(path, flags | os.O_DIRECT)
    try:

        def share(index):
            # Anonymous maps begin at a page, as direct I/O wants it.
            with mmap.mmap(-1, BLOCK) as block:
                block.write(noise)
                for offset in range(index * BLOCK, total, DEPTH * BLOCK):
                    move = os.pwritev if flags == os.O_WRONLY else os.preadv
                    if move(descriptor, [block], offset) != BLOCK:
                        raise OSError(f"short transfer in {path}")

        begin = time.monotonic()
        with ThreadPoolExecutor(DEPTH) as pool:
            list(pool.map(share, range(DEPTH)))
        return total / (time.monotonic() - begin)
    finally:
        os.close(descriptor)
