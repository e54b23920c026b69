# SPDX-License-Identifier: Apache-2.0
"""Continuous integration checks by turns: every part has its turn; one that fails or has no time
is told."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def load(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


parts = load("part_of_the_day")


def test_every_folder_with_cpp_tests_has_its_turn():
    declared = {
        str(path.parent.relative_to(ROOT))
        for path in ROOT.glob("**/CMakeLists.txt")
        if "build" not in path.parts and "spillway_add_test(NAME" in path.read_text("utf-8")
    }
    assert declared - {"runtime/tests/device"} == set(parts.SHARES)


def test_every_share_of_every_folder_is_run_under_every_sanitizer():
    rounds = max(parts.SHARES.values())
    days = range(20_000, 20_000 + rounds * len(parts.SHARES) * len(parts.PRESETS))
    seen = {parts.sanitizer_of(day) for day in days}
    assert seen == {
        (preset, folder, share, shares)
        for preset in parts.PRESETS
        for folder, shares in parts.SHARES.items()
        for share in range(shares)
    }


def test_every_reader_is_fuzzed_within_three_days():
    assert {parts.reader_of(day) for day in (7, 8, 9)} == {"trace", "plan", "machine"}


@pytest.fixture
def checkout(tmp_path):
    """A function that runs the script beside stand-ins for what it starts."""
    scripts = tmp_path / "scripts"
    scripts.mkdir()
    shutil.copy(ROOT / "scripts" / "part_of_the_day.py", scripts)
    tools = tmp_path / "tools"
    tools.mkdir()
    for tool in ("bash", "env", "timeout", "sleep"):
        (tools / tool).symlink_to(shutil.which(tool))

    def run(sanitize="true", fuzz="true", clang=True, day="0"):
        for name, body in (("sanitize", sanitize), ("fuzz", fuzz)):
            script = scripts / f"{name}.sh"
            script.write_text(f'#!/bin/bash\necho {name} "$FOLDER" "$@"\n{body}\n')
            script.chmod(0o755)
        if clang:
            (tools / "clang++-14").symlink_to(shutil.which("bash"))
        environment = os.environ | {"PATH": str(tools)}
        return subprocess.run(
            [sys.executable, "scripts/part_of_the_day.py", day], cwd=tmp_path, env=environment,
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    return run


def test_both_parts_of_the_day_are_run(checkout):
    done = checkout(day="1")
    assert done.returncode == 0, done.stderr
    assert "sanitize core tsan" in done.stdout and "fuzz  plan" in done.stdout
    assert "NOT RUN" not in done.stdout


@pytest.mark.parametrize("part", ["sanitize", "fuzz"])
def test_a_part_that_fails_fails_the_run_and_does_not_keep_the_other(checkout, part):
    done = checkout(**{part: "exit 1"})
    assert done.returncode == 1
    assert "sanitize core asan-ubsan" in done.stdout and "fuzz  machine" not in done.stdout
    assert "fuzz  trace" in done.stdout


def test_a_part_without_time_is_told(checkout):
    done = checkout(sanitize="exit 124")
    assert done.returncode == 0
    assert "NOT RUN: C++ tests of core under asan-ubsan" in done.stdout


def test_a_missing_clang_is_told(checkout):
    done = checkout(clang=False)
    assert done.returncode == 0
    assert "clang is not installed" in done.stdout and "fuzz  trace" not in done.stdout


def test_changed_sources_and_a_user_of_each_changed_header_are_checked(tmp_path):
    lint = load("lint")
    for name, text in (
        ("old.cpp", '#include "spillway/old.hpp"\n'),
        ("old.hpp", ""),
        ("new.cpp", ""),
        ("changed.hpp", ""),
        ("user.cpp", '#include "spillway/base/changed.hpp"\n'),
        ("second_user.cpp", '#include "changed.hpp"\n'),
    ):
        (tmp_path / name).write_text(text)
    cpp = sorted(tmp_path.iterdir())
    changed = {tmp_path / "new.cpp", tmp_path / "changed.hpp"}
    names = [path.name for path in lint.sources_to_check(cpp, changed)]
    assert names == ["new.cpp", "second_user.cpp"]


def test_changes_are_those_of_the_last_day_and_those_not_committed(tmp_path, monkeypatch):
    lint = load("lint")
    monkeypatch.setattr(lint, "ROOT", tmp_path)

    def git(*words, day=1):
        names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a"}
        dates = {"GIT_COMMITTER_DATE": f"2026-01-{day:02}T12:00:00Z", "GIT_COMMITTER_EMAIL": "a@b"}
        subprocess.run(["git", *words], cwd=tmp_path, env=os.environ | names | dates, check=True)

    git("init", "-q")
    for day, name in ((1, "old.cpp"), (5, "yesterday.cpp"), (5, "last.cpp")):
        (tmp_path / name).write_text("")
        git("add", ".")
        git("commit", "-q", "-m", name, day=day)
    (tmp_path / "not_added.cpp").write_text("")
    names = {path.name for path in lint.changed_files()}
    assert names == {"yesterday.cpp", "last.cpp", "not_added.cpp"}


@pytest.fixture
def changed_source(tmp_path, monkeypatch, capsys):
    """Returns what `lint.py --changed` prints and exits with where one changed source has a
    finding, told by a stand-in for clang-tidy."""
    lint = load("lint")
    source = tmp_path / "changed.cpp"
    source.write_text("// SPDX-License-Identifier: Apache-2.0\n")
    told = f"{source}:1:1: error: a finding [bugprone-finding,-warnings-as-errors]"
    for name, does in (("clang-tidy", f"echo '{told}'; exit 1"), ("cmake", "exit 0")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{does}\n")
        (tmp_path / name).chmod(0o755)
    described = tmp_path / "build/lint/compile_commands.json"
    described.parent.mkdir(parents=True)
    described.write_text(f'[{{"file": "{source}"}}]')
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    monkeypatch.setattr(lint, "tool", lambda *_, **__: str(tmp_path / "clang-tidy"))
    monkeypatch.setattr(lint, "files", lambda: [source])
    monkeypatch.setattr(lint, "changed_files", lambda: {source})
    monkeypatch.setattr(lint, "CHANGED", (lint.check_changed_cpp_rules,))
    monkeypatch.setattr(sys, "argv", ["lint.py", "--changed"])
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/check_layers.py").write_text("")

    def main(seconds):
        monkeypatch.setattr(lint, "TIDY_SECONDS", seconds)
        return lint.main(), capsys.readouterr().out

    return main


def test_what_clang_tidy_finds_in_a_changed_source_is_a_failure(changed_source):
    code, told = changed_source(seconds=60)
    assert code == 1
    assert "changed.cpp:1:1: error: a finding" in told
    assert "clang-tidy over 1 of 1 changed sources" in told


def test_a_changed_source_that_clang_tidy_does_not_reach_is_counted(changed_source):
    code, told = changed_source(seconds=-1)
    assert code == 0
    assert "clang-tidy over 0 of 1 changed sources" in told


def test_sources_that_this_build_does_not_compile_are_read_as_one_that_it_does(
    tmp_path, monkeypatch
):
    lint = load("lint")
    both = [name for pair in lint.COMPILED_LIKE.items() for name in pair]
    assert [name for name in both if not (ROOT / name).exists()] == []
    monkeypatch.setattr(lint, "ROOT", tmp_path)
    described = tmp_path / "build/lint/compile_commands.json"
    described.parent.mkdir(parents=True)
    name, model = next(iter(lint.COMPILED_LIKE.items()))
    file, compiled = str(tmp_path / name), str(tmp_path / model)
    described.write_text(json.dumps([{"file": compiled, "command": f"c++ -DX -c {compiled}"}]))
    like_it = {
        str(tmp_path / other) for other in lint.COMPILED_LIKE if lint.COMPILED_LIKE[other] == model
    }
    assert lint.described_sources() == {compiled} | like_it
    assert {"file": file, "command": f"c++ -DX -c {file}"} in json.loads(described.read_text())
