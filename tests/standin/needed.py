# SPDX-License-Identifier: Apache-2.0
"""Marks for tests: they are left out where there is no stand-in for CUDA."""

import pytest
import torch

from tests.standin import run

STAND_IN = [
    pytest.mark.skipif(torch.version.cuda is None, reason="PyTorch is no build for CUDA"),
    pytest.mark.skipif(not run.libraries(), reason="the build has no stand-in for CUDA"),
]
