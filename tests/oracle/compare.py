# SPDX-License-Identifier: Apache-2.0
"""Compares two digested results. Imports no torch, so that judging costs the judge nothing."""


def differences(expected, actual):
    """Names of everything that differs between two digested results, losses first."""
    found = []
    if expected["losses"] != actual["losses"]:
        pairs = zip(expected["losses"], actual["losses"], strict=False)
        first = next((i for i, (a, b) in enumerate(pairs) if a != b), "count")
        found.append(f"losses[{first}]: {expected['losses']} != {actual['losses']}")
    names = expected["digests"].keys() | actual["digests"].keys()
    found += sorted(n for n in names if expected["digests"].get(n) != actual["digests"].get(n))
    return found
