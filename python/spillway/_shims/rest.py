# SPDX-License-Identifier: Apache-2.0
"""Ends the rest of a thread whose ops are not watched, since the program fits.

The library ends it by itself where memory gets short or another thread runs an op. It can't see
what follows here: a profiler would see nothing of such a thread either, one that waits for others
can't show that it is inside no op, and collectives go on after their op has returned.
"""

import functools
import threading
from collections.abc import Callable
from typing import Any

import torch

from spillway import _imports, _native


def install() -> None:
    """Wraps the functions. Called once, when the library has been loaded."""
    library = _native.load()

    def wake_before(module: Any, name: str) -> None:
        if hasattr(module, name):
            _call_before(library.wake, module, name)

    wake_before(torch.autograd.profiler, "_enable_profiler")
    _imports.when_imported(
        "torch.autograd.profiler_legacy",
        lambda module: wake_before(module, "_enable_profiler_legacy"),
    )
    _imports.when_imported(
        "torch.profiler.profiler",
        lambda module: wake_before(module, "_enable_execution_trace_observer"),
    )
    _wake_before_threads(library.wake)
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        library.never_rest()
    # Every process group, the default one too, is made by this function.
    _imports.when_imported(
        "torch.distributed.distributed_c10d",
        lambda module: _call_before(library.never_rest, module, "_new_process_group_helper"),
    )


def _call_before(call: Callable[[], None], module: Any, name: str) -> None:
    original = getattr(module, name)

    @functools.wraps(original)
    def wrapper(*arguments, **keywords):
        call()
        return original(*arguments, **keywords)

    setattr(module, name, wrapper)


def _wake_before_threads(wake: Callable[[], None]) -> None:
    """Whoever starts a thread often waits for it next, and would show nothing of itself.

    Threads of multiprocessing that only pass on what is put into a queue are not waited for.
    """
    original = threading.Thread.start

    @functools.wraps(original)
    def start(self):
        if self.name != "QueueFeederThread":
            wake()
        return original(self)

    threading.Thread.start = start
