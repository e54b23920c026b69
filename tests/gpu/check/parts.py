# SPDX-License-Identifier: Apache-2.0
"""The parts of the check, in their order. Each returns what it found as a dict for JSON: `faults`,
a line each, `figures` to be printed, and the outcomes of the programs that it ran."""

import itertools
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.gpu import card_graphs, card_memory, card_rest
from tests.gpu.check import bits, children, graphs
from tests.gpu.check.children import Job
from tests.gpu.check.driver_figures import DriverFigures
from tests.oracle.schedule import budget_for

MIB, GIB = 1 << 20, 1 << 30
ROOT = Path(__file__).resolve().parents[3]
WIDE = {"budget": "cuda:90%", "host_budget": "2GiB"}
AMPLE = {"budget": "cuda:8GiB", "host_budget": "4GiB"}
# Less than what the parts of graphs.py hold at a time: a context, and 1.5 GiB of tensors.
GRAPHS = {"budget": "cuda:1600MiB", "host_budget": "4GiB"}
# Programs whose time nobody measures run side by side: each holds some 600 MiB besides tensors.
AT_ONCE = max(1, min(12, (os.cpu_count() or 2) - 2))
SHARES = (60, 40, 25)  # of the peak, in percent
STEPS, WARM_UP = 12, 6
STEP_SHARES = (50, 30)
LINK = 55e9  # bytes a second each way: PCIe 5.0 x16, as measured (docs/gpu/measured.md)


def faults_of(outcomes):
    return [
        f"{each.name}: {each.status} after {each.seconds} s: {' | '.join(each.words[-3:])}"
        for each in outcomes
        if not each.is_well
    ]


def result(faults, outcomes, figures=()):
    told = [each.as_json() for each in outcomes]
    return {"faults": faults, "figures": list(figures), "outcomes": told}


def gate(options):
    """May memory be mapped beside running kernels?"""
    if options.gate is None:
        return result(["no --gate given"], [])
    told = options.json.with_name("gate.json")
    command = [str(options.gate.resolve()), "--json", str(told)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=90)
    except subprocess.TimeoutExpired:
        return result(["the gate did not end within 90 s"], [])
    said = (done.stdout + done.stderr).splitlines()
    faults = [] if done.returncode == 0 else [f"the gate ended with {done.returncode}"]
    return result(faults, [], said[-20:]) | {"gate": json.loads(told.read_text())}


def functions(_):
    """PyTorch's functions for memory, streams, captures and compiled work; how the hook rests."""
    jobs = [
        Job(f"{module.__name__}.{part.__name__}", module.__name__, (part.__name__,), WIDE)
        for module in (card_memory, card_rest, card_graphs)
        for part in module.PARTS
    ]
    recorded = [
        Job(f"graphs.{part.__name__}: {way}", graphs.__name__, (part.__name__,), settings)
        for part in graphs.PARTS
        for way, settings in (("unmanaged", {}), ("managed", GRAPHS))
    ]
    outcomes = children.together(jobs + recorded, AT_ONCE)
    faults = faults_of(outcomes)
    pairs = outcomes[len(jobs) :]
    for expected, found in zip(pairs[::2], pairs[1::2], strict=True):
        faults += same_bits(expected, found)
    return result(faults, outcomes)


def cases(quick):
    """Of a quick check each network once."""
    if quick:
        return [(network, "adam", "float32") for network in bits.NETWORKS]
    return list(itertools.product(bits.NETWORKS, bits.OPTIMIZERS, bits.DTYPES))


def train(case, name, settings=None):
    return Job(f"{' '.join(case)}: {name}", "tests.gpu.check.bits", case, settings or {})


def same_bits(expected, found):
    if not (expected.is_well and found.is_well):
        return []
    same = all(expected.answer[key] == found.answer[key] for key in ("losses", "digest"))
    faults = [] if same else [f"{found.name}: other bits than unmanaged"]
    if found.stats and found.stats["undeclared_writes"]:
        faults.append(f"{found.name}: undeclared writes")
    return faults


