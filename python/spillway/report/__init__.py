# SPDX-License-Identifier: Apache-2.0
"""One self-contained page about a recorded step, a plan or a run: ``spillway report``."""
