# SPDX-License-Identifier: Apache-2.0
"""How far are steps that were recorded without memory from what a graphics card does?

Records networks of `paper_tables` for the card's machine file, then trains them on the card: the
peak, the step time, and the largest size that fits, each predicted and measured. Needs a CUDA card.
"""

import argparse
import collections
import dataclasses
import json
import statistics
import sys
from pathlib import Path

import torch

import report

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
PAGE = ROOT / "docs" / "gpu" / "predictions.md"
GIB = 2**30
#: A word of the card's name, and its machine file.
MACHINES = {
    "H100": "h100",
    "H200": "h200",
    "GH200": "gh200",
    "A100": "a100",
    "4090": "rtx-4090",
}


@dataclasses.dataclass(frozen=True)
class Case:
    """A network of paper_tables/networks at one size of what grows."""

    label: str
    network: str
    grows: str
    size: int
    tensorfloat32: bool = False  # also in matrix products, as --tf32 of many programs

    def build(self, size=None):
        from paper_tables import networks

        return networks.build(self.network, **{self.grows: size or self.size})


CASES = (
    Case("ResNet-50", "resnet", "batch", 128),
    Case("Inception-V3", "inception_v3", "batch", 128),
    Case("VGG-16", "vgg", "batch", 64),
    Case("WRN-40-4", "wide_resnet", "batch", 256),
    Case("3D U-Net", "unet3d", "resolution", 160),
    Case("residual 3D U-Net", "residual_unet3d", "resolution", 160),
    Case("LSTM language model", "lstm_language_model", "batch", 256),
    Case("attention NMT, 8 layers", "translation", "batch", 256),
    Case("mixture of 12 experts", "mixture_of_experts", "experts", 12),
    Case("DeepSpeech, 100 frames", "deep_speech", "steps", 100),
)
#: Size a network grows by, and from where its peak is a straight line.
GROWING = (
    Case("ResNet-50", "resnet", "batch", 64),
    Case("VGG-16", "vgg", "batch", 32),
    Case("WRN-40-4", "wide_resnet", "batch", 64),
)


def kind_of(op):
    """The kind of work an operator's name tells; `other` moves bytes and computes little."""
    backward = "backward" in op
    for word, kind in (
        ("conv", "convolution"),
        ("cudnn_rnn", "recurrent kernel"),
        ("norm", "normalisation"),
        ("pool", "pooling"),
    ):
        if word in op:
            return kind + (", backward" if backward else "")
    if any(word in op for word in ("::mm", "addmm", "bmm", "matmul", "linear")):
        return "matrix product"
    return "other"


def record(case, machine, size=None):
    import spillway

    return spillway.record_step(lambda: case.build(size), machine=machine)


def predicted_by_kind(step):
    milliseconds = collections.Counter()
    for op in step.to_dict()["ops"]:
        milliseconds[kind_of(op["name"])] += op["ns"] / 1e6
    return milliseconds


class OnTheCard:
    """The network as it trains: sizes in bytes, times in milliseconds."""

    def __init__(self, case, size=None, warm=3):
        with torch.device("cuda"):
            self.step = case.build(size)
        for _ in range(warm):
            self.step()
        torch.cuda.synchronize()

    def peak(self):
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
        self.step()
        torch.cuda.synchronize()
        told = torch.cuda.memory_stats()
        return told["requested_bytes.all.peak"], told["reserved_bytes.all.peak"]

    def milliseconds(self, steps):
        taken = []
        for _ in range(steps):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            self.step()
            end.record()
            torch.cuda.synchronize()
            taken.append(begin.elapsed_time(end))
        return statistics.median(taken)

    def by_kind(self):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as told:
            self.step()
            torch.cuda.synchronize()
        milliseconds = collections.Counter()
        for row in told.key_averages():
            if row.key.startswith("aten::") and row.self_device_time_total > 0:
                milliseconds[kind_of(row.key)] += row.self_device_time_total / 1e3
        return milliseconds


def forget():
    import gc

    gc.collect()
    torch.cuda.empty_cache()


