# SPDX-License-Identifier: Apache-2.0
"""The largest value that still works, found with few trials: growing steps, then bisection."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Largest:
    """`value` works. `capped`: so does the cap, and nobody looked further."""

    value: int
    capped: bool


def largest(works, first, *, granule=1, cap=None, precision=0.05, expected=None):
    """Returns the Largest of the multiples of `granule`, or None where not even one granule works.

    `works(value)` runs a trial; what works at a value is taken to work below it. `first` is where
    the search begins, and its first step up; or it begins at `expected`, such as what was found
    before, with steps of `precision`. It ends when what works and what does not are within
    `precision` of each other, relative to the former, or neighbours. Nothing above `cap` is tried.
    """

    def rounded(value):
        return max(int(value) // granule, 1) * granule

    end = rounded(cap) if cap else None

    def tried(value):
        return rounded(min(value, end) if end else value)

    low, high = 0, None
    value = tried(expected or first)
    step = rounded(precision * value) if expected else value
    while high is None or (expected and low == 0 and high > granule):
        if works(value):
            low = value
            if end and low >= end:
                return Largest(low, capped=True)
        else:
            high = value
        value = tried(low + step) if high is None else rounded(high - step)
        step *= 2
    while high - low > granule and (low == 0 or high - low > precision * low):
        middle = rounded((low + high) / 2)
        if works(middle):
            low = middle
        else:
            high = middle
    return Largest(low, capped=False) if low else None
