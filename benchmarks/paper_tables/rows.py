# SPDX-License-Identifier: Apache-2.0
"""The papers' published figures, row by row.

A row says which network grew in which size on which machine, how far it got without the paper's
system and with it. docs/paper-tables.md names the papers in full. `soft` rows rest on second-hand
figures: the paper itself was not at hand.
"""

import dataclasses

GIB = 2**30
MB = 2**20  # what the papers of the time wrote MB for, as nvidia-smi does

#: Names of the networks in the tables.
TITLES = {
    "resnet": "ResNet",
    "resnet_layers": "ResNet",
    "inception_v3": "Inception-V3",
    "inception_v4": "Inception-V4",
    "vgg": "VGG",
    "alexnet": "AlexNet",
    "unet3d": "3D U-Net",
    "residual_unet3d": "residual 3D U-Net",
    "lstm_language_model": "LSTM language model",
    "translation": "attention NMT",
    "mixture_of_experts": "mixture of experts",
    "deep_speech": "DeepSpeech RNN",
}


@dataclasses.dataclass(frozen=True)
class Speed:
    """The paper's measurement at one size, in the row's unit of speed."""

    value: int
    without: float | None  #: None where it did not fit, or was not published
    with_system: float | None


@dataclasses.dataclass(frozen=True)
class Slowdown:
    """By what share the step was published to be slower than without the paper's system."""

    share: float
    at_most: bool = False  #: published as a limit: "less than 10 %"

    @property
    def ratio(self) -> float:
        """Step time with the system over that without: losing 18 % of the speed is 1.22."""
        return 1 / (1 - self.share)


@dataclasses.dataclass(frozen=True)
class Row:
    """One published figure."""

    paper: str
    network: str  #: of networks.BUILDERS
    sizes: tuple[tuple[str, int], ...]  #: what stays the same
    grows: str  #: which size grows
    unit: str  #: what that size is called in the table
    machine: str
    planner: str  #: our rendition of the paper's
    published: int  #: the largest that ran with the paper's system
    published_base: int | None = None  #: and without
    speeds: tuple[Speed, ...] = ()  #: where published
    slowdown: Slowdown | None = None  #: where no speed was published but this
    options: tuple[tuple[str, str], ...] = ()  #: of the planner, as the paper states them
    samples: str = "images"  #: what a sample is called; empty: speed is seconds a step
    host_bytes: int = 64 * GIB
    soft: bool = False
    remark: str = ""

    @property
    def speed_values(self) -> list[int]:
        """The sizes at which speed is asked for: what was published, and the largest."""
        return sorted({*(speed.value for speed in self.speeds), self.published})

    @property
    def speed_unit(self) -> str:
        return f"{self.samples}/s" if self.samples else "s/step"

    def speed(self, value: int, step_ns: int) -> float:
        """The speed of a step at that size."""
        seconds = step_ns / 1e9
        if not self.samples:
            return seconds
        batch = value if self.grows == "batch" else dict(self.sizes).get("batch", 1)
        return batch / seconds

    @property
    def title(self) -> str:
        return _title(self.network, self.sizes)


@dataclasses.dataclass(frozen=True)
class MemoryRow:
    """The device memory that a step of one size was published to need."""

    paper: str
    network: str
    sizes: tuple[tuple[str, int], ...]
    value: int  #: of the size that the recording grows
    machine: str
    planner: str
    published: int  #: bytes with the paper's system
    published_base: int | None  #: and without; None where it did not fit
    host_bytes: int = 64 * GIB
    soft: bool = False

    @property
    def title(self) -> str:
        return _title(self.network, self.sizes)


def _title(network: str, sizes: tuple[tuple[str, int], ...]) -> str:
    name = TITLES[network]
    fixed = ", ".join(f"{what} {value}" for what, value in sizes if what != "depth")
    depth = dict(sizes).get("depth")
    return name + (f"-{depth}" if depth else "") + (f", {fixed}" if fixed else "")


def _meng(network: str, base: int, published: int, remark: str = "", **sizes: int) -> Row:
    return Row(
        "Meng 2017", network, tuple(sizes.items()), "batch", "batch", "m40", "swap-critical-path",
        published, base, slowdown=Slowdown(0.10, at_most=True),
        samples="sentences" if remark else "images", remark=remark,
    )  # fmt: skip


def _superneurons(network: str, base: int, published: int, **sizes: int) -> Row:
    return Row(
        "SuperNeurons", network, tuple(sizes.items()), "batch", "batch", "k40", "superneurons",
        published, base, soft=True,
    )  # fmt: skip


_UNSTATED = "the paper does not state the widths: those of the large Penn Treebank model"
_NMT = "the paper does not state the widths: 512, with 10 000 words"
_EXPERTS = "the paper does not state the layers: six and six, with the parameters that it states"
_FRAMES = "the paper does not state the widths: 2,048, of Hannun et al. 2014"

