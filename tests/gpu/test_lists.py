# SPDX-License-Identifier: Apache-2.0
"""How lists of tensors are divided for a card; test_card_budget.py trains with it."""

import pytest
import torch

from spillway._shims import lists

CARD, HOST = torch.device("cuda", 0), torch.device("cpu")


class Room:
    """Of a budget: lists of more than half of it are divided, into eighths."""

    def __init__(self, room):
        self.room = room

    def is_short(self, needed):
        return needed * 2 > self.room

    def most_of_a_part(self):
        return self.room // 8


def group(*sizes):
    """Lists of weights and gradients of so many bytes, and one that is empty."""
    weights = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    gradients = [torch.empty(size, dtype=torch.uint8) for size in sizes]
    return [weights, gradients, []], list(range(len(sizes)))


def divided(found, room, device=CARD):
    groups = lists.DividedGroups({(device, torch.uint8): found}, Room(room))
    assert [part for _, part in groups.items()] == list(groups.values())
    assert {key for key, _ in groups.items()} == {(device, torch.uint8)}
    return list(groups.values())


def indices_of(parts):
    return [indices for _, indices in parts]


def test_lists_that_fit_stay_whole():
    found = group(10, 20, 30)
    assert divided(found, 240) == [found]


@pytest.mark.parametrize(
    ("sizes", "room", "expected"),
    [
        ([10] * 6, 8 * 20, [[0], [1], [2], [3], [4], [5]]),
        ([10] * 6, 8 * 45 // 2, [[0], [1], [2], [3], [4], [5]]),
        ([10] * 10, 8 * 45, [[0, 1], [2, 3], [4, 5], [6, 7], [8, 9]]),
        ([30, 1, 1, 30, 1], 8 * 8, [[0], [1, 2], [3], [4]]),
    ],
)
def test_others_come_in_parts_and_in_order(sizes, room, expected):
    parts = divided(group(*sizes), room)
    assert indices_of(parts) == expected
    for (weights, gradients, none), indices in parts:
        assert [each.nbytes for each in weights] == [sizes[index] for index in indices]
        assert [each.nbytes for each in gradients] == [sizes[index] for index in indices]
        assert none == []


def test_one_that_is_larger_than_a_part_is_one():
    assert indices_of(divided(group(1, 1000, 1), 80)) == [[0], [1], [2]]


def test_lists_without_indices_and_with_gaps_are_divided():
    rows = [[torch.empty(100) for _ in range(4)], [None] * 4]
    parts = divided((rows, []), 800)
    assert [len(weights) for (weights, _), _ in parts] == [1] * 4
    assert indices_of(parts) == [[]] * 4


def test_gradients_are_clipped_in_parts_too(monkeypatch):
    """The names that torch's modules look up are those that are wrapped."""
    optimizer, clipping = torch.optim.Optimizer, torch.nn.utils.clip_grad
    name = "_group_tensors_by_device_and_dtype"
    for owner, kept in ((optimizer, staticmethod), (clipping, lambda function: function)):
        monkeypatch.setattr(owner, name, kept(getattr(owner, name)))  # what it was, afterwards
    monkeypatch.setattr(lists, "_room", lambda: 1000)
    monkeypatch.setattr(lists._native, "budget_is_of_a_card", lambda: True)
    lists.install()
    for owner in (optimizer, clipping):
        assert isinstance(getattr(owner, name)([[torch.ones(2)]]), lists.DividedGroups)
    one, two = torch.ones(4, requires_grad=True), torch.ones(5, requires_grad=True)
    (one.sum() + two.sum()).backward()
    assert torch.nn.utils.clip_grad_norm_([one, two], 1.5, foreach=True).item() == 3


@pytest.mark.parametrize("device", [HOST, None])
def test_other_devices_and_compiled_steps_are_left_alone(device):
    found = group(1000, 1000)
    assert divided(found, 8, device) == [found]


def test_room_is_asked_for_again_where_it_may_matter(monkeypatch):
    asked = []
    monkeypatch.setattr(lists, "_room", lambda: asked.append(1) or 1000)
    monkeypatch.setattr(lists._native, "settings", {"SPILLWAY_BUDGET": "cuda:1000"})
    room = lists.RoomOnTheCard()
    assert not room.is_short(200)
    assert not room.is_short(200)
    assert len(asked) == 1
    assert not room.is_short(400)
    assert room.is_short(501)
    assert len(asked) == 3
    monkeypatch.setattr(lists._native, "settings", {"SPILLWAY_BUDGET": "cuda:2000"})
    room.is_short(1)
    assert len(asked) == 4
