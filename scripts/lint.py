# SPDX-License-Identifier: Apache-2.0
"""Checks the sources: `lint.py --quick` for what takes seconds, `lint.py` for all of it.

Quick: format of C++ and Python, ruff's rules, licence lines, names of test suites, text that must
not be in a repository, direction of includes. The rest: clang-tidy over every C++ source (function
sizes, too), and a list of the widest classes, which is information and no rule.
`lint.py --changed`: quick, and clang-tidy over the C++ sources that changed in the last day of
commits or since, for TIDY_SECONDS. A finding is an error; sources that it does not reach are
counted.
A missing tool is reported; it is an error without --quick, and where REQUIRE_TORCH=1, except
that --changed goes on without clang-tidy.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
CPP = (".cpp", ".hpp")
MAX_COLUMNS = 100
TIDY_SECONDS = 45  # no source is begun after that; the last may take as long again

# What no target of this build compiles, with a source that is compiled as it would be.
COMPILED_LIKE = {
    "adapters/torch/csrc/cuda/no_slots.cpp": "adapters/torch/csrc/cuda/wheel_slots.cpp",
    "examples/libtorch/train.cpp": "adapters/torch/csrc/api/libtorch_api.cpp",
    "tests/faults/compiled_op.cpp": "adapters/torch/csrc/api/libtorch_api.cpp",
    "tests/fuzz/machine_reader.cpp": "core/src/machine/machine_io.cpp",
    "tests/fuzz/plan_reader.cpp": "core/src/plan/plan_io.cpp",
    "tests/fuzz/trace_reader.cpp": "core/src/trace/trace_io.cpp",
}

# The line that each file must begin with; JSON, Markdown and the licence itself have no such line.
LICENCE = {
    ".cpp": "// SPDX", ".hpp": "// SPDX", ".py": "# SPDX", ".sh": "# SPDX", ".cmake": "# SPDX",
    "CMakeLists.txt": "# SPDX", "Makefile": "# SPDX",
}  # fmt: skip

SUITE = re.compile(r"\b(?:TYPED_)?TEST(?:_F|_P)?\(\s*(\w+),")

# Somebody's machine or a secret has no place here. Spelled so that this file does not match itself.
FORBIDDEN = [
    (re.compile(r"(?<![\w.])/(?:home|Users|root)/[\w.-]+"), "a path into somebody's home"),
    (re.compile(r"BEGIN [A-Z ]*PRIVATE" + " KEY"), "a private key"),
    (re.compile(r"^(<<<<<<<|>>>>>>>) ", re.MULTILINE), "a conflict marker"),
]


def files():
    """Every file of the checkout that git does not ignore; without git, every likely one."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = ""
    if shutil.which("git"):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        listed = done.stdout if done.returncode == 0 else ""
    if listed:
        # A generated file is as its script writes it.
        names = [n for n in listed.split("\0") if n and "/generated/" not in n]
        return [p for name in names if (p := ROOT / name).is_file()]
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [
            f for f in folders
            if f == ".ci" or not (f.startswith(".") or f in ("build", "dist", "out", "__pycache__"))
        ]  # fmt: skip
        found += [pathlib.Path(folder, name) for name in names]
    return found


def check_text(path):
    name = path.relative_to(ROOT)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return  # a picture
    start = LICENCE.get(path.suffix) or LICENCE.get(path.name)
    head = text.split("\n", 2)[:2]
    if start and text and not any(line.startswith(start) for line in head):
        yield f"{name}:1: begin with `{start}-License-Identifier: Apache-2.0`"
    for pattern, what in FORBIDDEN:
        for match in pattern.finditer(text):
            yield f"{name}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match[0]}"
    if path.suffix not in (*CPP, ".py", ".sh", ".cmake"):
        return
    for match in SUITE.finditer(text) if path.suffix in CPP else ():
        if not match[1].endswith("Test"):
            line = text.count("\n", 0, match.start()) + 1
            yield f"{name}:{line}: call the suite {match[1]}Test"
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > MAX_COLUMNS and "http" not in line and "NOLINT" not in line:
            yield f"{name}:{number}: {len(line)} columns, at most {MAX_COLUMNS}"
        if line != line.rstrip():
            yield f"{name}:{number}: white space at the end of the line"


