# SPDX-License-Identifier: Apache-2.0
"""Which programs of the oracle's catalog train on the stand-in card, with which optimizers, and why
the others cannot.
"""

from typing import NamedTuple

from tests.oracle import catalog


class Failure(NamedTuple):
    says: str  # of how the program ends there
    why: str


NUMPY = "a NumPy array is made of memory that the processor reaches"
CANNOT = {
    "compiled": Failure(
        "libcuda.so cannot found", "Triton looks for libcuda.so where the loader's cache has it"
    ),
    "ctypes_pointer": Failure("SIGSEGV", "the processor cannot reach what a card's pointer names"),
    "dataloader_workers": Failure(
        "Cannot re-initialize CUDA in forked subprocess", "workers that fork index a card's tensors"
    ),
    "dlpack_exchange": Failure("Unsupported device in DLTensor", "NumPy takes no card's memory"),
    "from_numpy": Failure("can't convert cuda:0 device type tensor to numpy", NUMPY),
    "lstm": Failure("no tensor of more than 1 MiB", "PyTorch's own memory has all of it"),
    "memory_mapped_load": Failure("can't convert cuda:0 device type tensor to numpy", NUMPY),
    "nested_strided": Failure(
        "layer_norm_kernel", "nested tensors have kernels of their own, not modelled here"
    ),
    "numpy_view_held": Failure("can't convert cuda:0 device type tensor to numpy", NUMPY),
    "python_elements": Failure(
        "map_ is only implemented on CPU tensors", "functions of Python get and set elements"
    ),
    "quantised_tensors": Failure(
        "aten::quantize_per_tensor: meta tensors and the processor disagree",
        "the stand-in has no quantised tensors, and quantised layers no kernels for a card",
    ),
    "shared_memory": Failure(
        "refuses aten::add_.Tensor with error 3",
        "a child that was forked cannot use the card of its parent",
    ),
    "sparse_adam": Failure(
        "cub::detail::transform", "sparse tensors have kernels of their own, not modelled here"
    ),
}
# Under fuzz its step is one op, which needs weights, gradients and state at once: all that the
# program has. Lists are divided where a budget is short; the floor is taken from fuzz.
NOTHING_CAN_LEAVE = [("save_load", "adamw_fused")]
CASES = [
    (program.name, optimizer)
    for program in catalog.PROGRAMS
    if program.name not in CANNOT
    for optimizer in program.optimizers
    if (program.name, optimizer) not in NOTHING_CAN_LEAVE
]
