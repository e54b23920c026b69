# SPDX-License-Identifier: Apache-2.0
"""The C++ header with what running the operators of each minor of torch showed.

The minors share a row where they agree; a row that does not hold under all of them names those
under which it holds. So a minor that is run anew changes its own facts alone.
"""

import re
from dataclasses import dataclass, field

_MINORS = re.compile(r'kRunUnder = "([^"]*)"')
_WRITE = re.compile(r'^    UndeclaredWrite\{"([^"]+)", (0x[0-9a-f]+)(?:, "([^"]+)")?\},$', re.M)
_COMPOSITE = re.compile(r'^    SafeComposite\{"([^"]+)"(?:, "([^"]+)")?\},$', re.M)


@dataclass(frozen=True)
class Facts:
    """About one minor: {operator: arguments that it writes undeclared, bit i for argument i}, and
    the composites inside which evicting is safe.
    """

    writes: dict = field(default_factory=dict)
    composites: frozenset = frozenset()


def _in_order(minors):
    return sorted(minors, key=lambda minor: [int(part) for part in minor.split(".")])


def read(text):
    """{minor: its Facts} of a header that `header_text` wrote."""
    known = _MINORS.search(text)[1].split()
    writes, composites = {minor: {} for minor in known}, {minor: set() for minor in known}
    for name, bits, minors in _WRITE.findall(text):
        for minor in minors.split() or known:
            writes[minor][name] = int(bits, 16)
    for name, minors in _COMPOSITE.findall(text):
        for minor in minors.split() or known:
            composites[minor].add(name)
    return {minor: Facts(writes[minor], frozenset(composites[minor])) for minor in known}


def used_under(facts, minor):
    """The Facts that the adapter of a minor goes by, as op_facts.cpp chooses them. A minor that was
    never run gets every write that another one showed, and no composite.
    """
    if minor in facts:
        return facts[minor]
    writes = {}
    for others in facts.values():
        for name, bits in others.writes.items():
            writes[name] = writes.get(name, 0) | bits
    return Facts(writes)


def _rows(known, pairs):
    """[(row, suffix that names its minors)], sorted, of (row, minor) pairs."""
    minors = {}
    for row, minor in pairs:
        minors.setdefault(row, set()).add(minor)
    return [
        (row, "" if under == set(known) else f', "{" ".join(_in_order(under))}"')
        for row, under in sorted(minors.items())
    ]


def header_text(facts):
    """The header of {minor: its Facts}."""
    known = _in_order(facts)
    writes = _rows(known, ((row, m) for m in known for row in facts[m].writes.items()))
    composites = _rows(known, ((name, m) for m in known for name in facts[m].composites))
    lines = [
        "// SPDX-License-Identifier: Apache-2.0",
        "// Made by `python -m tests.oracle.op_tables`. Not to be edited.",
        "#pragma once",
        "",
        "#include <array>",
        "#include <string_view>",
        "",
        '#include "ops/op_table_types.hpp"',
        "",
        "namespace spillway::torch {",
        "",
        "// clang-format off",
        "/// Minors whose operators were run. A row that names none holds under each of them.",
        f'inline constexpr std::string_view kRunUnder = "{" ".join(known)}";',
        "",
        "/// Writes that schemas do not declare.",
        f"inline constexpr std::array<UndeclaredWrite, {len(writes)}> kUndeclaredWrites{{",
        *(f'    UndeclaredWrite{{"{name}", {bits:#x}{m}}},' for (name, bits), m in writes),
        "};",
        "",
        "/// Composites that reach memory only through the operators they call, sorted.",
        f"inline constexpr std::array<SafeComposite, {len(composites)}> kSafeComposites{{",
        *(f'    SafeComposite{{"{name}"{m}}},' for name, m in composites),
        "};",
        "// clang-format on",
        "",
        "}  // namespace spillway::torch",
        "",
    ]
    return "\n".join(lines)
