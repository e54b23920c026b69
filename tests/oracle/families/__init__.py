# SPDX-License-Identifier: Apache-2.0
"""Unmodified models of installed packages, randomly initialised, in their usual training loops.

Same interface as the programs; only "full" is used.
"""
