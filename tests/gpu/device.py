# SPDX-License-Identifier: Apache-2.0
"""Where the programs train, and what makes two runs of one of them equal there."""

import hashlib
import os

import torch

#: The card, or the processor where there is none: then only what the two share is tested.
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def digest_of(*tensors):
    """The hash of all their bytes, whatever their types."""
    digest = hashlib.sha256()
    for tensor in tensors:
        digest.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def train_the_same_every_time():
    """Chooses kernels that add in one order. Attention by its plain formula: the fused kernels'
    backward passes add in any."""
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    torch.backends.cuda.enable_flash_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    torch.backends.cuda.enable_cudnn_sdp(False)