def predictions(report_, machine, cases, steps):
    rows = [
        (
            "network",
            "peak, recorded",
            "peak on the card",
            "of recorded",
            "reserved",
            "step, roofline",
            "kernels",
            "step on the card",
            "of roofline",
        )
    ]
    roofline, kernels = collections.Counter(), collections.Counter()
    for case in cases:
        step = record(case, machine)
        running = OnTheCard(case)
        peak, reserved = running.peak()
        taken, kinds = running.milliseconds(steps), running.by_kind()
        del running
        forget()
        roofline += predicted_by_kind(step)
        kernels += kinds
        expected = step.duration_ns / 1e6
        rows.append(
            (
                f"{case.label}, {case.grows} {case.size}",
                f"{step.peak_bytes / GIB:.2f} GiB",
                f"{peak / GIB:.2f} GiB",
                f"{peak / step.peak_bytes:.3f}",
                f"{reserved / GIB:.2f} GiB",
                f"{expected:.1f} ms",
                f"{sum(kinds.values()):.1f} ms",
                f"{taken:.1f} ms",
                f"{taken / expected:.2f}",
            )
        )
        print(rows[-1], flush=True)
    report_.add(
        "prediction",
        "How far are recordings without memory from the card?",
        [
            "*Recorded* is what `spillway record --without-memory` says, without the scratch memory of "
            "kernels. On the card: bytes asked of PyTorch's allocator at its peak, kernels' scratch "
            "among them, and what it reserved; kernels' times by PyTorch's profiler; the step by "
            "events, median of "
            f"{steps}. Matrix products in float32, convolutions in TensorFloat-32: PyTorch's "
            "defaults.",
            "",
            *report.table(*rows),
        ],
    )
    kinds = [("kind of op", "roofline", "kernels on the card", "of roofline")]
    for kind, milliseconds in kernels.most_common():
        expected = roofline[kind]
        ratio = f"{milliseconds / expected:.2f}" if expected else "-"
        kinds.append((kind, f"{expected:.1f} ms", f"{milliseconds:.1f} ms", ratio))
    report_.add(
        "prediction-kinds",
        "Which ops are slower than the roofline?",
        ["The steps above, added up.", "", *report.table(*kinds)],
    )


def fits(case, size):
    """Whether two steps of it train on the card."""
    try:
        OnTheCard(case, size, warm=2)
        return True
    except torch.OutOfMemoryError:
        return False
    finally:
        forget()


