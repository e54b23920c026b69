# SPDX-License-Identifier: Apache-2.0
"""The documentation says what the code says. Reads sources only; needs no PyTorch."""

import ast
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE_BLOCK = re.compile(r"(?:^(?: {4}.*)?\n)+|^```.*?^```", re.MULTILINE | re.DOTALL)
HIDDEN = {"build", "dist", "out", "node_modules"}


def pages():
    """Every page of the repository, without what is built or installed in it."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if not f.startswith(".") and f not in HIDDEN]
        found += [Path(folder, name) for name in names if name.endswith(".md")]
    return sorted(found)


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def relative(path):
    return str(path.relative_to(ROOT))


def anchors(page):
    """The anchors GitHub makes of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).strip().replace(" ", "-") for title in plain}


def statistics_fields():
    tree = ast.parse(read("python/spillway/_session.py"))
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    (statistics,) = [node for node in classes if node.name == "Statistics"]
    return {node.target.id for node in statistics.body if isinstance(node, ast.AnnAssign)}


def json_keys():
    source = read("runtime/src/exec/statistics.cpp")
    body = source[source.index("to_json(") : source.index("to_summary(")]
    return set(re.findall(r'[{\[]"([a-z_]+)"[,\]]', body))


def documented_statistics():
    rows = re.findall(r"^\| (`[^|]*`) \|", read("docs/statistics.md"), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}


def test_statistics_of_json_and_python_agree():
    assert len(json_keys()) > 20  # the source was understood
    assert json_keys() - {"name", "moved_bytes"} == statistics_fields()


