# SPDX-License-Identifier: Apache-2.0
"""Lists the widest classes of the C++ sources: `class_widths.py [HOW_MANY]`.

Information, not a rule. A class should have one reason to change, which no count can tell; but a
class that does many jobs is usually among the widest. Counted by reading declarations as text: a
few that macros or unusual formatting hide are missed.
"""

import pathlib
import re
import sys
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAYERS = ("core", "residency", "planning", "runtime", "adapters", "tools")
NOISE = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"' + r"|'(?:\\.|[^'\\\n])+'", re.DOTALL)
HEAD = re.compile(r"(?<!enum )\b(?:class|struct)\s+(\w+)(?:\s+final)?\s*(?::[^;{()]*)?\{")
ACCESS = re.compile(r"\b(?:public|protected|private)\s*:")
NOT_COUNTED = re.compile(
    r"^(?:using|friend|static_assert|enum|class|struct|template\s*<[^>]*>\s*using)\b"
)


class Width(NamedTuple):
    functions: int
    members: int
    name: str
    path: str


def body_from(text, start):
    """The text between the brace at `start` and its partner."""
    depth = 0
    for at in range(start, len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start + 1 : at]
    return text[start + 1 :]


def without_braces(body):
    """The body with each inner pair of braces, and what is between, as one semicolon."""
    kept, depth = [], 0
    for letter in body:
        depth += letter == "{"
        if depth == 0:
            kept.append(letter)
        if letter == "}":
            depth -= 1
            if depth == 0:
                kept.append(";")
    return "".join(kept)


def widths_in(text, path):
    """Every class of a source, with the number of its functions and of its members."""
    text = NOISE.sub('""', text)
    for head in HEAD.finditer(text):
        flat = ACCESS.sub(";", without_braces(body_from(text, head.end() - 1)))
        lines = [" ".join(line.split()) for line in flat.split(";")]
        lines = [line for line in lines if re.search(r"\w", line) and not NOT_COUNTED.match(line)]
        functions = sum("(" in line for line in lines)
        yield Width(functions, len(lines) - functions, head[1], path)


def widest(how_many):
    paths = [p for layer in LAYERS for p in sorted((ROOT / layer).rglob("*.[ch]pp"))]
    every = [
        width
        for path in paths
        if "tests" not in path.parts and "generated" not in path.parts
        for width in widths_in(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)))
    ]
    return sorted(every, key=lambda width: -(width.functions + width.members))[:how_many]


def report(how_many):
    """Lines: functions, members, class and file, the widest class first."""
    rows = [f"{w.functions:>9} {w.members:>8}  {w.name}, {w.path}" for w in widest(how_many)]
    return "\n".join(["functions  members  the widest classes (for information)", *rows])


if __name__ == "__main__":
    print(report(int(sys.argv[1]) if len(sys.argv) > 1 else 20))