class MissingToolError(Exception):
    """The text names the tool and its version."""


def tool(*names, version=None):
    """The path of the tool, under one of its names, of the pinned version if one is stated."""
    # First those beside this interpreter, as requirements/lint.txt pins them.
    folders = [sysconfig.get_path("scripts"), os.environ.get("PATH")]
    for found in (shutil.which(name, path=folder) for folder in folders for name in names):
        if not found:
            continue
        if version is None:
            return found
        told = subprocess.run([found, "--version"], capture_output=True, text=True, check=False)
        if f"version {version}" in told.stdout:
            return found
    raise MissingToolError(f"{names[-1]} {version or ''}".rstrip())


def run(command):
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).strip() if done.returncode else ""


def check_cpp_format(cpp, _):
    told = run(
        [tool("clang-format-14", "clang-format", version="14."), "--dry-run", "-Werror", *cpp]
    )
    unformatted = sorted(set(re.findall(r"^(.+?):\d+:\d+: error: code should be", told, re.M)))
    for path in unformatted:
        yield f"{os.path.relpath(path, ROOT)}: not formatted: clang-format -i it"
    if told and not unformatted:
        yield told


def check_python_format(_, python):
    yield run([tool("ruff"), "format", "--check", "--output-format", "concise", *python])


def check_python_rules(_, python):
    yield run([tool("ruff"), "check", "--quiet", *python])


def git(*words):
    """The lines that git prints; none where it fails."""
    if not shutil.which("git"):
        return []
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def changed_files():
    """Returns the files that differ from the last commit that is a day older than HEAD, or from
    HEAD's parent where the history is shorter. Where there is no older commit, all are new."""
    head = git("log", "-1", "--format=%ct")
    if not head:
        print("NOT RUN: clang-tidy over what changed: git tells no history here")
        return set()
    older = git("log", "-1", f"--before={int(head[0]) - 24 * 60 * 60}", "--format=%H")
    older = older or git("rev-parse", "--verify", "--quiet", "HEAD~1")
    if not older:
        return set(files())
    new = git("ls-files", "--others", "--exclude-standard")
    return {ROOT / name for name in [*git("diff", "--name-only", older[0]), *new]}


def sources_to_check(cpp, changed):
    """The changed sources, and for each changed header one source that includes it."""
    chosen = [path for path in cpp if path.suffix == ".cpp" and path in changed]
    texts = {path: path.read_text(encoding="utf-8") for path in cpp if path.suffix == ".cpp"}
    for header in (path for path in cpp if path.suffix == ".hpp" and path in changed):
        include = re.compile(rf'#include "(?:[^"]*/)?{re.escape(header.name)}"')
        users = [path for path, text in texts.items() if include.search(text)]
        if users and not set(users) & set(chosen):
            chosen.append(users[0])
    return chosen


def check_changed_cpp_rules(cpp, _):
    """Yields what clang-tidy finds in the changed sources that it reaches."""
    sources = sources_to_check(cpp, changed_files())
    if not sources:
        return
    try:
        yield from check_cpp_rules(sources, _, until=time.monotonic() + TIDY_SECONDS)
    except MissingToolError as error:
        print(f"NOT RUN: {error} over {len(sources)} changed sources: it is not installed")


