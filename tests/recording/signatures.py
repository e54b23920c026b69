# SPDX-License-Identifier: Apache-2.0
"""The signature of an op in a trace, worked out a second time."""

MASK = (1 << 64) - 1


def signature_of(name: str, *elements: int) -> str:
    """Returns that of an operator, given the number of elements of each tensor it takes."""
    number = 0xCBF29CE484222325  # FNV-1a
    for byte in name.encode():
        number = (number ^ byte) * 0x100000001B3 & MASK
    for count in elements:
        number = (number ^ count) * 0x9E3779B97F4A7C15 & MASK
    return f"{number:016x}"
