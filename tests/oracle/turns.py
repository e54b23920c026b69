# SPDX-License-Identifier: Apache-2.0
"""The cases whose turn is today, where a run takes only a part: in so many days, all."""

import os

DAY = "ORACLE_DAY"  # set once for all processes of a run, whatever midnight it passes
TODAY = int(os.environ[DAY])


def of_the_day(items, count, day=TODAY):
    """`count` of the items; the next day those after them, round and round."""
    items = list(items)
    return [items[(day * count + turn) % len(items)] for turn in range(min(count, len(items)))]
