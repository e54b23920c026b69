# SPDX-License-Identifier: Apache-2.0
"""Runs the oracle's processes ahead of the tests that judge them, a few at a time.

    tests      |  wait(baseline)  wait(fuzz 1)    wait(wide_mlp on budgets) ...
    worker 1   |  baseline 1  | fuzz 1 | wide_mlp: record, 50 %, 30 % | ...
    worker 2   |  baseline 2  | fuzz 2 | gan: record, 50 %, 30 % | ...

A job never waits for another job, so the order of submission is all the ordering there is. Jobs
are memoised by key: many tests may ask for the same one. Under pytest-xdist the test processes
share what they memoise through files, and each begins at another place of the same list.
"""

import fcntl
import hashlib
import os
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.oracle import machine
from tests.oracle.launch import (
    MIB,
    ChildFailedError,
    mode_variables,
    required_statistics,
    run_programs,
    start,
)

FLOOR_MARGIN = 1.15  # a budget below the largest working set is infeasible, not a failed test


def budget_for(share, peak, floor):
    """Bytes to allow: the share of the peak, or just above the floor where that is larger."""
    return max(int(peak * share / 100), int(floor * FLOOR_MARGIN))


class Schedule:
    """Submits and memoises jobs. One thread submits; jobs share nothing but their files.

    Until `begin`, asking for a job only puts it on the list of what will be run ahead.
    """

    def __init__(self, folder, worker=0, workers=1):
        jobs = int(os.environ.get("ORACLE_JOBS", min(2, os.cpu_count() or 1)))
        self.pool_ = ThreadPoolExecutor(max(1, jobs // workers))
        self.folder_ = Path(folder)
        self.worker_, self.workers_ = worker, workers
        self.ahead_ = {}
        self.jobs_ = None

    def begin(self):
        """Starts what was asked for so far, rotated so that test processes meet only at the end."""
        ahead, self.jobs_ = list(self.ahead_.items()), {}
        first = len(ahead) * self.worker_ // self.workers_
        for key, call in ahead[first:] + ahead[:first]:
            self.jobs_[key] = self.pool_.submit(self._once, key, *call)

    def close(self):
        self.pool_.shutdown(wait=True, cancel_futures=True)

    def _memoised(self, key, function, *arguments):
        if self.jobs_ is None:
            self.ahead_[key] = (function, *arguments)
            return None
        if key not in self.jobs_:
            self.jobs_[key] = self.pool_.submit(self._once, key, function, *arguments)
        return self.jobs_[key]

    def _once(self, key, function, *arguments):
        """Runs the job unless a process that shares the folder did; waits while one does."""
        name = hashlib.sha256(repr(key).encode()).hexdigest()[:24]
        path = self.folder_ / f"{name}.result"
        with open(self.folder_ / f"{name}.lock", "w", encoding="ascii") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                try:
                    outcome = (True, function(*arguments))
                except AssertionError as error:
                    outcome = (False, str(error))
                path.write_bytes(pickle.dumps(outcome))
            succeeded, value = pickle.loads(path.read_bytes())
        if not succeeded:
            raise ChildFailedError(value)
        return value

    def batch(self, cases, size, mode=None, attempt=0):
        """One process over several (program, optimizer) -> {case: Child}, crashes isolated."""
        key = ("batch", tuple(cases), size, mode, attempt)
        return self._memoised(key, self._run_batch, cases, size, mode)

    def _run_batch(self, cases, size, mode):
        """A program that ends its process is named by the report; the others go on in a new one."""
        results, waiting = {}, list(cases)
        while waiting:
            child = run_programs(waiting, size, mode_variables(mode), self.folder_)
            results |= {case: child for case in waiting if case in child.runs}
            waiting = [case for case in waiting if case not in child.runs]
            if waiting:
                running = child.report.get("running")
                culprit = tuple(running) if running else waiting[0]
                results[culprit] = child
                waiting = [case for case in waiting if case != culprit]
        return results

    def idle_bytes(self, imported=None):
        """Resident high-water mark of a process that only imports torch (and one program, with what
        that loads)."""
        return self._memoised(("idle", imported), self._run_idle, imported)

    def _run_idle(self, imported):
        arguments = [] if imported is None else ["--import-only", imported]
        child = start("tests.oracle.run", arguments, {}, self.folder_).require_complete()
        return child.report["vm_hwm_bytes"]

    def budgets(self, case, shares):
        """record, then one run per share -> {"record": Child, share: Child}."""
        return self._memoised(("budgets", case, shares), self._run_budgets, case, shares)

    def plain(self, case, share):
        """On a share of the peak, with transfers by threads and without the page pool."""
        return self._memoised(("plain", case, share), self._run_plain, case, share)

    def _run_plain(self, case, share):
        record = run_programs([case], "full", mode_variables("record"), self.folder_)
        stats = required_statistics(record.require_complete())
        budget = budget_for(share, stats["peak_device_bytes"], stats["floor_bytes"])
        variables = mode_variables(budget_bytes=budget) | {"SPILLWAY_IO": "threads"}
        before = machine.without_huge_pages
        return record, run_programs([case], "full", variables, self.folder_, before)

    def _run_budgets(self, case, shares):
        def run(managed):
            return run_programs([case], "full", managed, self.folder_)

        record = run(mode_variables("record"))
        results = {"record": record}
        stats = required_statistics(record.require_complete())
        by_budget = {}
        for share in shares:
            budget = budget_for(share, stats["peak_device_bytes"], stats["floor_bytes"])
            if budget not in by_budget:
                by_budget[budget] = run(mode_variables(budget_bytes=budget))
            results[share] = by_budget[budget]
        return results


def resident_allowance(budget):
    """Returns the bytes that a process may hold beyond an idle one: heap, code paged in, rounding,
    and the budget.
    """
    return budget + 256 * MIB + budget * 3 // 100


def deal(cases, count):
    """{case: the cases that share its process}, dealt so that neighbours in the alphabet part."""
    cases = list(dict.fromkeys(cases))
    count = max(1, count)
    hands = [tuple(cases[i::count]) for i in range(count)]
    return {case: hand for hand in hands for case in hand}
