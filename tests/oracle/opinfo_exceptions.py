# SPDX-License-Identifier: Apache-2.0
"""Operators whose results are not compared, each with one of a closed list of reasons.

A test asserts that they are at most 1 % of the database and that each still differs: between two
unmanaged runs, or, for memory nobody wrote, between one where torch fills new memory and one where
it does not. An entry that no longer does must go. Operators that raise here, for want of a device,
need no entry: the same error must be raised under fuzz.
"""

from enum import Enum


class Reason(Enum):
    """Why an operator's bits say nothing about Spillway. No reason may be added for a failure."""

    NONDETERMINISTIC = "two unmanaged runs of stock torch differ"
    UNINITIALISED = "returns memory that its contract leaves uninitialised"


EXCEPTIONS = {
    "empty": Reason.UNINITIALISED,
    "empty_like": Reason.UNINITIALISED,
    "empty_permuted": Reason.UNINITIALISED,
    "empty_strided": Reason.UNINITIALISED,
    "new_empty": Reason.UNINITIALISED,
    "new_empty_strided": Reason.UNINITIALISED,
}
