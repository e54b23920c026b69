# SPDX-License-Identifier: Apache-2.0
"""Runs a module on the stand-in card with true values: what PyTorch computes there is computed by
its kernels for the processor, in the card's streams. See docs/testing.md.

python tests/standin/run.py -m tests.standin.true_values MODULE [ARGUMENTS...]
"""

import ctypes
import runpy
import sys

import torch

from tests.standin import run


def install():
    """In this process, for good. What chooses among kernels must not choose libraries for cards."""
    torch.ops.load_library(run.values_library())
    torch.ops.stand_in.install()
    torch.backends.cudnn.enabled = False
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
    # TorchScript would compile kernels of its own for a card.
    torch._C._jit_override_can_fuse_on_gpu(False)


def card_peak_bytes():
    """The most that the driver ever had given out of the card's memory."""
    peak = ctypes.CDLL(None).stand_in_peak_bytes
    peak.restype = ctypes.c_size_t
    return peak()


if __name__ == "__main__":
    if not sys.argv[1:]:
        sys.exit(__doc__)
    install()
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
