# SPDX-License-Identifier: Apache-2.0
"""Finds composites inside which evicting is safe.

A composite has no kernel of its own for the CPU: it calls other operators. Treated as transparent
it neither brings memory back nor pins any. One that reads or writes memory itself, or keeps a
pointer while it calls others, then raises, faults or computes something else under fuzz.
"""

import torch

from tests.oracle.toggling import fuzzed


def candidates():
    """Full names of all operators without a kernel of their own for the CPU."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    return sorted(
        name
        for name in torch._C._dispatch_get_all_op_names()
        if name.startswith("aten::")
        and has_kernel(name, "CompositeImplicitAutograd")
        and not has_kernel(name, "CPU")
        and not has_kernel(name, "AutogradCPU")
    )


def _library():
    import ctypes

    from spillway import _native

    library = _native.load()
    library.functions.spillway_set_transparent.argtypes = [ctypes.c_char_p]
    library.functions.spillway_set_transparent.restype = None
    library.functions.spillway_transparent_seen.restype = ctypes.c_void_p
    return library


def _under_fuzz(library, names, case):
    """The case's results with these operators transparent, and those that called others."""
    library.functions.spillway_set_transparent(",".join(names).encode())
    library.take(library.functions.spillway_transparent_seen())
    with fuzzed():
        results = case.compute()
        seen = library.take(library.functions.spillway_transparent_seen()) or ""
    return results, set(filter(None, seen.split(",")))


def _culprits(library, transparent, seen, case, expected):
    """Those of the composites seen that must be frames for the case to be computed right."""

    def right(names):
        return _under_fuzz(library, names, case)[0] == expected

    def without(culprits):
        return [name for name in transparent if name not in culprits]

    culprits = {name for name in seen if not right([name])}
    if culprits and right(without(culprits)):
        return culprits
    # Harmless alone, harmful together: around a frame everything stays in memory, so where one of
    # them as a frame mends it, that one may be it.
    menders = {name for name in seen if right(without(culprits | {name}))}
    return culprits | menders if menders else seen


def run(cases, unsafe, progress):
    """{"seen": names that called others, "unsafe": those that must stay frames}."""
    library = _library()
    unsafe = set(unsafe)
    transparent = [name for name in candidates() if name not in unsafe]
    seen_ever = set()
    for case in cases:
        progress(case.name, sorted(seen_ever), sorted(unsafe))
        expected = case.compute()
        results, seen = _under_fuzz(library, transparent, case)
        seen_ever |= seen
        if results == expected or case.compute() != expected:
            continue
        # As a frame, each is as safe as the operator it is: so the fault lies with one of them.
        if _under_fuzz(library, [], case)[0] != expected:
            continue  # differs whatever is transparent: uninitialised memory
        culprits = _culprits(library, transparent, seen, case, expected)
        unsafe |= culprits
        transparent = [name for name in transparent if name not in unsafe]
        seen_ever |= _under_fuzz(library, transparent, case)[1]  # it may come further now
    return {"seen": sorted(seen_ever), "unsafe": sorted(unsafe)}
