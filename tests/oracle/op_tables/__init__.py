# SPDX-License-Identifier: Apache-2.0
"""Makes and checks what the adapter knows of operators beyond their schemas, by running them.

    python -m tests.oracle.op_tables            makes the tables for the torch of this interpreter
    python -m tests.oracle.op_tables --check    compares them with those that are checked in
    ... --folder FOLDER                         keeps finished pieces there: can be cut short

Two tables, in adapters/torch/generated/op_tables.hpp, which all minors share (table.py). A run
changes the facts about its own minor:

- undeclared writes: all inputs of each leaf operator are compared before and after it (writes.py);
- safe composites: under fuzz, with the composites treated as if they were not there, so that only
  the operators inside them bring memory back and pin it (composites.py).
"""
