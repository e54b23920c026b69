# SPDX-License-Identifier: Apache-2.0
"""Memory that a program page-locks itself stays while it is: devices copy from its pages.

Evicted, it would leave those pages, and a copy would silently take what lies there by then.
``pin_memory()`` is not concerned: it copies into memory of the device's own allocator.
"""

import functools

import torch

from spillway import _native


def install() -> None:
    """Wraps the two functions of CUDA's runtime. To be called once."""
    runtime = getattr(torch._C, "_cudart", None)
    if runtime is not None:
        runtime.cudaHostRegister = _kept_while_registered(runtime.cudaHostRegister)
        runtime.cudaHostUnregister = _released_with(runtime.cudaHostUnregister)


def _kept_while_registered(register):
    @functools.wraps(register)
    def wrapper(address, *arguments, **keywords):
        library = _native.load()
        library.keep_address(int(address))
        result = register(address, *arguments, **keywords)
        if int(result) != 0:
            library.release_address(int(address))
        return result

    return wrapper


def _released_with(unregister):
    @functools.wraps(unregister)
    def wrapper(address, *arguments, **keywords):
        result = unregister(address, *arguments, **keywords)
        if int(result) == 0:
            _native.load().release_address(int(address))
        return result

    return wrapper
