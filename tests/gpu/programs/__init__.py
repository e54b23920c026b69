# SPDX-License-Identifier: Apache-2.0
"""One module per program, as those of tests/oracle/programs. They train on DEVICE."""
