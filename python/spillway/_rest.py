# SPDX-License-Identifier: Apache-2.0
"""What ends the rest of a thread whose ops are not watched, since the program fits.

The library ends it by itself where memory gets short or another thread runs an op. It can't see
what follows here: a profiler would see nothing of such a thread either, one that waits for others
can't show that it is inside no op, and collectives go on after their op has returned.
"""

import functools
import threading
from typing import Any

import torch

from spillway import _imports, _native


def install() -> None:
    """Wraps the functions. Called once, when the library has been loaded."""
    _wake_before(torch.autograd.profiler, "_enable_profiler")
    _imports.when_imported(
        "torch.autograd.profiler_legacy",
        lambda module: _wake_before(module, "_enable_profiler_legacy"),
    )
    _imports.when_imported(
        "torch.profiler.profiler",
        lambda module: _wake_before(module, "_enable_execution_trace_observer"),
    )
    _wake_before_threads()
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        _native.load().spillway_never_rest()
    _imports.when_imported("torch.distributed.distributed_c10d", _never_rest_with_groups)


def _wake_before(module: Any, name: str) -> None:
    original = getattr(module, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapper(*arguments, **keywords):
        _native.load().spillway_wake()
        return original(*arguments, **keywords)

    setattr(module, name, wrapper)


def _wake_before_threads() -> None:
    """Whoever starts a thread often waits for it next, and would show nothing of itself.

    Threads of multiprocessing that only pass on what is put into a queue are not waited for.
    """
    original = threading.Thread.start

    @functools.wraps(original)
    def start(self):
        if self.name != "QueueFeederThread":
            _native.load().spillway_wake()
        return original(self)

    threading.Thread.start = start


def _never_rest_with_groups(module: Any) -> None:
    """Every process group, the default one too, is made by this function."""
    name = "_new_process_group_helper"
    original = getattr(module, name)

    @functools.wraps(original)
    def make(*arguments, **keywords):
        _native.load().spillway_never_rest()
        return original(*arguments, **keywords)

    setattr(module, name, make)
