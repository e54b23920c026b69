# SPDX-License-Identifier: Apache-2.0
"""Records the papers' networks without memory: `python -m paper_tables.record [NAME...]`.

Without a name those are recorded that are missing.

What grows affinely is recorded at two values, and a third checks that the two tell every other.
What changes the network itself (layers, experts, time steps) is recorded at every value that the
tables ask for.
"""

import pathlib
import sys
import tempfile

from paper_tables.affine import AffineTrace
from paper_tables.kept import FOLDER, Recording, read_trace, recordings


def record(recording: Recording) -> None:
    """Writes the files of one recording.

    Raises:
        NotAffineError: sizes do not grow affinely.
    """
    import spillway

    from paper_tables import networks

    def take(value: int, path: pathlib.Path) -> None:
        sizes = {**dict(recording.sizes), recording.grows: value}
        step = spillway.record_step(lambda: networks.build(recording.network, **sizes), path=path)
        print(
            f"{path.name}: {step.ops} ops, peak {step.peak_bytes / 2**30:.2f} GiB, "
            f"{path.stat().st_size / 1024:.0f} KiB",
            flush=True,
        )

    FOLDER.mkdir(exist_ok=True)
    for value in recording.values:
        take(value, recording.path(value))
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
        path = pathlib.Path(folder, "third.json")
        take(recording.third, path)
        affine.verify(recording.measure(recording.third), read_trace(path))


def main(names: list[str]) -> int:
    for recording in recordings():
        if recording.network in names or (not names and not recording.is_kept):
            record(recording)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
