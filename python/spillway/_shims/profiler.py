# SPDX-License-Identifier: Apache-2.0
"""The profiler with shapes or stacks, which notes the addresses of all that it is shown."""

import functools

import torch

from spillway import _native


def install() -> None:
    """Wraps its beginning and its end. To be called once."""
    owner = torch.autograd.profiler.profile
    start, end = owner._start_trace, owner.__exit__

    @functools.wraps(start)
    def start_trace(self):
        _show_addresses(self, True)
        return start(self)

    @functools.wraps(end)
    def leave(self, *error):
        try:
            return end(self, *error)
        finally:
            _show_addresses(self, False)

    owner._start_trace, owner.__exit__ = start_trace, leave


def _show_addresses(profiler, shown: bool) -> None:
    library = _native.loaded()
    if library is not None and (profiler.with_stack or profiler.record_shapes):
        library.show_addresses(shown)