def held_its_budget(found, budget, driver):
    """By the engine's count and by the driver's, and it moved what had to move."""
    if not found.is_well:
        return []
    stats, faults = found.stats, []
    if stats["peak_device_bytes"] > budget or stats["overshoot_bytes"]:
        faults.append(f"{found.name}: over by {stats['overshoot_bytes'] / MIB:.1f} MiB")
    told = driver.bytes_of(found.pid)
    if told is not None and told > budget:
        faults.append(
            f"{found.name}: the driver gave {told / MIB:.0f} of {budget / MIB:.0f} MiB, "
            f"{stats['peak_device_bytes'] / MIB:.0f} for tensors, beside them "
            f"{stats['unmanaged_bytes'] / MIB:.0f}"
        )
    return faults


class Tight(NamedTuple):
    """A run within a budget of so many bytes, and what it has to be equal to."""

    job: Job
    expected: children.Outcome
    budget: int


def tight_runs(case, expected, fuzzed):
    """On shares of the peak, never below what the largest op needs and some."""
    if not (expected.is_well and fuzzed.is_well):
        return
    peak, floor = expected.answer["peak"], fuzzed.stats["peak_live_bytes"]
    for tensors in sorted({budget_for(share, peak, floor) for share in SHARES}):
        budget = tensors + fuzzed.stats["unmanaged_bytes"]
        settings = {"budget": f"cuda:{budget}", "host_budget": "4GiB"}
        yield Tight(train(case, f"{100 * tensors / peak:.0f} %", settings), expected, budget)


def bits_within_budgets(options):
    """Networks, optimizers and types of numbers: unmanaged, under fuzz and within budgets."""
    known = cases(options.quick)
    fuzz = AMPLE | {"mode": "fuzz"}
    with DriverFigures() as driver:
        stock = children.together([train(case, "unmanaged") for case in known], AT_ONCE)
        fuzzed = children.together([train(case, "fuzz", fuzz) for case in known], AT_ONCE)
        tight = [
            run for each in zip(known, stock, fuzzed, strict=True) for run in tight_runs(*each)
        ]
        found = children.together([run.job for run in tight], AT_ONCE)
    outcomes = stock + fuzzed + found
    faults = faults_of(outcomes)
    for pair in zip(stock, fuzzed, strict=True):
        faults += same_bits(*pair)
    for run, outcome in zip(tight, found, strict=True):
        faults += same_bits(run.expected, outcome)
        faults += held_its_budget(outcome, run.budget, driver)
    return result(faults, outcomes, driver_line(found, [run.budget for run in tight], driver))


def driver_line(outcomes, budgets, driver):
    told = [
        (driver.bytes_of(each.pid) or 0) / budget
        for each, budget in zip(outcomes, budgets, strict=True)
    ]
    if not any(told):
        return [f"{len(told)} runs; the driver does not tell what a process holds"]
    return [f"{len(told)} runs; the driver's peak is {min(told):.2f} to {max(told):.2f} of budgets"]


def streams(_):
    """Kernels of random length on three streams."""
    settings = {"budget": "cuda:800MiB", "host_budget": "2GiB"}
    jobs = [
        Job(f"streams {seed} {mode}", "tests.gpu.check.three_streams", (seed,), settings | more)
        for seed in range(4)
        for mode, more in (("enforce", {}), ("fuzz", {"mode": "fuzz"}))
    ]
    outcomes = children.together(jobs, AT_ONCE)
    moved = [each.stats["evicted_bytes"] for each in outcomes if each.stats]
    faults = faults_of(outcomes) + ([] if all(moved) else ["nothing moved"])
    return result(faults, outcomes, [f"{sum(moved) / GIB:.1f} GiB left the card in all"])


