# SPDX-License-Identifier: Apache-2.0
"""The hook rests while a program fits, and wakes in time when it no longer does.

live   |  ....training....   | held: 85 %  |  90 %: awake  |  more than the budget
ops    |  1 2 3 4 . . . . .  |  . . . . .  |  5 6 7 8 ...  |  evictions
"""

import os
import threading

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20
BUDGET = "64MiB"  # the training's peak, some 40 MiB, is below 80 % of it
UNTIL_REST = 5  # steps: three to look at, and one more at each end


def _ops():
    import spillway

    return spillway.stats().ops


def _resting_training(**options):
    """A training that has made UNTIL_REST steps, after which the hook rests."""
    from tests.faults.training import Training

    training = Training(**options).steps(UNTIL_REST)
    _require_rest(training.step)
    return training


def _require_rest(action):
    before = _ops()
    action()
    assert _ops() == before, (before, _ops())


def _require_watching(action):
    before = _ops()
    action()
    assert _ops() > before


@in_child
def test_it_rests_after_three_steps_that_fit():
    import spillway
    from tests.faults.training import Training, train

    expected = train(12)
    activate(BUDGET=BUDGET)
    training = Training()
    for _ in range(3):
        _require_watching(training.step)
    training.steps(UNTIL_REST - 3)
    for _ in range(12 - UNTIL_REST):
        _require_rest(training.step)
    assert training.outcome() == expected
    stats = spillway.stats()
    assert stats.evictions == 0 and stats.overshoot_bytes == 0, stats


