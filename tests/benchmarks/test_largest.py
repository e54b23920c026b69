# SPDX-License-Identifier: Apache-2.0
"""The search for the largest value that works: it is right, and tries little."""

import importlib

import pytest


@pytest.fixture
def largest():
    return importlib.import_module("largest")


class Limit:
    """Works up to a value, and counts trials."""

    def __init__(self, limit):
        self.limit, self.tried = limit, []

    def __call__(self, value):
        self.tried.append(value)
        return value <= self.limit


@pytest.mark.parametrize("limit", [1, 2, 7, 16, 31, 100, 1000])
@pytest.mark.parametrize("first", [1, 16, 500])
def test_it_is_the_limit_within_the_precision(largest, limit, first):
    works = Limit(limit)
    found = largest.largest(works, first, precision=0.05)
    assert found.value <= limit <= max(found.value * 1.05, found.value)
    assert not found.capped
    assert len(works.tried) == len(set(works.tried)) < 20


@pytest.mark.parametrize("limit", [1, 2, 7, 16, 31, 100, 1000])
@pytest.mark.parametrize("expected", [1, 15, 17, 100, 900])
def test_it_is_the_same_from_what_is_expected(largest, limit, expected):
    works = Limit(limit)
    found = largest.largest(works, 4, precision=0.1, expected=expected)
    assert found.value <= limit <= max(found.value * 1.1, found.value)
    assert works.tried[0] == expected
    assert len(works.tried) == len(set(works.tried)) < 20


def test_what_is_expected_rightly_takes_two_trials(largest):
    works = Limit(47)
    assert largest.largest(works, 4, precision=0.1, expected=47).value == 47
    assert works.tried == [47, 51]


def test_what_is_expected_stays_below_the_cap(largest):
    works = Limit(1000)
    assert largest.largest(works, 4, cap=45, expected=80) == largest.Largest(45, capped=True)
    assert works.tried == [45]


def test_only_multiples_are_tried(largest):
    works = Limit(100)
    assert largest.largest(works, 20, granule=16).value == 96
    assert all(value % 16 == 0 for value in works.tried)


def test_the_cap_ends_the_search(largest):
    works = Limit(1000)
    assert largest.largest(works, 10, cap=45) == largest.Largest(45, capped=True)
    assert max(works.tried) == 45


def test_a_cap_that_does_not_work_is_searched_below(largest):
    assert largest.largest(Limit(30), 10, cap=45, precision=0) == largest.Largest(30, capped=False)


def test_nothing_works(largest):
    for expected in (None, 40):
        works = Limit(0)
        assert largest.largest(works, 12, granule=4, expected=expected) is None
        assert min(works.tried) == 4, "not even the smallest"
