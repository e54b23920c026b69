# SPDX-License-Identifier: Apache-2.0
"""Training programs as people write them. Each module defines `run(optimizer, size) -> dict`.

None of them knows Spillway. `size` is "full" (peaks at 64 MiB of tensors or more, seconds on one
core) or "tiny" (for fuzz mode, where every op evicts everything).
"""
