# SPDX-License-Identifier: Apache-2.0
"""Every cited work stands in docs/references.md, under the title that it has there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDERS = (
    "adapters", "benchmarks", "core", "docs", "machines", "planning", "python",
    "residency", "runtime", "tests", "tools",
)  # fmt: skip
ENDINGS = {".cpp", ".hpp", ".py", ".md", ".json"}
YEAR = r"(?:19[5-9]|20[0-2])\d"
CITED = re.compile(r"\b([A-ZÇ][^\W\d_]+) et al\b")
# One author or two, with the year: "Karp and Rabin 1987".
NAME = r"[A-ZÇ][^\W\d_A-Z]+"
BY_YEAR = re.compile(rf"\b(?:({NAME}) and )?({NAME}),? {YEAR}\b")
# A place inside a work, which is cited only where the text was at hand.
PLACE = re.compile(rf"\b{YEAR},? (?:section|chapter|theorem|figure) \d")
# A title in quotation marks with a place and a year behind it.
TITLE = re.compile(rf'"([^"]{{20,160}})",? (?:\([^)]*\), )?[^"]{{0,80}}?\b{YEAR}\b')


def sources():
    found = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md"]
    for folder in FOLDERS:
        found += [p for p in (ROOT / folder).rglob("*") if p.suffix in ENDINGS]
    return [p for p in found if p.name != "references.md" and "recordings" not in p.parts
            and p != Path(__file__)]  # fmt: skip


def plain(path):
    """Its words, with comment marks and line ends gone."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return re.sub(r"\s+", " ", " ".join(re.sub(r"^\s*(///?|#|\*)\s?", "", line) for line in lines))


def references():
    return plain(ROOT / "docs/references.md").lower()


def comments(path):
    """Returns the comments of code alone, where what stands in quotation marks may be a title."""
    if path.suffix == ".md":
        return plain(path)
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(line.strip(" /#*") for line in lines if re.match(r"\s*(//|#|\"\"\")", line))


@pytest.fixture(scope="module")
def known():
    return references()


def test_whoever_is_cited_is_listed(known):
    missing = {
        (str(path.relative_to(ROOT)), name)
        for path in sources()
        for name in CITED.findall(plain(path))
        if f"{name.lower()} et al." not in known
    }
    assert not missing


def test_whoever_is_cited_with_a_year_is_listed(known):
    missing = {
        (str(path.relative_to(ROOT)), name)
        for path in sources()
        for names in BY_YEAR.findall(plain(path))
        for name in names
        if not re.search(rf"\b{name.lower()}\b", known)
    }
    assert not missing


def test_no_place_in_a_work_is_cited_that_was_not_at_hand():
    cited = {str(path.relative_to(ROOT)) for path in sources() if PLACE.search(plain(path))}
    assert not cited


def test_titles_are_those_of_the_list(known):
    other = {
        (str(path.relative_to(ROOT)), title)
        for path in sources()
        for title in TITLE.findall(comments(path))
        if f'"{title.lower()}"' not in known
    }
    assert not other


def test_the_test_sees_citations():
    text = " ".join(comments(path) for path in sources())
    titles = {title.lower() for title in TITLE.findall(text)}
    assert "training deeper models by gpu memory optimization on tensorflow" in titles
    assert len(titles) >= 12
    by_year = {names for path in sources() for names in BY_YEAR.findall(plain(path))}
    assert {("Karp", "Rabin"), ("", "Belady")} <= by_year
