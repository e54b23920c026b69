# SPDX-License-Identifier: Apache-2.0
"""PyTorch's CUDA build on a card that is none: see docs/testing.md."""