def largest(report_, machine, cases):
    rows = [("network", "predicted", "fits", "does not fit", "of predicted")]
    for case in cases:
        low, high = (record(case, machine, size).peak_bytes for size in (case.size, 2 * case.size))
        room = torch.cuda.mem_get_info()[0]
        predicted = int(case.size + (room - low) * case.size / (high - low))
        good, bad = predicted // 2, predicted + predicted // 8
        while not fits(case, good):
            good, bad = good // 2, good
        while fits(case, bad):
            good, bad = bad, bad + bad // 8
        while bad - good > max(1, predicted // 64):
            middle = (good + bad) // 2
            if fits(case, middle):
                good = middle
            else:
                bad = middle
        rows.append((f"{case.label}, {case.grows}", predicted, good, bad, f"{good / predicted:.2f}"))
        print(rows[-1], flush=True)
    report_.add(
        "prediction-largest",
        "Which size fits?",
        [
            "Predicted from two recordings and the card's free bytes, without a margin for kernels' "
            "scratch memory and fragments; tried to a 64th.",
            "",
            *report.table(*rows),
        ],
    )


def rate(work, amount, repeats=10, queued=False):
    """`amount` per second of `work`, the median of its repeats. `queued`: the card has been given
    all of it before it begins."""
    for _ in range(3):
        work()
    taken = []
    for _ in range(repeats):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if queued:
            torch.cuda._sleep(40_000_000)
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        taken.append(begin.elapsed_time(end) / 1e3)
    return amount / statistics.median(taken)


def card(report_, machine):
    """The figures of the machine file, as they are here."""
    rows = [("figure", "machine file", "measured", "how")]
    file = json.loads((ROOT / "machines" / f"{machine}.json").read_text(encoding="utf-8"))
    arithmetic = file["device"]["arithmetic"]
    for name, dtype, allow in (
        ("float32", torch.float32, False),
        ("tensorfloat32", torch.float32, True),
        ("bfloat16", torch.bfloat16, True),
    ):
        torch.backends.cuda.matmul.allow_tf32 = allow
        n = 8192
        a, b = (torch.randn(n, n, device="cuda").to(dtype) for _ in range(2))
        measured = rate(lambda a=a, b=b: a @ b, 2 * n**3)
        given = arithmetic[name]["flop_per_second"]
        rows.append(
            (name, f"{given / 1e12:.0f} TFLOP/s", f"{measured / 1e12:.0f} TFLOP/s", f"matrices of {n}^2")
        )
    torch.backends.cuda.matmul.allow_tf32 = False
    source = torch.randn(GIB, device="cuda")
    target = torch.empty_like(source)
    measured = rate(lambda: target.copy_(source), 2 * source.nbytes)
    given = file["device"]["memory"]["bytes_per_second"]
    rows.append(("memory", f"{given / 1e9:.0f} GB/s", f"{measured / 1e9:.0f} GB/s", "a copy of 4 GiB"))
    del source, target
    forget()
    small = torch.zeros(32, device="cuda")
    count = 500  # more would not fit the card's queue

    def launch():
        for _ in range(count):
            small.add_(1)

    how = f"{count} additions of 32 numbers"
    given = file["device"]["launch"]["ns"]
    queued = 1e9 / rate(launch, count, queued=True)
    rows.append(("launch", f"{given} ns", f"{queued:.0f} ns", how + ", queued ahead"))
    rows.append(("launch by PyTorch", "-", f"{1e9 / rate(launch, count):.0f} ns", how))
    on_card = torch.empty(GIB, dtype=torch.uint8, device="cuda")
    locked = torch.empty(GIB, dtype=torch.uint8, pin_memory=True)
    plain = torch.ones(GIB, dtype=torch.uint8)
    for link, copy in (
        ("device-to-host", lambda host, n: host[:n].copy_(on_card[:n], non_blocking=True)),
        ("host-to-device", lambda host, n: on_card[:n].copy_(host[:n], non_blocking=True)),
    ):
        given = file["links"][link]
        full = rate(lambda copy=copy: copy(locked, GIB), GIB)
        slow = rate(lambda copy=copy: copy(plain, GIB), GIB, 3)
        latency = 1e9 / rate(lambda copy=copy: copy(locked, 4096), 1, 50, queued=True)
        rows += [
            (link, f"{given['bytes_per_second'] / 1e9:.1f} GB/s", f"{full / 1e9:.1f} GB/s",
             "1 GiB of page-locked memory"),
            (f"{link}, pageable", "-", f"{slow / 1e9:.1f} GB/s", "1 GiB of other memory"),
            (f"{link}, latency", f"{given['latency_ns']} ns", f"{latency:.0f} ns",
             "4 KiB of page-locked memory"),
        ]  # fmt: skip
    report_.add("card", "Is the machine file right?", report.table(*rows))


class CardReport(report.Report):
    """A report that names the card instead of the processor's machine."""

    def circumstances(self):
        of_the_host = super().circumstances()
        return f"{torch.cuda.get_device_name(0)}, CUDA {torch.version.cuda}. {of_the_host}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("questions", nargs="*", help="prediction, largest, card; all by default")
    parser.add_argument("--machine", help="machine file; found by the card's name by default")
    parser.add_argument("--write", action="store_true", help=f"into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--page", type=Path, help="another page to write to")
    parser.add_argument("--smoke", action="store_true", help="the smallest case alone")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench_prediction: no graphics card here, nothing measured")
        return 0
    name = torch.cuda.get_device_name(0)
    machine = options.machine or next((m for w, m in MACHINES.items() if w in name.split()), None)
    if machine is None:
        parser.error(f"no machine file is known for {name}: name one with --machine")
    page = options.page or (PAGE if options.write else None)
    asked = options.questions or ["card", "prediction", "largest"]
    told = CardReport(page, "python benchmarks/bench_prediction.py " + " ".join(options.questions))
    if "card" in asked:
        card(told, machine)
    if "prediction" in asked:
        predictions(told, machine, CASES[:1] if options.smoke else CASES, 3 if options.smoke else 10)
    if "largest" in asked and not options.smoke:
        largest(told, machine, GROWING)
    return 0


if __name__ == "__main__":
    sys.exit(main())
