# SPDX-License-Identifier: Apache-2.0
"""Rules for every command: JSON where it answers something, documented exit statuses."""

import json
import pathlib
import re
import sys

import pytest

from tests.cli.pseudo_terminal import program
from tests.cli.test_planning import trace  # noqa: F401 -- a fixture

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "command-line.md"


def commands_of(spillway, *words):
    """All commands, those below a command with its name in front."""
    text = spillway(*words, "--help").stdout
    found = re.search(r"\nCommands:\n((?:  \S.*\n)+)", text)
    if not found:
        return [words]
    names = [line.split()[0] for line in found[1].splitlines()]
    return [each for name in names for each in commands_of(spillway, *words, name)]


def sections():
    """Text of the page by the commands in the heading."""
    parts = re.split(r"(?m)^## (.+)$", PAGE.read_text(encoding="utf-8"))
    heads = zip(parts[1::2], parts[2::2])
    return {name.strip(): text for head, text in heads for name in head.split(",")}


def test_every_command_has_json_and_says_how_it_ends(spillway):
    commands = commands_of(spillway)
    assert len(commands) >= 12, commands
    for words in commands:
        assert "  --json\n" in spillway(*words, "--help").stdout, words
        section = sections()[words[0]]
        assert "**Exit status.**" in section, words
        assert "--json" in section, words


@pytest.fixture
def plan(spillway, trace, tmp_path):  # noqa: F811
    path = str(tmp_path / "plan.json")
    words = ("--budget", "300MiB", "--machine", "v100-pcie", "--planner", "lru")
    assert spillway("plan", trace, *words, "-o", path).returncode == 0
    return path


def test_what_every_command_prints_is_json(spillway, trace, plan, tmp_path):  # noqa: F811
    lru = ("--planner", "lru", "--machine", "v100-pcie")
    small = ("--budget", "1MiB", *lru)
    recorded = str(tmp_path / "recorded.json")
    copy = [sys.executable, "-c", f"import shutil; shutil.copy({trace!r}, {recorded!r})"]
    asked = [
        (0, ("plan", trace, *lru)),
        (1, ("plan", trace, *small)),
        (0, ("simulate", trace)),
        (1, ("simulate", trace, "--budget", "1MiB")),
        (0, ("compare", trace, "--planners", "lru")),
        (0, ("explain", plan)),
        (0, ("what-if", trace, *lru)),
        (0, ("trace", "show", trace)),
        (0, ("trace", "stats", trace)),
        (0, ("trace", "diff", trace, trace)),
        (0, ("trace", "reorder", trace, "--depth-first", "-o", recorded)),
    ]
    for status, words in asked:
        result = spillway(*words, "--json")
        assert result.returncode == status, (words, result.stderr)
        json.loads(result.stdout)
    for status, words in (
        (0, ("run", "--budget", "1MiB", "--json", "--", *program("claim", "print=done"))),
        (3, ("run", "--budget", "1MiB", "--json", "--", *program("exit=3"))),
        (1, ("record", "--without-memory", "-o", recorded + "x", "--json", "--", "true")),
        (0, ("record", "--without-memory", "-o", recorded, "--json", "--", *copy)),
    ):
        result = spillway(*words)
        assert result.returncode == status, (words, result.stderr)
        answer = json.loads(result.stdout.splitlines()[-1])
        assert answer["exit_status"] == (status if words[0] == "run" else 0)
        if "claim" in words:
            assert (answer["stall_ns"], answer["mapping_ns"]) == (10**9, 2 * 10**8)


def test_a_recording_is_summed_up(spillway, trace, tmp_path):  # noqa: F811
    recorded = str(tmp_path / "recorded.json")
    copy = f"import shutil; shutil.copy({trace!r}, {recorded!r}); print('through')"
    result = spillway(
        "record", "--without-memory", "-o", recorded, "--json", "--", sys.executable, "-c", copy
    )
    first, last = result.stdout.splitlines()
    assert first == "through"
    answer = json.loads(last)
    assert answer["trace"] == recorded
    assert (answer["ops"], answer["storages"], answer["peak"]) == (16, 9, 513 << 20)


def test_a_run_is_summed_up(spillway):
    result = spillway("run", "--budget", "1MiB", "--json", "--", *program("claim", "print=done"))
    first, last = result.stdout.splitlines()
    assert first == "done"
    answer = json.loads(last)
    assert answer["managed"] is True and answer["processes"] == 1
    assert answer["budget"] > 0
    unmanaged = spillway("run", "--budget", "1MiB", "--json", "--", *program("exit=5"))
    assert json.loads(unmanaged.stdout) == {"exit_status": 5, "managed": False}


def test_files_that_are_none_are_status_2(spillway, tmp_path):
    bad = tmp_path / "bad.json"
    bad.write_text("{}")
    for words in (
        ("trace", "show", str(bad)),
        ("trace", "stats", str(tmp_path / "absent.json")),
        ("trace", "diff", str(bad), str(bad)),
        ("trace",),
        ("trace", "stats"),
        ("trace", "reorder", str(bad), "--depth-first", "-o", str(tmp_path / "other.json")),
        ("plan", str(bad)),
        ("explain", str(bad)),
        ("doctor", "--no-such-flag"),
    ):
        result = spillway(*words)
        assert result.returncode == 2, (words, result.stderr)
        assert result.stdout == "" and result.stderr.startswith("spillway: "), words
