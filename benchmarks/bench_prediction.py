# SPDX-License-Identifier: Apache-2.0
"""How far are steps that were recorded without memory from what a graphics card does?

Records networks of `paper_tables` for the card's machine file, then trains them on the card: the
peak, the step time, and the largest size that fits, each predicted and measured. Needs a CUDA card.
"""

import collections
import dataclasses
import sys

import report
import torch
from graphics_card import ROOT, free_card_memory, milliseconds, run

sys.path.insert(0, str(ROOT))
GIB = 2**30
STEPS = 10  # timed


@dataclasses.dataclass(frozen=True)
class Case:
    """A network of benchmarks/paper_tables/networks at one size of what grows."""

    label: str
    network: str
    grows: str
    size: int

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
    times = collections.Counter()
    for op in step.to_dict()["ops"]:
        times[kind_of(op["name"])] += op["ns"] / 1e6
    return times


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

    def by_kind(self):
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as told:
            self.step()
            torch.cuda.synchronize()
        times = collections.Counter()
        for row in told.key_averages():
            if row.key.startswith("aten::") and row.self_device_time_total > 0:
                times[kind_of(row.key)] += row.self_device_time_total / 1e3
        return times


def compared(case, machine):
    """The row of a network, and its times by kind of op: by the roofline, and on the card."""
    step = record(case, machine)
    running = OnTheCard(case)
    peak, reserved = running.peak()
    taken, kernels = milliseconds(running.step, STEPS), running.by_kind()
    expected = step.duration_ns / 1e6
    row = (
        f"{case.label}, {case.grows} {case.size}",
        f"{step.peak_bytes / GIB:.2f} GiB",
        f"{peak / GIB:.2f} GiB",
        f"{peak / step.peak_bytes:.3f}",
        f"{reserved / GIB:.2f} GiB",
        f"{expected:.1f} ms",
        f"{sum(kernels.values()):.1f} ms",
        f"{taken:.1f} ms",
        f"{taken / expected:.2f}",
    )
    print(row, flush=True)
    return row, predicted_by_kind(step), kernels


def predictions(report_, machine, smoke):
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
    for case in CASES[:1] if smoke else CASES:
        row, expected, measured = compared(case, machine)
        rows.append(row)
        roofline += expected
        kernels += measured
        free_card_memory()
    report_.add(
        "prediction",
        "How far are recordings without memory from the card?",
        [
            "*Recorded* is what `spillway record --without-memory` says, without kernels' "
            "workspace. On the card: bytes asked of PyTorch's allocator at its peak, workspace "
            "among them, and what it reserved; kernels' times by PyTorch's profiler; the "
            f"step by events, median of {STEPS}. Matrix products in float32, convolutions in "
            "TensorFloat-32: PyTorch's defaults.",
            "",
            *report.table(*rows),
        ],
    )
    kinds = [("kind of op", "roofline", "kernels on the card", "of roofline")]
    for kind, measured in kernels.most_common():
        expected = roofline[kind]
        ratio = f"{measured / expected:.2f}" if expected else "-"
        kinds.append((kind, f"{expected:.1f} ms", f"{measured:.1f} ms", ratio))
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
        free_card_memory()


def largest_that_fits(case, guess):
    """(a size that fits, the next larger one tried, which does not), apart by a 64th of `guess`."""
    good, bad = guess // 2, guess + guess // 8
    while not fits(case, good):
        good, bad = good // 2, good
    while fits(case, bad):
        good, bad = bad, bad + bad // 8
    while bad - good > max(1, guess // 64):
        middle = (good + bad) // 2
        good, bad = (middle, bad) if fits(case, middle) else (good, middle)
    return good, bad


def largest(report_, machine, smoke):
    rows = [("network", "predicted", "fits", "does not fit", "of predicted")]
    for case in () if smoke else GROWING:
        low, high = (record(case, machine, size).peak_bytes for size in (case.size, 2 * case.size))
        room = torch.cuda.mem_get_info()[0]
        predicted = int(case.size + (room - low) * case.size / (high - low))
        good, bad = largest_that_fits(case, predicted)
        share = f"{good / predicted:.2f}"
        rows.append((f"{case.label}, {case.grows}", predicted, good, bad, share))
        print(rows[-1], flush=True)
    report_.add(
        "prediction-largest",
        "Which size fits?",
        [
            "Predicted from two recordings and the card's free bytes, without a margin for "
            "kernels' workspace and fragments; tried to a 64th.",
            "",
            *report.table(*rows),
        ],
    )


if __name__ == "__main__":
    sys.exit(run({"prediction": predictions, "largest": largest}, __doc__))
