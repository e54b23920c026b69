# SPDX-License-Identifier: Apache-2.0
"""Runs the same function unmanaged and under fuzz in one process."""

import contextlib
from dataclasses import dataclass, field

# Samples are small: without min_size most of them would never move.
FUZZ = {"mode": "fuzz", "budget": "2GiB", "min_size": 1}


@dataclass
class Moved:
    """Bytes that fuzz evicted, known when the block ends. None moved: nothing was tested."""

    bytes: int = 0
    means: dict = field(default_factory=dict)  # `pages` and `io` of the statistics


@contextlib.contextmanager
def fuzzed():
    """Within: everything no running op uses is evicted after every op. Off again afterwards."""
    import spillway

    spillway.enable(**FUZZ)
    before = spillway.stats()
    moved = Moved()
    try:
        yield moved
        after = spillway.stats()
        moved.bytes = (after.evicted_bytes + after.clean_evicted_bytes) - (
            before.evicted_bytes + before.clean_evicted_bytes
        )
        moved.means = {"pages": after.pages, "io": after.io}
    finally:
        spillway.disable()