ROWS: tuple[Row, ...] = (
    _meng("resnet", 144, 664, depth=50),
    _meng("inception_v3", 208, 548),
    _meng("translation", 496, 824, _NMT, steps=30),
    _meng("lstm_language_model", 1800, 3000, _UNSTATED, layers=1),
    _meng("lstm_language_model", 750, 1500, _UNSTATED, layers=4),
    _meng("lstm_language_model", 350, 900, _UNSTATED, layers=8),
    _meng("lstm_language_model", 75, 280, _UNSTATED, layers=16),
    _meng("translation", 350, 1100, _NMT, steps=50),
    _meng("translation", 90, 550, _NMT, steps=100),
    _meng("translation", 20, 230, _NMT, steps=200),
    _meng("translation", 2, 60, _NMT, steps=400),
    Row("TFLMS v1", "residual_unet3d", (("batch", 1),), "resolution", "voxels a side",
        "v100-nvlink", "lms", 192, 144, samples="volumes", host_bytes=256 * GIB,
        remark="published: 192 a side without splitting; machine and 144 are those of v2"),
    Row("TFLMS v1", "resnet", (("depth", 50),), "batch", "batch", "v100-nvlink", "lms",
        827, 176, host_bytes=256 * GIB,
        remark="published: 4.7 times the batch without; machine and 176 are those of v2"),
    Row("TFLMS v2", "residual_unet3d", (("batch", 1),), "resolution", "voxels a side",
        "v100-nvlink", "lms", 256, 144, samples="volumes", host_bytes=256 * GIB,
        remark="5.6 times the voxels of 144 a side, the largest volume of the group's earlier "
        "report, which names the network"),
    Row("TFLMS v2", "resnet", (("depth", 50),), "batch", "batch", "v100-nvlink", "lms",
        862, 176, host_bytes=256 * GIB,
        remark="4.9 times the batch without; that one, 176, is worked out from 16 GB"),
    Row("TensorFlowMem", "resnet_layers", (("batch", 16),), "layers", "layers",
        "titan-x-maxwell", "partitioned", 1916, 504,
        speeds=(Speed(504, 11.43, None), Speed(1916, None, 1.76))),
    Row("TensorFlowMem", "resnet_layers", (("batch", 32),), "layers", "layers",
        "titan-x-maxwell", "partitioned", 1001, speeds=(Speed(1001, None, 4.04),)),
    Row("TensorFlowMem", "mixture_of_experts", (("batch", 8),), "experts", "experts",
        "titan-x-maxwell", "partitioned", 48, 12, samples="pairs",
        options=(("partition-size", "200"),),
        speeds=(Speed(12, 7.8, None), Speed(48, None, 1.2)), remark=_EXPERTS),
    Row("TensorFlowMem", "deep_speech", (("batch", 128),), "steps", "time steps",
        "titan-x-maxwell", "partitioned", 800, 400, samples="",
        options=(("partition-size", "5"),),
        speeds=(Speed(100, 1.15, 1.56), Speed(200, 2.3, 3.03), Speed(400, 4.64, 6.03),
                Speed(800, None, 12.0)), remark=_FRAMES),
    Row("SuperNeurons", "resnet_layers", (("batch", 16),), "layers", "layers", "k40",
        "superneurons", 1920, 592, soft=True),
    Row("SuperNeurons", "resnet_layers", (("batch", 16),), "layers", "layers", "k40",
        "superneurons", 2500, soft=True,
        remark="ResNet2500 of the abstract, which does not state the batch"),
    _superneurons("alexnet", 1408, 1792),
    _superneurons("vgg", 80, 224, depth=16),
    _superneurons("inception_v4", 64, 240),
    _superneurons("resnet", 128, 384, depth=50),
    _superneurons("resnet", 80, 256, depth=101),
    _superneurons("resnet", 48, 176, depth=152),
    Row("vDNN", "vgg", (("depth", 16),), "batch", "batch", "titan-x-maxwell", "superneurons",
        256, None, slowdown=Slowdown(0.18),
        remark="the rendition nearest to vDNN: offloads what is dear to compute"),
)  # fmt: skip


def _meng_memory(
    network: str, value: int, base: int | None, published: int, **sizes: int
) -> MemoryRow:
    return MemoryRow(
        "Meng 2017", network, tuple(sizes.items()), value, "m40", "swap-critical-path",
        published * MB, None if base is None else base * MB,
    )  # fmt: skip


#: Images are 32 a step in all of Meng's.
MEMORY_ROWS: tuple[MemoryRow, ...] = (
    _meng_memory("resnet", 32, 5815, 2660, depth=101),
    _meng_memory("resnet", 32, 10662, 3052, depth=200),
    _meng_memory("resnet_layers", 1001, None, 5979, batch=32),
    _meng_memory("resnet_layers", 2000, None, 10650, batch=32),
    MemoryRow(
        "SuperNeurons", "alexnet", (), 200, "k40", "superneurons", 886 * MB, 2189 * MB, soft=True
    ),
)
