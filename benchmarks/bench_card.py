# SPDX-License-Identifier: Apache-2.0
"""Is the machine file of this graphics card right? Needs a CUDA card."""

import json
import sys

import report
import torch
from graphics_card import ROOT, free_card_memory, milliseconds, run

GIB = 2**30
SIDE = 8192  # of square matrices: large enough to fill the card
LAUNCHES = 500  # more would not fit the card's queue


def per_second(amount, work, repeats=10, queued=False):
    for _ in range(3):
        work()
    return amount / (milliseconds(work, repeats, queued) / 1e3)


def arithmetic(file):
    for name, dtype, allow in (
        ("float32", torch.float32, False),
        ("tensorfloat32", torch.float32, True),
        ("bfloat16", torch.bfloat16, True),
    ):
        torch.backends.cuda.matmul.allow_tf32 = allow
        a, b = (torch.randn(SIDE, SIDE, device="cuda").to(dtype) for _ in range(2))
        measured = per_second(2 * SIDE**3, lambda a=a, b=b: a @ b) / 1e12
        given = file["device"]["arithmetic"][name]["flop_per_second"] / 1e12
        yield name, f"{given:.0f} TFLOP/s", f"{measured:.0f} TFLOP/s", f"matrices of {SIDE}^2"
    torch.backends.cuda.matmul.allow_tf32 = False


def memory(file):
    source = torch.randn(GIB, device="cuda")
    target = torch.empty_like(source)
    measured = per_second(2 * source.nbytes, lambda: target.copy_(source)) / 1e9
    given = file["device"]["memory"]["bytes_per_second"] / 1e9
    yield "memory", f"{given:.0f} GB/s", f"{measured:.0f} GB/s", "a copy of 4 GiB"


def launch(file):
    small = torch.zeros(32, device="cuda")

    def additions():
        for _ in range(LAUNCHES):
            small.add_(1)

    given = f"{file['device']['launch']['ns']} ns"
    for name, expected, queued in (("launch", given, False), ("launch, queued ahead", "-", True)):
        measured = 1e9 / per_second(LAUNCHES, additions, queued=queued)
        yield name, expected, f"{measured:.0f} ns", f"{LAUNCHES} additions of 32 numbers"


def links(file):
    on_card = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    locked = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    plain = torch.ones(GIB, dtype=torch.uint8)
    for link, copy in (
        ("device-to-host", lambda host, n: host[:n].copy_(on_card[:n], non_blocking=True)),
        ("host-to-device", lambda host, n: on_card[:n].copy_(host[:n], non_blocking=True)),
    ):
        given = file["links"][link]
        for kind, host, expected in (
            ("page-locked", locked, f"{given['bytes_per_second'] / 1e9:.1f} GB/s"),
            ("other", plain, "-"),
        ):
            measured = per_second(GIB, lambda copy=copy, host=host: copy(host, GIB)) / 1e9
            yield link, expected, f"{measured:.1f} GB/s", f"1 GiB of {kind} memory"
        latency = 1e9 / per_second(1, lambda copy=copy: copy(locked, 4096), 50, queued=True)
        expected = f"{given['latency_ns']} ns"
        yield f"{link}, latency", expected, f"{latency:.0f} ns", "4 KiB of page-locked memory"


def card(report_, machine, smoke):
    text = (ROOT / "machines" / f"{machine}.json").read_text(encoding="utf-8")
    rows = [("figure", "machine file", "measured", "how")]
    for figures in (launch,) if smoke else (arithmetic, memory, launch, links):
        rows += figures(json.loads(text))
        free_card_memory()
    report_.add("card", "Is the machine file right?", report.table(*rows))


if __name__ == "__main__":
    sys.exit(run({"card": card}, __doc__))
