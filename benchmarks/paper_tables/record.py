# SPDX-License-Identifier: Apache-2.0
"""Records the papers' networks without memory.

    python -m benchmarks.paper_tables.record [NAME...]

Without a name those are recorded that are missing.

What grows affinely is recorded at two values, and a third checks that the two tell every other.
What changes the network itself (layers, experts, time steps) is recorded at every value that the
tables ask for.
"""

import pathlib
import sys
import tempfile

from .affine import AffineTrace
from .kept import FOLDER, Recording, read_trace, recordings

# A file in a repository is read often and written once: the slowest level that needs no
# more memory to read. It is a third smaller than what the recorder itself writes.
_LEVEL = 19


def take(recording: Recording, value: int, path: pathlib.Path) -> None:
    """Records the network at one size."""
    import zstandard

    import spillway

    from . import networks

    sizes = {**dict(recording.sizes), recording.grows: value}
    step = spillway.record_step(lambda: networks.build(recording.network, **sizes))
    with tempfile.TemporaryDirectory() as folder:
        plain = pathlib.Path(folder, "step.json")
        step.save(plain)
        path.write_bytes(zstandard.compress(plain.read_bytes(), _LEVEL))
    print(
        f"{path.name}: {step.ops} ops, peak {step.peak_bytes / 2**30:.2f} GiB, "
        f"{path.stat().st_size / 1024:.0f} KiB",
        flush=True,
    )


def record(recording: Recording, anew: bool) -> None:
    """Writes the files of one recording, those that exist only if `anew`.

    Raises:
        NotAffineError: sizes do not grow affinely.
    """
    FOLDER.mkdir(exist_ok=True)
    for value in recording.values:
        if anew or not recording.path(value).exists():
            take(recording, value, recording.path(value))
    if recording.third is None:
        return
    low, high = recording.values
    affine = AffineTrace(
        recording.measure(low),
        read_trace(recording.path(low)),
        recording.measure(high),
        read_trace(recording.path(high)),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "third.json.zst")
        take(recording, recording.third, path)
        affine.verify(recording.measure(recording.third), read_trace(path))


def main(names: list[str]) -> int:
    for recording in recordings():
        if recording.network in names or (not names and not recording.is_kept):
            record(recording, anew=bool(names))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
