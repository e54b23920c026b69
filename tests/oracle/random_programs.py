# SPDX-License-Identifier: Apache-2.0
"""Random programs over random shapes, views, in-place ops and backward.

    python -m tests.oracle.random_programs [--seed S] [--count N] [--length L] [-o out.json]
    python -m tests.oracle.random_programs --seed S --lines FILE [-o out.json]

The second form runs one program, the lines of a file; so is shrunk what ends the process.

A program is a list of lines of Python, so what fails is its own repro. Each line reads and writes
the pool `v` of tensors. A program is run unmanaged twice and under fuzz once; if the bits differ it
is shrunk by leaving out lines for as long as it still fails.
"""

import argparse
import copy
import json
import pickle
import random
import re
import sys
import traceback
import warnings
from pathlib import Path

import torch

from tests.oracle.digests import digest_tensor
from tests.oracle.toggling import fuzzed

# {a}, {b}: places in the pool; {n}, {m}: sizes; {x}: a number; {d}: a new place
CREATE = (
    "v[{d}] = torch.randn({n}, {m})",
    "v[{d}] = torch.randn({m}, {n}).t()",
    "v[{d}] = torch.arange({n} * {m}, dtype=torch.float32).view({n}, {m}) / {n}",
    "v[{d}] = torch.randn({n}, {m}, requires_grad=True)",
    "v[{d}] = torch.zeros({n}, {m}).normal_()",
    "v[{d}] = torch.randn({n}, 2, {m})[:, {bit}]",
)
READ = (
    "v[{d}] = v[{a}] * {x} + 1",
    "v[{d}] = torch.tanh(v[{a}])",
    "v[{d}] = v[{a}] @ v[{b}].t() if v[{a}].shape[1] == v[{b}].shape[1] else v[{b}].clone()",
    "v[{d}] = torch.cat([v[{a}], v[{a}].flip(0)])",
    "v[{d}] = torch.softmax(v[{a}], dim={bit})",
    "v[{d}] = v[{a}].sort(dim={bit})[0]",
    "v[{d}] = v[{a}].cumsum({bit}) * 0.1",
    "v[{d}] = torch.where(v[{a}] > 0, v[{a}], v[{a}].detach() * {x})",
    "v[{d}] = v[{a}].index_select(0, torch.randint(v[{a}].shape[0], ({n},)))",
    "v[{d}] = torch.nn.functional.dropout(v[{a}], 0.3)",
    "v[{d}] = v[{a}].detach().to(torch.bfloat16).float()",
    "v[{d}] = torch.nn.functional.layer_norm(v[{a}], v[{a}].shape[1:])",
)
VIEW = (
    "v[{d}] = v[{a}].t()",
    "v[{d}] = v[{a}][::2]",
    "v[{d}] = v[{a}][:, : max(1, v[{a}].shape[1] // 2)]",
    "v[{d}] = v[{a}].unsqueeze(0).expand(2, -1, -1)[1]",
    "v[{d}] = v[{a}].narrow(0, 0, max(1, v[{a}].shape[0] - 1))",
    "v[{d}] = v[{a}].detach().reshape(-1, 1).view(1, -1)[:, : {n} * 2]",
    "v[{d}] = v[{a}].as_strided(v[{a}].shape, v[{a}].stride(), v[{a}].storage_offset())",
    "v[{d}] = v[{a}].diagonal().unsqueeze(1)",
)
WRITE = (
    "with torch.no_grad(): v[{a}].mul_({x})",
    "with torch.no_grad(): v[{a}][0].fill_({x})",
    "with torch.no_grad(): v[{a}].add_(v[{a}].mean())",
    "with torch.no_grad(): v[{a}].clamp_(-2, 2)",
    "with torch.no_grad(): v[{a}].data.copy_(v[{a}].flip(1))",
    # out= and resize_ get memory of their own: where an exported storage must grow, torch leaves a
    # tensor larger than its storage behind, and reading that is undefined.
    "with torch.no_grad(): v[{d}] = torch.mul(v[{a}], {x}, out=torch.empty(0))",
    "with torch.no_grad(): torch.mul(v[{a}], {x}, out=v[{a}])",
    "v[{d}] = v[{a}].detach().clone().resize_({n}, {m}).fill_({x})",
    "with torch.no_grad(): torch._foreach_mul_([v[{a}], v[{b}]], {x})",
    "v[{a}].detach().numpy()[0] *= {x}",
    "v[{d}] = v[{a}].clone().relu_().masked_fill_(v[{a}] > 1, {x})",
    "v[{d}] = torch.empty(0).set_(v[{a}].detach())",
)
OTHER = (
    "v[{a}] = v[{b}]",
    "v[{a}] = torch.randn({n}, {m})",
    "v[{a}].sum().backward(retain_graph=True) if v[{a}].requires_grad else None",
    "(v[{a}].sum() * v[{b}].mean()).backward() if v[{a}].requires_grad else None",
    "v[{d}] = next((p.grad for p in v.values() if p.is_leaf and p.grad is not None), v[{a}])",
    "v[{d}] = pickle.loads(pickle.dumps(v[{a}].detach()))",
    "v[{d}] = copy.deepcopy(v[{a}].detach())",
)
PLACES = 6
KINDS = ((CREATE, 3), (READ, 5), (VIEW, 4), (WRITE, 4), (OTHER, 2))


