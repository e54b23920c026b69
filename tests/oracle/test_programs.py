# SPDX-License-Identifier: Apache-2.0
"""Every program of the catalog: repeatable unmanaged, equal under fuzz, equal on budgets.

ORACLE=quick  all programs under fuzz with one optimizer; on 50, 30 and 15 % of the peak those that
              the catalog marks quick, and three others. Which three, and which of its optimizers a
              program has, changes with the date
ORACLE=full   every program x optimizer under fuzz (a process each) and on 50, 30 and 15 %
"""

import os

import pytest

from tests.oracle import catalog, judge
from tests.oracle.launch import required_statistics
from tests.oracle.schedule import budget_for, deal
from tests.oracle.turns import TODAY, of_the_day

FULL = os.environ.get("ORACLE", "quick") == "full"
SHARES = (50, 30, 15)
OTHERS = 3  # besides those marked quick
BATCHES = 4  # processes that share the fuzz runs; more of them isolate less of a crash


EVERY = [(p.name, o) for p in catalog.PROGRAMS for o in p.optimizers]


def _one_each(programs, day):
    """Each with one of its optimizers."""
    return [(p.name, o) for p in programs for o in of_the_day(p.optimizers, 1, day)]


def _on_budget(day):
    """The cases of that day that are run on budgets."""
    marked = {p.name for p in catalog.PROGRAMS if p.quick}
    others = [case for case in EVERY if case[0] not in marked]
    quick = (p for p in catalog.PROGRAMS if p.quick)
    return sorted(_one_each(quick, day) + of_the_day(others, OTHERS, day), key=EVERY.index)


def _parameters(cases):
    return [pytest.param(name, o, id=f"{name}-{o or 'own'}") for name, o in cases]


TINY = _parameters(EVERY if FULL else _one_each(catalog.PROGRAMS, TODAY))
ON_BUDGET = _parameters(EVERY if FULL else _on_budget(TODAY))
# Run once more with threads and the plain arena, as on a machine with neither.
PLAIN = [case for case in ON_BUDGET if case.values[0] == "conv_bn_dropout"][:1]