def test_every_statistic_has_a_row_and_every_row_a_statistic():
    # Rows of the last table begin with what one sees; all they name are statistics too.
    assert statistics_fields() <= documented_statistics()
    assert documented_statistics() <= statistics_fields()


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_links_resolve(page):
    broken = []
    for target in LINK.findall(page.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = page.parent / name if name else page
        if not path.exists() or (anchor and anchor not in anchors(path)):
            broken.append(target)
    assert not broken


def test_every_page_is_in_the_index():
    index = read("docs/README.md")
    listed = {name.partition("#")[0] for name in LINK.findall(index) if not name.startswith("..")}
    there = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    assert there - {"README.md"} == listed


@pytest.mark.parametrize("name", ["ARCHITECTURE.md", "README.md", *sorted(
    f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md"))])  # fmt: skip
def test_named_files_exist(name):
    top = [p.name for p in ROOT.iterdir() if p.is_dir() and not p.name.startswith(".")]
    path = re.compile(rf"`((?:{'|'.join(map(re.escape, top))})/[\w./-]*)`")
    # Products of a build or a run are not in the checkout; these stand for an include and a source
    # folder each.
    made = re.compile(
        r"(build|dist|out)/|core/(base|machine|plan|trace)$"
        r"|runtime/(memory|transfer|device|store|exec)$"
        r"|planning/(analysis|cost|sim|bound|draft|pass|search|planner)$"
    )
    text = read(name)
    named = [p for p in path.findall(text) if not made.match(p)]
    assert [p for p in named if not (ROOT / p).exists()] == []


def make_targets():
    return set(re.findall(r"^([a-z-]+):", read("Makefile"), re.MULTILINE))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_make_targets_exist(page):
    text = page.read_text(encoding="utf-8")
    blocks = "\n".join(CODE_BLOCK.findall(text)) + "\n".join(re.findall(r"`[^`\n]+`", text))
    assert (
        set(re.findall(r"(?:^ {4}|`)make ([a-z][a-z-]*)", blocks, re.MULTILINE)) <= make_targets()
    )


@pytest.fixture(scope="module")
def help_of():
    """The help text of `spillway WORDS`, from the command under test or the one on PATH."""
    built = ROOT / "build" / "release" / "tools" / "spillway"
    command = os.environ.get("COMMAND_UNDER_TEST") or (
        str(built) if built.exists() else shutil.which("spillway")
    )
    assert command, "no spillway command: build it first, or name it in COMMAND_UNDER_TEST"
    known = {}

    def text(*words):
        if words not in known:
            done = subprocess.run(
                [command, *words, "--help"], capture_output=True, text=True, timeout=60, check=False
            )
            known[words] = done.stdout if done.returncode == 0 else ""
        return known[words]

    return text


def command_lines():
    """Words after `spillway` in code blocks and code spans of every page: page, words."""
    for page in pages():
        text = page.read_text(encoding="utf-8")
        spans = [span.strip("`") for span in re.findall(r"`spillway [^`\n]+`", text)]
        spans += re.findall(r"^ {4}(?:\w+=\S+ )*(spillway [^#\n]*)", text, re.MULTILINE)
        for span in spans:
            words = span.split()[1:]
            if re.fullmatch(r"-*[a-z]+", words[0]):
                yield relative(page), words


def test_commands_and_their_flags_exist(help_of):
    commands = set(re.findall(r"^  ([a-z-]+) +[A-Z]", help_of(), re.MULTILINE))
    assert {"run", "doctor"} <= commands
    found = list(command_lines())
    assert len(found) > 5
    for page, words in found:
        if words[0].startswith("-"):
            assert words[0] in help_of(), (page, words)
            continue
        assert words[0] in commands, (page, words)
        own = words[: words.index("--")] if "--" in words else words
        views = re.findall(r"^  ([a-z]+) +[A-Z]", help_of(words[0]), re.MULTILINE)
        command = words[:2] if views else words[:1]
        assert command[-1] in views or not views, (page, words)
        for flag in (word for word in own if word.startswith("-")):
            assert re.search(rf"(^|[ ,]){flag}\b", help_of(*command), re.MULTILINE), (page, words)


def options_by_planner():
    """The options that docs/planners names: planner, names."""
    hybrid = ("hybrid", read("docs/planners/hybrid.md"))
    sections = read("docs/planners/README.md").split("\n## ")[1:]
    for name, text in [hybrid, *(section.split("\n", 1) for section in sections)]:
        (line,) = re.findall(r"^Options: (`.*?)\.$", text, re.MULTILINE | re.DOTALL)
        yield name, re.findall(r"`([a-z-]+)`", line)


def test_help_says_what_the_options_of_planners_do(help_of):
    flags = re.split(r"^  --(?:use-)?(?=[a-z])", help_of("plan"), flags=re.MULTILINE)
    meanings = {flag.split()[0]: " ".join(flag.split()[2:]) for flag in flags[1:]}
    found = list(options_by_planner())
    assert len(found) > 7
    for planner, names in found:
        assert names, planner
        for name in names:
            said = re.search(rf"(?:^|\) ){planner}: \w.*?\. \(.+?\)", meanings.get(name, ""))
            assert said, (planner, name, meanings.get(name))


def settings():
    return set(re.findall(r"^\| `(SPILLWAY_[A-Z_]+)` \|", read("docs/settings.md"), re.MULTILINE))


@pytest.mark.parametrize("page", pages(), ids=relative)
def test_variables_exist(page):
    named = set(re.findall(r"\bSPILLWAY_[A-Z_]*[A-Z]\b", page.read_text(encoding="utf-8")))
    build_options = {"SPILLWAY_TORCH", "SPILLWAY_PYTHON", "SPILLWAY_TESTS", "SPILLWAY_CHECK"}
    of_planning = {"SPILLWAY_COMMAND", "SPILLWAY_MACHINES"}
    assert named - build_options - of_planning <= settings()


def test_flags_are_settings_or_options():
    flags = set()
    for name in ("README.md", "docs/limits.md", "docs/troubleshooting.md"):
        flags |= set(re.findall(r"`(--[a-z-]+)", read(name)))
    ours = set(re.findall(r"`(--[a-z-]+)", read("docs/settings.md")))
    assert flags - {"--no-build-isolation"} <= ours


def test_troubleshooting_quotes_the_code():
    sources = ""
    for folder in ("adapters", "python", "runtime", "scripts/cmake", "tools"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".cmake", ".cpp", ".hpp", ".py") or path.name == "CMakeLists.txt":
                sources += path.read_text(encoding="utf-8")
    # Neighbouring literals are one text; what stands in braces is filled in when it runs.
    sources = re.sub(r'"\s*\n?\s*f?"', "", sources.replace("\\n", " "))
    sources = re.sub(r"\{[^{}\s]*\}", "\n", re.sub(r"\s+", " ", sources))
    text = read("docs/troubleshooting.md")
    table = text[text.index("## Messages") : text.index("## A slow run")]
    first_cells = "\n".join(re.findall(r"^\|([^|]*)\|", table, re.MULTILINE))
    quotes = re.findall("`([^`]+)`", first_cells)
    assert len(quotes) > 8
    for quote in quotes:
        for part in re.split(r"(?:SPILLWAY_)?\.\.\.", quote):
            assert part.strip() in sources, f"{quote!r}: {part!r} is in no source"
