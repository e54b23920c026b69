# SPDX-License-Identifier: Apache-2.0
"""The disk fails: values stay right, or the program is told; it never hangs."""

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

GENTLE = [
    "spool.write=short@2",
    "spool.write=short@1+",
    "spool.read=short@1+",
    "spool.write=EINTR@3, spool.read=EINTR@2",
    "spool.write=EAGAIN@4, spool.read=EIO@5",
    "spool.write=EIO@1, spool.write=EIO@7",
    "spool.write=EIO@3, spool.read=EAGAIN@2, spool.read=short@4+, spool.write=short@9+",
    "spool.write=delay:300us@1+, spool.read=delay:300us@1+",
    "spool.grow=ENOSPC@1",
    "spool.grow=EINTR@1",
    "spool.open=EOPNOTSUPP@1",
    "spool.open=EMFILE@1",
]


@pytest.mark.parametrize("faults", GENTLE)
@in_child
def test_passing_faults_change_nothing(faults):
    """Each of these ends by itself or is retried."""
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train()
    activate(BUDGET=BUDGET, FAULTS=faults)
    assert train() == expected
    require_budget_held()