def generate(seed, length):
    """The lines of one program. The same seed gives the same program on every machine."""
    source = random.Random(seed)
    sizes = source.choice([(2, 9), (16, 70), (100, 300)])
    size = {"n": source.randint(*sizes), "m": source.randint(*sizes)}
    lines = [source.choice(CREATE).format(d=d, bit=d % 2, **size) for d in range(PLACES)]
    while len(lines) < length:
        templates = source.choices([k for k, _ in KINDS], [w for _, w in KINDS])[0]
        lines.append(
            source.choice(templates).format(
                a=source.randrange(PLACES),
                b=source.randrange(PLACES),
                d=source.randrange(PLACES),
                n=source.randint(*sizes),
                m=source.randint(*sizes),
                x=source.choice(["0.5", "-1.25", "0.99"]),
                bit=source.randrange(2),
            )
        )
    return lines


PLACE = re.compile(r"v\[(\d+)\]")


def summed_places(line, seed):
    """The places whose tensors are added up after the line: with odd seeds all that it names."""
    return sorted({int(place) for place in PLACE.findall(line)}) if seed % 2 else []


def execute(lines, seed):
    """The type of what each line raised, as programs may be wrong, and digests of what they left.

    What is added up after a line (summed_places) shows a value that a later line replaces as well,
    but that is an op more, which brings it back.
    """
    torch.manual_seed(seed)
    pool, seen = {}, []
    scope = {"torch": torch, "v": pool, "pickle": pickle, "copy": copy}
    for line in lines:
        try:
            exec(line, scope)
        except Exception as error:
            seen.append(type(error).__name__)
        else:
            seen.append(None)
        for place in summed_places(line, seed):
            if place in pool:
                seen.append(repr(pool[place].detach().double().sum().item()))
    for place, tensor in sorted(pool.items()):
        seen.append((place, digest_tensor(tensor)))
        if tensor.is_leaf and tensor.grad is not None:
            seen.append((place, "grad", digest_tensor(tensor.grad)))
    return seen


def fails(lines, seed, tally=None):
    """Returns whether fuzz changes what the program computes. Unrepeatable ones do not count."""
    first, again = execute(lines, seed), execute(lines, seed)
    if first != again:
        if tally is not None:
            tally["unrepeatable"].append(seed)
        return False
    with fuzzed() as moved:
        managed = execute(lines, seed)
    if tally is not None:
        tally["moved_bytes"] += moved.bytes
        tally["means"] = moved.means
    return managed != first


def shrink(lines, still_fails):
    """Leaves out ever smaller runs of lines while what remains still fails."""
    width = len(lines) // 2
    while width >= 1:
        start = 0
        while start < len(lines):
            without = lines[:start] + lines[start + width :]
            if without and still_fails(without):
                lines = without
            else:
                start += width
        width //= 2
    return lines


def repro(lines, seed):
    """A script that needs nothing of this folder."""
    body = "\n".join(f"    try_({line!r}, {summed_places(line, seed)})" for line in lines)
    return (
        "import copy, pickle, torch, spillway\n"
        "def run():\n"
        f"    torch.manual_seed({seed}); v = {{}}; sums = {{}}\n"
        "    def try_(line, summed):\n"
        "        try: exec(line, dict(globals(), v=v))\n"
        "        except Exception: pass\n"
        "        for k in summed:\n"
        "            if k in v: sums[f'sum {len(sums)}'] = v[k].detach().double().sum()\n"
        f"{body}\n"
        "    grads = {f'{k}.grad': t.grad for k, t in v.items() if t.is_leaf}\n"
        "    kept = {k: t for k, t in (v | grads | sums).items() if t is not None}\n"
        "    return {k: t.detach().cpu().flatten().clone() for k, t in kept.items()}\n"
        "expected = run()\n"
        'spillway.enable(mode="fuzz", budget="cpu:2GiB", min_size=1)\n'
        "actual = run(); spillway.disable()\n"
        "assert expected.keys() == actual.keys()\n"
        "for k, e in expected.items():\n"
        "    assert torch.equal(e.view(torch.uint8), actual[k].view(torch.uint8)), k\n"
    )


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--length", type=int, default=30)
    parser.add_argument("--lines", type=Path, help="a program to run in place of generated ones")
    parser.add_argument("-o", "--output")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    report = {"failures": [], "running": None, "complete": False}
    report |= {"ran": 0, "moved_bytes": 0, "unrepeatable": []}

    def write():
        if options.output:
            with open(options.output, "w", encoding="utf-8") as file:
                json.dump(report, file)

    given = options.lines.read_text(encoding="utf-8").splitlines() if options.lines else None
    if given is not None:
        options.count = 1
    for seed in range(options.seed, options.seed + options.count):
        lines = generate(seed, options.length) if given is None else given
        report["running"] = {"seed": seed, "lines": lines}
        write()
        try:
            if fails(lines, seed, report):
                smallest = shrink(lines, lambda one, seed=seed: fails(one, seed))
                report["failures"].append({"seed": seed, "program": repro(smallest, seed)})
        except Exception:
            text = traceback.format_exc()
            report["failures"].append({"seed": seed, "program": repro(lines, seed), "error": text})
        report["ran"] += 1
    report |= {"running": None, "complete": True}
    write()
    if not options.output:
        json.dump(report, sys.stdout, indent=1)
    return 1 if report["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
