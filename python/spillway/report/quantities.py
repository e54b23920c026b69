# SPDX-License-Identifier: Apache-2.0
"""Sizes and times as people read them."""


def size(count: float) -> str:
    """`1.5 GiB`"""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if abs(count) >= scale:
            return (
                f"{count / scale:.3g} {unit}"
                if count / scale < 999.5
                else (f"{count / scale:.0f} {unit}")
            )
    return f"{count:.0f} B"


def duration(ns: float) -> str:
    """`12.3 ms`"""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if abs(ns) >= scale:
            return f"{ns / scale:.3g} {unit}" if ns / scale < 999.5 else f"{ns / scale:.0f} {unit}"
    return f"{ns:.0f} ns"


def size_scale(most: float) -> tuple[str, int]:
    """Unit and divisor of an axis that reaches `most` bytes."""
    for unit, scale in (("TiB", 2**40), ("GiB", 2**30), ("MiB", 2**20)):
        if most >= 2 * scale:
            return unit, scale
    return "KiB", 2**10


def time_scale(most: float) -> tuple[str, float]:
    """Unit and divisor of an axis that reaches `most` nanoseconds."""
    for unit, scale in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if most >= 2 * scale:
            return unit, scale
    return "ns", 1.0
