# SPDX-License-Identifier: Apache-2.0
"""What the papers published, row by row.

A row says which network grew in which size on which machine, how far it got without the paper's
system and with it. docs/paper-tables.md names the papers in full. `soft` rows rest on second-hand
figures: the paper itself was not at hand.
"""

import dataclasses

GIB = 2**30


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
    throughput: float | None = None  #: samples a second at `published`, where stated
    host_bytes: int = 64 * GIB
    soft: bool = False
    remark: str = ""

    @property
    def title(self) -> str:
        fixed = ", ".join(f"{name} {value}" for name, value in self.sizes)
        return f"{self.network}{f' ({fixed})' if fixed else ''}"


def _meng(network: str, base: int, published: int, remark: str = "", **sizes: int) -> Row:
    return Row(
        "Meng 2017", network, tuple(sizes.items()), "batch", "batch", "m40", "swap-critical-path",
        published, base, remark=remark,
    )  # fmt: skip


def _superneurons(network: str, base: int, published: int, **sizes: int) -> Row:
    return Row(
        "SuperNeurons", network, tuple(sizes.items()), "batch", "batch", "k40", "superneurons",
        published, base, soft=True,
    )  # fmt: skip


_UNSTATED = "the paper does not state the widths: those of the large Penn Treebank model"
_NMT = "the paper does not state the widths: 512, with 10 000 words"

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
    Row("TFLMS v2", "unet3d", (("batch", 1),), "resolution", "voxels a side", "v100-nvlink",
        "lms", 256, 144, host_bytes=256 * GIB,
        remark="5.6 times the voxels of the largest volume without; the side is worked out"),
    Row("TFLMS v2", "resnet", (("depth", 50),), "batch", "batch", "v100-nvlink", "lms",
        862, 176, host_bytes=256 * GIB,
        remark="4.9 times the batch without; that one, 176, is worked out from 16 GB"),
    Row("TensorFlowMem", "resnet_layers", (("batch", 16),), "layers", "layers",
        "titan-x-maxwell", "partitioned", 1916, 504, 1.76),
    Row("TensorFlowMem", "resnet_layers", (("batch", 32),), "layers", "layers",
        "titan-x-maxwell", "partitioned", 1001, None, 4.04),
    Row("TensorFlowMem", "mixture_of_experts", (("batch", 8),), "experts", "experts",
        "titan-x-maxwell", "partitioned", 48, 12, 1.2),
    Row("TensorFlowMem", "deep_speech", (("batch", 128),), "steps", "time steps",
        "titan-x-maxwell", "partitioned", 800, 400, 128 / 12),
    Row("SuperNeurons", "resnet_layers", (("batch", 16),), "layers", "layers", "k40",
        "superneurons", 1920, 592, soft=True),
    _superneurons("alexnet", 1408, 1792),
    _superneurons("vgg", 80, 224, depth=16),
    _superneurons("resnet", 128, 384, depth=50),
    _superneurons("resnet", 80, 256, depth=101),
    _superneurons("resnet", 48, 176, depth=152),
    Row("vDNN", "vgg", (("depth", 16),), "batch", "batch", "titan-x-maxwell", "superneurons",
        256, None, remark="the rendition nearest to vDNN: offloads what is dear to compute"),
)  # fmt: skip
