# SPDX-License-Identifier: Apache-2.0
"""Worker: times `import torch` in this fresh process.

With `--activate` also what an inert Spillway adds to it: the first call of the entry point, which
imports the package, and later calls; and the search for entry points, which torch does anyway.
"""

import json
import sys
import time

REPEATS = 1000


def main():
    begin = time.perf_counter()
    import torch  # noqa: F401 - its import is what is timed

    seconds = {"import": time.perf_counter() - begin}
    if "--activate" in sys.argv:
        begin = time.perf_counter()
        from importlib.metadata import entry_points

        entry_points(group="torch.backends")
        seconds["search"] = time.perf_counter() - begin
        begin = time.perf_counter()
        from spillway._autoload import activate

        activate()
        seconds["first"] = time.perf_counter() - begin
        begin = time.perf_counter()
        for _ in range(REPEATS):
            activate()
        seconds["again"] = (time.perf_counter() - begin) / REPEATS
    print(json.dumps(seconds))


if __name__ == "__main__":
    main()
