# SPDX-License-Identifier: Apache-2.0
"""The published tables of the systems whose planners are rendered here, beside what we reach.

`python -m benchmarks.paper_tables` prints them from the kept recordings; `python -m
benchmarks.paper_tables.record` makes those anew, which needs PyTorch and torchvision.
docs/paper-tables.md explains.
"""
