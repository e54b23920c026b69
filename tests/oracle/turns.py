# SPDX-License-Identifier: Apache-2.0
"""What has its turn today, where a quick run takes only a part: in so many days, everything."""

import datetime

TODAY = datetime.datetime.now(tz=datetime.timezone.utc).toordinal()  # in days


def of_the_day(items, count, day=TODAY):
    """`count` of the items; the next day those after them, round and round."""
    items = list(items)
    return [items[(day * count + turn) % len(items)] for turn in range(min(count, len(items)))]
