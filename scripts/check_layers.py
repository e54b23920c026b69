# SPDX-License-Identifier: Apache-2.0
"""Checks the direction of includes between layers, and within them.

The compiler already keeps a layer from seeing one above it, since each has its own include root.
This adds what include roots cannot say: the order of the folders inside a layer, that the decision
layer knows no threads or clocks, that only adapters know a framework, that nothing that ships sees
the test library, and that a header which only its own layer uses lies beside its source.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Each layer and those it may include; every layer may include itself.
SEES = {
    "core": set(),
    "residency": {"core"},
    "planning": {"core", "residency"},
    "runtime": {"core", "residency"},
    "tests/support": {"core", "residency", "planning", "runtime"},
    "tools": {"core", "residency", "planning", "runtime"},
    "adapters": {"core", "residency", "planning", "runtime"},
    "benchmarks": {"core", "residency", "planning", "runtime", "tests/support"},
}

# Inside a layer, a folder may include those before it. Files directly in the layer's include
# folder are interfaces that every folder may see.
FOLDER_ORDER = {
    "core": ["base", "machine", "trace", "plan"],
    "planning": ["analysis", "cost", "sim", "bound", "draft", "pass", "search", "planner"],
    "runtime": ["memory", "transfer", "device", "store", "exec"],
    "tools": [
        "text", "request", "machine", "process", "trace", "plan", "explain", "answer", "report",
        "doctor", "run", "cli",
    ],
    "adapters/torch": ["ops", "threads", "cuda", "session", "recompute", "record", "hook", "api"],
}  # fmt: skip

# Folders of sources, whose headers are nobody else's.
SOURCE_ROOTS = {
    "planning": "planning/src",
    "runtime": "runtime/src",
    "tools": "tools/src",
    "adapters/torch": "adapters/torch/csrc",
}

# Include roots, or parts of them, of which nobody else need use all: the test library, and parts
# whose user in another layer is to come.
MAY_BE_UNUSED = ("tests/support/", "runtime/include/spillway/runtime/device/")

# The layers whose time is a number they are given. core is not among them: it reads files and holds
# what threads share.
DECIDES = {"residency", "planning"}

FRAMEWORK = re.compile(r"^(torch|ATen|c10|caffe2|tensorflow|cuda)[/_.]|^cudaTypedefs.h$")
# Compares what we know of a vendor's binary interface with its header.
COMPARES_A_HEADER = pathlib.Path("runtime/tests/device/cuda_abi_test.cpp")
CLOCKS_AND_THREADS = {
    "atomic", "chrono", "condition_variable", "ctime", "future", "mutex", "thread", "pthread.h",
    "time.h", "unistd.h",
}  # fmt: skip
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def layer_of_headers():
    """Maps `spillway/...` to the layer whose include root holds it."""
    return {
        str(header.relative_to(ROOT / layer / "include")): layer
        for layer in SEES
        for header in (ROOT / layer / "include").rglob("*.hpp")
    }


def folder_of(layer, name):
    """The folder of a layer's header or source that takes part in the order, if any."""
    return next((f for f in FOLDER_ORDER.get(layer, []) if f"/{f}/" in f"/{name}"), None)


def check_order(path, name, layer, is_test):
    mine, theirs = folder_of(layer, path), folder_of(layer, name)
    order = FOLDER_ORDER.get(layer, [])
    if not is_test and mine and theirs and order.index(theirs) > order.index(mine):
        yield f"{name}: {layer}/{mine} comes before {theirs}"


def check_include(path, layer, name, owners):
    is_test = "tests" in path.parts
    for part, root in SOURCE_ROOTS.items():
        if path.is_relative_to(root) and (ROOT / root / name).exists():
            yield from check_order(path, name, part, is_test)
            return
    owner = owners.get(name)
    if owner is None:
        if FRAMEWORK.match(name) and layer != "adapters" and path != COMPARES_A_HEADER:
            yield f"{name} is a framework's: only adapters know one"
        if layer in DECIDES and name in CLOCKS_AND_THREADS and not is_test:
            yield f"{name}: {layer} decides, without threads or clocks"
        return
    if owner == "tests/support" and (is_test or layer == "benchmarks"):
        return
    if owner != layer and owner not in SEES[layer]:
        yield f"{name} belongs to {owner}, which {layer} may not see"
    if owner == layer:
        yield from check_order(path, name, layer, is_test)


def check_interfaces(owners, included):
    """Headers of an include root that no file outside of the layer needs.

    `included`: the names that each file includes, by its path.
    """
    path_of = {name: f"{layer}/include/{name}" for name, layer in owners.items()}
    needed = set()
    found = [
        name
        for path, names in included.items()
        for name in names
        if name in owners and not path.startswith(f"{owners[name]}/")
    ]
    while found:
        name = found.pop()
        if name not in needed:
            needed.add(name)
            found += [deeper for deeper in included.get(path_of[name], ()) if deeper in owners]
    for name in sorted(owners.keys() - needed):
        if not path_of[name].startswith(MAY_BE_UNUSED):
            yield f"{path_of[name]}: only {owners[name]} uses it: it belongs beside its source"


def main():
    problems = []
    owners = layer_of_headers()
    included = {}
    for layer in SEES:
        for path in sorted((ROOT / layer).rglob("*")):
            if path.suffix not in (".hpp", ".cpp"):
                continue
            text = path.read_text(encoding="utf-8")
            where = path.relative_to(ROOT)
            included[str(where)] = [match[2] for match in INCLUDE.finditer(text)]
            for match in INCLUDE.finditer(text):
                line = text.count("\n", 0, match.start(2)) + 1
                for problem in check_include(where, layer, match[2], owners):
                    problems.append(f"{where}:{line}: {problem}")
    problems += check_interfaces(owners, included)
    print("\n".join(problems), end="\n" if problems else "")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
