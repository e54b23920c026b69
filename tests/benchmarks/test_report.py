# SPDX-License-Identifier: Apache-2.0
"""Answers replace those to the same question; a page lists each machine once."""

import pytest

from benchmarks import report

LONG = (
    "Another machine, whose name fills a line of the page and goes on in the next, "
    + "core " * 8
    + "core."
)


@pytest.fixture
def answer(tmp_path, monkeypatch):
    """Writes an answer taken on a machine; returns the page."""
    page = tmp_path / "page.md"

    def write(key, line, machine="A machine, 2 cores."):
        monkeypatch.setattr(report.Report, "machine", lambda self: machine)
        report.Report(page, "bench").add(key, f"What of {key}?", [line])
        return page.read_text()

    return write


def test_an_answer_replaces_the_one_to_the_same_question(answer):
    answer("one", "first")
    answer("two", "other")
    text = answer("one", "second")
    assert "first" not in text and text.count("<!-- one: begin -->") == 1
    assert text.index("second") < text.index("other") < text.index("## Machines")


def test_machines_are_listed_once_and_keep_their_numbers(answer):
    answer("one", "first")
    answer("two", "other", machine=LONG)
    text = answer("three", "third")
    assert text.count("1. A machine, 2 cores.") == 1 and text.count("Another machine") == 1
    assert text.count("[machine 1](#machines)") == 2 and text.count("[machine 2](#machines)") == 1
    assert answer("two", "again", machine=LONG).count("Another machine") == 1
