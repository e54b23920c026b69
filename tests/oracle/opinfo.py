# SPDX-License-Identifier: Apache-2.0
"""Every operator of torch's own test database, unmanaged against fuzz, bit for bit.

    python -m tests.oracle.opinfo [--share INDEX/COUNT] [--only REGEX] [-o out.json]

Per operator, dtype and sample: forward, backward, in-place and out= variants where the operator
has them. An operator is computed twice unmanaged and once under fuzz; seeds are reset before every
sample. What differs between the two unmanaged runs is reported apart ("unrepeatable"): it says
nothing about Spillway. Errors count as results: the same type must be raised.
"""

import argparse
import json
import os
import random
import re
import sys
import warnings

import numpy
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

from tests.oracle.digests import digest_tensor
from tests.oracle.toggling import fuzzed

DTYPES = (torch.float32, torch.int64)
SEED = 17


def _reset():
    random.seed(SEED)
    numpy.random.seed(SEED)
    torch.manual_seed(SEED)


def _digest(value):
    """Digests of all tensors in a result, and the text of everything else."""
    parts = []
    for leaf in pytree.tree_leaves(value):
        parts.append(digest_tensor(leaf) if torch.is_tensor(leaf) else repr(leaf))
    return parts


def _attempt(function):
    """A digested result, or the type of what was raised: both can be compared."""
    _reset()
    try:
        result = function()
    except Exception as error:  # whatever a kernel raises is what must be raised again
        return [f"raised {type(error).__name__}"]
    return _digest(result)  # outside: an error of ours must not pass for a result


def _tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if torch.is_tensor(leaf)]


def run_unrelated_op():
    """Under fuzz all that it does not use leaves, the latest result among them. What a call reads
    past every op would otherwise be there by chance: its arguments were made right before it.
    """
    torch.zeros(1).add_(1)


def _copies(sample):
    """The sample with tensors of its own, so that in-place variants spoil nothing."""

    def copied(leaf):
        return leaf.detach().clone().requires_grad_(leaf.requires_grad)

    copies = pytree.tree_map_only(torch.Tensor, copied, (sample.input, sample.args, sample.kwargs))
    run_unrelated_op()
    return copies


def _forward_backward(op, sample):
    given, args, kwargs = _copies(sample)
    result = op(given, *args, **kwargs)
    result = sample.output_process_fn_grad(result)
    outputs = [t for t in _tensors(result) if t.requires_grad]
    leaves = [t for t in _tensors((given, args, kwargs)) if t.requires_grad]
    if not outputs or not leaves:
        return result
    seeds = [torch.ones_like(t) * 0.5 for t in outputs]
    run_unrelated_op()
    gradients = torch.autograd.grad(outputs, leaves, seeds, allow_unused=True)
    return result, [g for g in gradients if g is not None]


def _in_place(variant, sample):
    given, args, kwargs = _copies(sample)
    given = given.detach().clone()
    run_unrelated_op()
    with torch.no_grad():
        variant(given, *args, **kwargs)
    return given


def _out(op, sample):
    given, args, kwargs = _copies(sample)
    with torch.no_grad():
        expected = op(given, *args, **kwargs)
        if not all(torch.is_tensor(leaf) for leaf in pytree.tree_leaves(expected)):
            return None
        out = pytree.tree_map(torch.zeros_like, expected)
        out = tuple(out) if isinstance(out, (tuple, list)) else out
        run_unrelated_op()
        op(given, *args, out=out, **kwargs)
    return out


def _samples(op, dtype):
    _reset()
    differentiable = dtype in op.supported_backward_dtypes(torch.device("cpu").type)
    wanted = dtype.is_floating_point and op.supports_autograd and differentiable
    return list(op.sample_inputs("cpu", dtype, requires_grad=wanted))


def compute(op, dtype):
    """{variant and sample index: digest} for one operator and dtype."""
    results = {}
    try:
        samples = _samples(op, dtype)
    except Exception as error:  # a generator may need what this machine lacks
        return {"samples": [f"raised {type(error).__name__}"]}
    for index, sample in enumerate(samples):
        results[f"backward {index}"] = _attempt(lambda s=sample: _forward_backward(op, s))
        if op.inplace_variant is not None and not sample.broadcasts_input:
            results[f"in-place {index}"] = _attempt(
                lambda s=sample: _in_place(op.inplace_variant, s)
            )
        if op.supports_out:
            results[f"out {index}"] = _attempt(lambda s=sample: _out(op, s))
    return results


def name_of(op, dtype):
    variant = f".{op.variant_test_name}" if op.variant_test_name else ""
    return f"{op.name}{variant}:{str(dtype).removeprefix('torch.')}"


def _differing(expected, actual):
    names = expected.keys() | actual.keys()
    return sorted(name for name in names if expected.get(name) != actual.get(name))


def all_cases():
    """(operator, dtype) in the database's order."""
    return [(op, dtype) for op in op_db for dtype in DTYPES if dtype in op.supported_dtypes("cpu")]


def select(share, only):
    """The cases of one share; shares interleave, so that each holds operators of every kind."""
    index, count = (int(part) for part in share.split("/"))
    pattern = re.compile(only)
    return [case for case in all_cases()[index::count] if pattern.search(name_of(*case))]


def _write(path, report):
    if path is None:
        return
    with open(f"{path}.partial", "w", encoding="utf-8") as file:
        json.dump(report, file)
    os.replace(f"{path}.partial", path)


def _check(report, case):
    first, again = compute(*case), compute(*case)
    with fuzzed() as moved:
        managed = compute(*case)
    name = name_of(*case)
    report["compared"] += len(first)
    report["moved_bytes"] += moved.bytes
    report["means"] = moved.means
    unrepeatable = set(_differing(first, again))
    differing = [variant for variant in _differing(first, managed) if variant not in unrepeatable]
    if unrepeatable:
        report["unrepeatable"][name] = sorted(unrepeatable)
    if differing:
        report["different"][name] = differing


def _check_uninitialised(report, case):
    """Reports as unrepeatable what shows memory that nobody wrote; involves no Spillway."""
    plain = compute(*case)
    torch.use_deterministic_algorithms(True)  # fills new memory with not-a-number
    try:
        filled = compute(*case)
    finally:
        torch.use_deterministic_algorithms(False)
    differing = _differing(plain, filled)
    if differing:
        report["unrepeatable"][name_of(*case)] = differing


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--share", default="0/1", metavar="INDEX/COUNT")
    parser.add_argument("--only", default="", metavar="REGEX")
    parser.add_argument("--skip", default="", metavar="NAME,...", help="not to be run at all")
    parser.add_argument(
        "--uninitialised", action="store_true", help="what changes where torch fills new memory?"
    )
    parser.add_argument("--count", action="store_true", help="only write the names of all cases")
    parser.add_argument("-o", "--output")
    options = parser.parse_args(arguments)
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    skipped = set(filter(None, options.skip.split(",")))
    report = {"running": None, "complete": False, "cases": [], "compared": 0, "moved_bytes": 0}
    report |= {"different": {}, "unrepeatable": {}}
    check = _check_uninitialised if options.uninitialised else _check
    if options.count:
        report["known"] = [name_of(*case) for case in all_cases()]
    for case in [] if options.count else select(options.share, options.only):
        name = name_of(*case)
        if name in skipped:
            continue
        report["running"] = name
        _write(options.output, report)
        check(report, case)
        report["cases"].append(name)
    report |= {"running": None, "complete": True}
    _write(options.output, report)
    if options.output is None:
        json.dump({k: v for k, v in report.items() if k != "cases"}, sys.stdout, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