def framework_options():
    """What CMake is told of the frameworks: PyTorch is in this interpreter's environment,
    TensorFlow in that which setup_tensorflow.sh made."""
    options = ["-DSPILLWAY_TORCH=OFF", "-DSPILLWAY_TENSORFLOW=OFF"]
    if sys.prefix != sys.base_prefix:
        options[0] = "-DSPILLWAY_TORCH=ON"
        options.append(f"-DSPILLWAY_PYTHON={sys.executable}")
    outcome = ROOT / "build/environment.sh"
    text = outcome.read_text(encoding="utf-8") if outcome.exists() else ""
    if found := re.findall(r"^spillway_tensorflow_venv=([^'\n]+)$", text, re.MULTILINE):
        options[1] = "-DSPILLWAY_TENSORFLOW=ON"
        options.append(f"-DSPILLWAY_TENSORFLOW_PYTHON={found[-1]}/bin/python")
    return options


def described_sources():
    """The sources that compile_commands.json describes, after adding those of COMPILED_LIKE."""
    path = ROOT / "build/lint/compile_commands.json"
    commands = {entry["file"]: entry for entry in json.loads(path.read_text(encoding="utf-8"))}
    for name, model in COMPILED_LIKE.items():
        file, compiled = str(ROOT / name), str(ROOT / model)
        if like := commands.get(compiled):
            command = like["command"].replace(compiled, file)
            commands[file] = like | {"file": file, "command": command}
    path.write_text(json.dumps(list(commands.values())), encoding="utf-8")
    return commands.keys()


def check_cpp_rules(cpp, _, until=None):
    """clang-tidy needs to know how each source is compiled, without the compiler's own headers.

    After `until` no further source is begun.
    """
    clang_tidy = tool("clang-tidy-14", "clang-tidy", version="14.")
    options = ["-DSPILLWAY_BENCHMARKS=ON", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"]
    configure = ["cmake", "--preset", "release", "-B", "build/lint", *framework_options(), *options]
    if trouble := run(configure):
        yield trouble
        return
    described = described_sources()
    sources = [p for p in cpp if p.suffix == ".cpp" and str(p) in described]
    if others := sum(p.suffix == ".cpp" for p in cpp) - len(sources):
        print(f"NOT RUN: clang-tidy over {others} sources, whose framework is not installed")
    if until is not None:
        # Where not all are reached, others are each day.
        begin = int(time.time() // (24 * 60 * 60)) * 7 % max(len(sources), 1)
        sources = sources[begin:] + sources[:begin]
    tidy = [clang_tidy, "-p", "build/lint", "--quiet"]
    left = []

    def judge(source):
        if until is not None and time.monotonic() > until:
            left.append(source)
            return ""
        return run([*tidy, source])

    with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", "2"))) as pool:
        yield from pool.map(judge, sources)
    if until is not None:
        print(f"lint: clang-tidy over {len(sources) - len(left)} of {len(sources)} changed sources")


QUICK = (check_cpp_format, check_python_format, check_python_rules)
CHANGED = (*QUICK, check_changed_cpp_rules)
ALL = (*QUICK, check_cpp_rules)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    extent = parser.add_mutually_exclusive_group()
    extent.add_argument("--quick", action="store_true", help="only what takes seconds")
    extent.add_argument("--changed", action="store_true", help="clang-tidy over what changed")
    chosen = parser.parse_args()
    quick = chosen.quick

    every = files()
    cpp = [p for p in every if p.suffix in CPP]
    python = [p for p in every if p.suffix == ".py"]
    problems = [problem for path in every for problem in check_text(path)]
    problems.append(run([sys.executable, str(ROOT / "scripts/check_layers.py")]))
    missing = {}
    for check in QUICK if quick else CHANGED if chosen.changed else ALL:
        try:
            problems += check(cpp, python)
        except MissingToolError as error:
            missing[f"lint: {error} is not installed, so its checks are left out"] = True
    if quick and os.environ.get("REQUIRE_TORCH") != "1":
        for told in missing:
            print(told)
    else:
        problems += missing
    problems = [p for p in problems if p]
    if not quick and not chosen.changed:
        widths = [sys.executable, str(ROOT / "scripts/class_widths.py"), "15"]
        subprocess.run(widths, check=False)
    print("\n".join(problems) if problems else f"lint: {len(every)} files are well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