class Plan:
    """Assigns cases to processes, once, so that tests and submission agree."""

    def __init__(self, schedule, items):
        self.schedule_ = schedule
        selected = {}
        for item in items:
            if hasattr(item, "callspec"):
                case = (item.callspec.params["name"], item.callspec.params["optimizer"])
                selected.setdefault(item.originalname, {})[case] = None
        fuzzed = selected.get("test_fuzz", {})
        tiny = fuzzed | selected.get("test_repeatable_tiny", {})
        full = {}
        for kind in ("test_repeatable_full", "test_record", "test_budget", "test_plain_means"):
            full |= selected.get(kind, {})
        self.shared_ = {"tiny": deal(tiny, BATCHES // 2), "full": deal(full, BATCHES // 2)}
        self.fuzz_ = deal(fuzzed, len(fuzzed) if FULL else BATCHES)
        self.plain_ = selected.get("test_plain_means", {})
        self.on_budget_ = selected.get("test_record", {}) | selected.get("test_budget", {})

    def submit(self):
        for case in (*self.on_budget_, *self.plain_):
            self._idle(case)
        for attempt in range(2):
            for size, hands in self.shared_.items():
                for hand in hands.values():
                    self.schedule_.batch(hand, size, attempt=attempt)
        for hand in self.fuzz_.values():
            self.schedule_.batch(hand, "tiny", "fuzz")
        for case in self.on_budget_:
            self.schedule_.budgets(case, SHARES)
        for case in self.plain_:
            self.schedule_.plain(case, SHARES[0])

    def unmanaged(self, case, size, attempt=0):
        hand = self.shared_[size][case]
        return self.schedule_.batch(hand, size, attempt=attempt).result()[case]

    def fuzzed(self, case):
        return self.schedule_.batch(self.fuzz_[case], "tiny", "fuzz").result()[case]

    def idle_bytes(self, case):
        return self._idle(case).result()

    def _idle(self, case):
        name = case[0]
        return self.schedule_.idle_bytes(name if catalog.find(name).loads else None)

    def on_budgets(self, case):
        return self.schedule_.budgets(case, SHARES).result()


_plans = {}


def submit(schedule, items):
    """Called once by the schedule fixture with the tests of this module that were selected."""
    _plans[id(schedule)] = Plan(schedule, items)
    _plans[id(schedule)].submit()


@pytest.fixture
def plan(schedule):
    return _plans[id(schedule)]


def _result(child, case):
    """The digested result of one program, or a failure that names how its process ended."""
    if case not in child.runs:
        child.require_complete()
    return child.runs[case]


def _repeatable(plan, case, size):
    first, second = (plan.unmanaged(case, size, attempt) for attempt in range(2))
    judge.same_bits(_result(first, case), _result(second, case), second)


def _equals_unmanaged(plan, child, case, size):
    expected = _result(plan.unmanaged(case, size), case)
    judge.same_bits(expected, _result(child, case), child)


def test_every_case_has_its_turn_on_a_budget():
    days = range(TODAY, TODAY + len(EVERY))
    assert {case for day in days for case in _on_budget(day)} == set(EVERY)


@pytest.mark.parametrize(("name", "optimizer"), TINY)
def test_repeatable_tiny(plan, name, optimizer):
    """Two unmanaged runs are equal; without that no comparison below would mean anything."""
    _repeatable(plan, (name, optimizer), "tiny")


@pytest.mark.parametrize(("name", "optimizer"), TINY)
def test_fuzz(plan, name, optimizer):
    """Everything that no running op uses is evicted after every op, and freed memory poisoned."""
    child = plan.fuzzed((name, optimizer))
    _equals_unmanaged(plan, child, (name, optimizer), "tiny")
    if child.returncode == 0:  # else another program of the same process died; that one fails
        assert required_statistics(child)["mode"] == "fuzz"
        assert child.moved_bytes > 0, f"fuzz moved nothing\n  to repeat: {child.command}"
        judge.used_what_is_there(child.stats)


@pytest.mark.parametrize(("name", "optimizer"), ON_BUDGET)
def test_repeatable_full(plan, name, optimizer):
    _repeatable(plan, (name, optimizer), "full")


@pytest.mark.parametrize(("name", "optimizer"), ON_BUDGET)
def test_record(plan, name, optimizer):
    """Observing changes no bit, moves nothing, and sees a program worth testing."""
    child = plan.on_budgets((name, optimizer))["record"]
    _equals_unmanaged(plan, child, (name, optimizer), "full")
    assert child.moved_bytes == 0
    judge.used_what_is_there(child.stats, moved=False)
    assert child.stats["peak_device_bytes"] >= 64 << 20, "too small a program to prove anything"


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize(("name", "optimizer"), ON_BUDGET)
def test_budget(plan, name, optimizer, share):
    """On a share of its peak the program computes the same bits, and the budget holds."""
    runs = plan.on_budgets((name, optimizer))
    stats = runs["record"].stats
    budget = budget_for(share, stats["peak_device_bytes"], stats["floor_bytes"])
    child = runs[share].require_complete()
    _equals_unmanaged(plan, child, (name, optimizer), "full")
    judge.was_managed(child, stats["peak_device_bytes"], budget)
    judge.budget_held(child, budget, plan.idle_bytes((name, optimizer)))
    judge.used_what_is_there(child.stats)


@pytest.mark.parametrize(("name", "optimizer"), PLAIN)
def test_plain_means(plan, name, optimizer):
    """The same bits, and the budget holds, where there is neither page pool nor io_uring."""
    record, child = plan.schedule_.plain((name, optimizer), SHARES[0]).result()
    child.require_complete()
    stats = record.stats
    budget = budget_for(SHARES[0], stats["peak_device_bytes"], stats["floor_bytes"])
    _equals_unmanaged(plan, child, (name, optimizer), "full")
    judge.was_managed(child, stats["peak_device_bytes"], budget)
    judge.budget_held(child, budget, plan.idle_bytes((name, optimizer)))
    judge.used(child.stats, page_pool=False, io_uring=False)
