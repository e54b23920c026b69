# SPDX-License-Identifier: Apache-2.0
"""Two processes that train together, each with a budget: of its own card, or of one for both."""

import pytest

from tests.oracle.launch import MIB
from tests.standin import needed
from tests.standin.ranks import train

pytestmark = needed.STAND_IN


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """What the ranks compute without a budget, and the most that each card gave out."""
    ranks = train(tmp_path_factory.mktemp("ranks") / "alone")
    assert ranks[0]["digest"] == ranks[1]["digest"], "what the ranks agreed on"
    return ranks


def _require_the_same(found, expected):
    assert found["losses"] == expected["losses"]
    assert found["digest"] == expected["digest"]


def test_two_ranks_train_the_same_within_their_budgets(alone, tmp_path):
    budget = alone[0]["card"] * 6 // 10
    for found, expected in zip(train(tmp_path / "managed", {"budget": f"cuda:{budget}"}), alone):
        _require_the_same(found, expected)
        assert found["stats"]["evicted_bytes"] > MIB
        assert found["stats"]["fetched_bytes"] > MIB
        assert found["stats"]["overshoot_bytes"] == 0
        assert found["card"] <= budget


def test_a_card_for_both_may_be_smaller_than_their_budgets(alone, tmp_path):
    """Each fits into its budget, but the card has not enough for both: they make room for each
    other."""
    peak = alone[0]["card"]
    card = peak * 3 // 2 // MIB
    shared = train(
        tmp_path / "shared",
        {"budget": f"cuda:{peak + 32 * MIB}"},
        {"mib": card, "account": tmp_path / "account"},
    )
    for found, expected in zip(shared, alone):
        _require_the_same(found, expected)
    assert sum(found["stats"]["evicted_bytes"] for found in shared) > MIB
