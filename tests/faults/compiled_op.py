# SPDX-License-Identifier: Apache-2.0
"""An operator of C++ that runs until the test lets it end: compiled_op.cpp."""

import ctypes
import fcntl
import os
import shutil
import subprocess
import time
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".cpp")
# Kept between runs: compiling against torch takes half a minute where nothing else runs.
FOLDER = Path(__file__).resolve().parents[2] / "build/compiled_op"


def compile_op():
    """The path of the library with the operator, for the torch of this interpreter."""
    import torch

    folder = Path(torch.__file__).parent
    library = FOLDER / f"torch-{torch.__version__}-{SOURCE.stat().st_mtime_ns}.so"
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # other workers of the tests want the same
        if not library.exists():
            partial = library.with_suffix(".partial")
            compiler = [os.environ.get("CXX", "c++"), "-std=c++20", "-O1", "-shared", "-fPIC"]
            cache = shutil.which("ccache")
            includes = [folder / "include", folder / "include/torch/csrc/api/include"]
            libraries = [f"-L{folder / 'lib'}", "-ltorch_cpu", "-lc10"]
            subprocess.run(
                [*([cache] if cache else []), *compiler]
                + [option for path in includes for option in ("-isystem", path)]
                + [SOURCE, *libraries, "-o", partial],
                check=True,
            )
            partial.rename(library)
    return str(library)


class _Flag:
    """As much of threading.Event as the tests use."""

    def __init__(self, *, is_set=None, set=None):
        self._is_set, self.set = is_set, set

    def wait(self, seconds):
        end = time.monotonic() + seconds
        while not self._is_set():
            if time.monotonic() > end:
                return False
            time.sleep(0.001)
        return True


class CompiledOp:
    """torch.ops.compiled.clear: see HeldOp of test_waking, which is the same in Python."""

    def __init__(self, path, *, runs_ops=False):
        import torch

        torch.ops.load_library(path)
        self._library = ctypes.CDLL(path)
        if runs_ops:
            self._library.compiled_op_runs_ops()
        self.begun = _Flag(is_set=self._library.compiled_op_begun)
        self.go_on = _Flag(set=self._library.compiled_op_go_on)

    @property
    def stayed(self):
        return self._library.compiled_op_stayed() == 1

    def run(self, tensor):
        import torch

        torch.ops.compiled.clear(tensor)
