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

While a composite is transparent, fuzz evicts all storages when it begins, and after each op inside
it, except what that op made, which stays until the next op. So on the paths that ran a listed
composite touches no memory of its own but what the op just before made. Nothing is proven of what
did not run: other switches (deterministic algorithms, autocast, anomaly mode), most types, several
threads, other processors. Operators of accelerators cannot be run here; op_facts.cpp has a few by
hand.

The facts about torch 2.11 to 2.14 were found before fuzz did this and before sparse tensors were
among the cases. What the stricter run under 2.15 showed to read memory itself was taken out of
them.
"""