def programs(options):
    """The oracle's programs on the card, unmanaged twice, under fuzz and on half of the peak."""
    from tests.gpu.check import oracle_programs

    return oracle_programs.judged(AT_ONCE, options.quick)


def hook(_):
    """A launch-bound loop: off, resting, watching."""
    command = [sys.executable, "benchmarks/bench_card_hook.py", "--rounds", "1"]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=children.environment({}),
            capture_output=True,
            text=True,
            timeout=120,
        )
    except subprocess.TimeoutExpired:
        return result(["bench_card_hook.py did not end within 120 s"], [])
    said = (done.stdout + done.stderr).splitlines()
    faults = [] if done.returncode == 0 else [f"bench_card_hook.py ended with {done.returncode}"]
    return result(faults, [], said[-20:])


def steps_of(network, way, name, settings=None):
    arguments = (network, way, STEPS)
    return children.run(
        Job(f"{network}: {name}", "tests.gpu.check.steps", arguments, settings or {}, limit=60)
    )


def median(outcome):
    return statistics.median(outcome.answer["seconds"][WARM_UP:])


def held_up(seconds):
    """In a step, as the median; results of former runs do not tell."""
    return f"{statistics.median(seconds[WARM_UP:]) * 1e3:.0f} ms" if seconds else ""


def step_rows(outcomes):
    """A row of each, the first of which is of stock."""
    rows = [
        (
            "run", "step", "of stock", "peak of tensors", "moved in a step", "copies alone",
            "stalled", "mapping",
        )
    ]  # fmt: skip
    stock = outcomes[0]
    for each in outcomes:
        name = each.name.partition(": ")[2]
        if not each.is_well:
            rows.append((name, "did not end well", *[""] * 6))
            continue
        answer, stats = each.answer, each.stats
        moved = statistics.median(answer["moved"][WARM_UP:])
        peak = stats["peak_device_bytes"] if stats else answer["peak"]
        rows.append(
            (
                name,
                f"{median(each) * 1e3:.0f} ms",
                f"{median(each) / median(stock):.2f}",
                f"{peak / GIB:.2f} GiB",
                f"{moved / GIB:.1f} GiB" if moved else "",
                f"{moved / 2 / LINK * 1e3:.0f} ms" if moved else "",
                *(held_up(answer.get(key)) if stats else "" for key in ("stalled", "mapping")),
            )
        )
    return rows


def step_times(network):
    """Steps of a large network within shares of its peak, against what PyTorch has for it."""
    stock = steps_of(network, "stock", "stock")
    if not stock.is_well:
        return result(faults_of([stock]), [stock])
    outcomes = [stock]
    fits = steps_of(network, "stock", "90 % of the card", WIDE | {"host_budget": "8GiB"})
    outcomes.append(fits)
    beside = fits.stats["unmanaged_bytes"] if fits.is_well else GIB
    for share in STEP_SHARES:
        budget = int(stock.answer["peak"] * share / 100) + beside
        settings = {"budget": f"cuda:{budget}", "host_budget": "40GiB"}
        outcomes.append(steps_of(network, "stock", f"{share} %", settings))
    outcomes += [steps_of(network, way, way) for way in ("checkpoint", "offload")]
    faults = faults_of(outcomes)
    for found in outcomes[1 : 2 + len(STEP_SHARES)]:
        # Later ones differ between two runs of stock: fused attention adds in any order.
        if found.is_well and found.answer["losses"][0] != stock.answer["losses"][0]:
            faults.append(f"{found.name}: another first loss than stock")
    return result(faults, outcomes, [", ".join(row) for row in step_rows(outcomes)])


ALL = {
    "gate": gate,
    "functions": functions,
    "bits": bits_within_budgets,
    "streams": streams,
    "hook": hook,
    "gpt2_medium": lambda _: step_times("gpt2_medium"),
    "resnet50": lambda _: step_times("resnet50"),
    "unet3d": lambda _: step_times("unet3d"),
    "programs": programs,
}