@in_child
def test_what_repeats_inside_the_first_step_is_no_step_that_fits():
    """It needs twice the budget, then repeats some small ops up to the optimizer's step."""
    import torch

    import spillway

    activate(BUDGET=BUDGET)
    weight = torch.nn.Parameter(torch.ones(MIB // 4))
    weight.grad = torch.ones(MIB // 4)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    @torch.no_grad()
    def step():
        large = [weight.repeat(8) + i for i in range(16)]
        assert sum(piece[0].item() for piece in large) != 0
        del large
        for _ in range(12):
            x = weight
            for _ in range(4):
                x = (x + x).sin().sqrt().exp().cos()
        optimizer.step()

    for _ in range(3):
        _require_watching(step)
    stats = spillway.stats()
    assert stats.evictions != 0 and stats.overshoot_bytes == 0, stats


def _live_peak():
    """Returns the training's peak, without cached blocks."""
    import spillway
    from tests.faults.training import train

    spillway.enable("1GiB")
    train(3)
    return spillway.stats().peak_live_bytes


@in_child
def test_it_rests_below_80_percent_of_the_budget_and_not_above():
    import spillway
    from tests.faults.training import Training

    peak = _live_peak()
    for share, rests in ((0.85, False), (0.75, True)):
        spillway.enable(int(peak / share))
        training = Training().steps(UNTIL_REST)
        for _ in range(2):
            (_require_rest if rests else _require_watching)(training.step)
        del training


def _live_bytes():
    """Returns the bytes of tensors without what lies cached; then the peak is what is live."""
    import spillway

    spillway.reset_peak()
    return spillway.stats().device_bytes


def _hold_until(share):
    """Tensors of 1 MiB until so much of the budget is in use, made by ops that nothing shows."""
    from tests.faults.pressure import filled

    budget = 64 * MIB
    held = []
    while _live_bytes() + MIB <= share * budget:
        held.append(filled(len(held)))
    return held


@in_child
def test_it_wakes_at_90_percent():
    """Growing bit by bit the program never exceeds the budget: what was there before may leave."""
    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import train

    expected = train(UNTIL_REST + 5)
    activate(BUDGET=BUDGET)
    training = _resting_training()
    before = _ops()
    held = _hold_until(0.87)
    assert len(held) > 4 and _ops() == before, (len(held), before, _ops())
    held += [filled(value) for value in range(len(held), len(held) + 5)]
    assert _ops() > before
    held += [filled(value) for value in range(len(held), 100)]
    stats = spillway.stats()
    assert stats.evictions > 0 and stats.overshoot_bytes == 0, stats
    assert training.steps(4).outcome() == expected
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    stats = spillway.stats()
    assert stats.peak_device_bytes <= stats.budget_bytes and stats.overshoot_bytes == 0, stats


#   rest                          jump                       next step
#   unseen: 14 MiB | live 73 %    + 36 MiB: over, counted    what is too much leaves
@in_child
def test_a_jump_over_the_budget_is_one_counted_overshoot():
    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import train

    expected = train(UNTIL_REST + 5)
    activate(BUDGET=BUDGET)
    training = _resting_training()
    unseen = filled(7, mib=14)
    live = _live_bytes()
    assert live < 0.9 * 64 * MIB
    jump = filled(8, mib=36)
    stats = spillway.stats()
    # Whole pages and what the op needs besides, at most.
    excess = live + 36 * MIB - 64 * MIB
    assert excess <= stats.overshoot_bytes <= excess + MIB, (live, stats)
    assert stats.peak_device_bytes == stats.budget_bytes + stats.overshoot_bytes, stats
    _require_watching(training.step)
    training.step()
    spillway.reset_peak()
    training.steps(2)
    stats = spillway.stats()
    assert stats.peak_device_bytes <= stats.budget_bytes and stats.overshoot_bytes == 0, stats
    assert stats.evictions > 0, stats
    assert training.outcome() == expected
    assert is_intact(jump, 8) and is_intact(unseen, 7)


@in_child
def test_what_is_larger_than_the_budget_is_refused_at_rest_too():
    import torch

    import spillway
    from tests.faults.pressure import filled
    from tests.faults.training import train

    expected = train(UNTIL_REST + 4)
    activate(BUDGET=BUDGET)
    training = _resting_training()
    with pytest.raises(torch.OutOfMemoryError, match="need 65 MiB"):
        filled(7, mib=65)
    stats = spillway.stats()
    assert stats.overshoot_bytes == 0 and stats.shortages == 1, stats
    assert stats.peak_device_bytes <= stats.budget_bytes, stats
    assert training.steps(3).outcome() == expected


@in_child
def test_a_second_thread_wakes_it():
    """With two threads that run ops it does not rest, however well all fits."""
    from tests.faults.training import Training, train

    expected = [train(2 * UNTIL_REST + 1), train(4, seed=2)]
    activate(BUDGET="256MiB")
    training = _resting_training()
    begun, go_on = threading.Event(), threading.Event()
    other = []

    def run():
        second = Training(seed=2).steps(2)
        begun.set()
        go_on.wait(30)
        other.append(second.steps(2).outcome())

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(30)
    for _ in range(UNTIL_REST):
        _require_watching(training.step)
    go_on.set()
    thread.join()
    assert [training.outcome(), *other] == expected


@pytest.mark.parametrize("attempt", range(3))
@in_child
def test_a_second_thread_that_does_not_fit_beside_the_first(attempt):
    """The first rests; the other's peak is beyond what is left. Both compute the same."""
    import spillway
    from tests.faults.training import train

    expected = [train(UNTIL_REST + 7), train(6, seed=2 + attempt)]
    activate(BUDGET=BUDGET)
    training = _resting_training()
    other = []
    thread = threading.Thread(target=lambda: other.append(train(6, seed=2 + attempt)))
    thread.start()
    training.steps(6)
    thread.join()
    assert [training.outcome(), *other] == expected
    assert spillway.stats().peak_live_bytes > 0.9 * 64 * MIB


@in_child
def test_loader_workers_forked_while_it_rests():
    """They fork anew for each turn, and send what the tensors hold; the rest goes on."""
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    from tests.faults.training import digest, train

    def batches(data, training):
        loader = DataLoader(
            TensorDataset(data), batch_size=4, num_workers=2, multiprocessing_context="fork"
        )
        digests = []
        for _ in range(2):
            for (batch,) in loader:
                digests.append(digest(batch))
                training.step()
        return digests

    class Nothing:
        def step(self):
            pass

    data = torch.arange(16 * (1 << 15), dtype=torch.float32).view(16, -1)  # 2 MiB
    expected = batches(data, Nothing())
    trained = train(UNTIL_REST + 1 + len(expected))
    activate(BUDGET=BUDGET)
    training = _resting_training()
    data = torch.arange(16 * (1 << 15), dtype=torch.float32).view(16, -1)
    before = _ops()
    assert batches(data, training) == expected
    assert _ops() == before
    assert training.outcome() == trained


#   parent   rest .. fork ............... awake, evicts .. say so .......... trains on
#   child              \--- trains beyond 90 % ................. \-- reads --- trains on
@in_child
def test_a_child_forked_while_it_rests():
    """It may grow as it likes; the parent wakes by itself, and neither sees the other's bytes."""
    import spillway
    from tests.faults.pressure import filled, is_intact
    from tests.faults.training import train

    expected = train(UNTIL_REST + 4)
    activate(BUDGET=BUDGET)
    training = _resting_training()
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            training.step()
            held = [filled(value) for value in range(40)]
            os.read(reading, 1)
            intact = all(is_intact(tensor, value) for value, tensor in enumerate(held))
            del held
            status = 0 if intact and training.steps(2).outcome() == expected else 2
        finally:
            os._exit(status)
    training.step()
    held = [filled(value + 100) for value in range(80)]
    assert spillway.stats().evictions > 0
    os.write(writing, b".")
    assert training.steps(2).outcome() == expected
    assert os.waitpid(pid, 0)[1] == 0
    assert all(is_intact(tensor, value + 100) for value, tensor in enumerate(held))


@in_child
def test_it_rests_again_when_a_second_thread_has_ended():
    import torch

    activate(BUDGET="256MiB")
    training = _resting_training()
    thread = threading.Thread(target=lambda: [torch.ones(1 << 18) + 1 for _ in range(4)])
    thread.start()
    thread.join()
    training.steps(UNTIL_REST)
    _require_rest(training.step)


@in_child
def test_it_rests_again_when_the_program_fits_again():
    from tests.faults.pressure import filled
    from tests.faults.training import train

    expected = train(UNTIL_REST + 3 + UNTIL_REST + 2)
    activate(BUDGET=BUDGET)
    training = _resting_training()
    held = [filled(value) for value in range(60)]
    for _ in range(2):
        _require_watching(training.step)
    del held
    training.steps(UNTIL_REST + 1)  # the first of them began while all was held
    _require_rest(training.step)
    assert training.outcome() == expected
