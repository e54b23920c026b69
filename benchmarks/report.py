# SPDX-License-Identifier: Apache-2.0
"""Writes answers into docs/benchmarks.md, each between the markers of its question."""

import datetime
import os
import platform
import re
import subprocess
import textwrap
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "benchmarks.md"
MACHINES = "## Machines"
HEAD = """\
<!-- SPDX-License-Identifier: Apache-2.0 -->
# Benchmarks

Every answer is a ratio of two programs that ran in turns on the same machine, as the median of the
pairs with their range. How: `benchmarks/README.md`. What stands between markers is written by the
scripts there.
"""


def table(*rows):
    """Lines of Markdown; the first row is the head."""
    lines = ["| " + " | ".join(map(str, row)) + " |" for row in rows]
    return [lines[0], "|" + "---|" * len(rows[0]), *lines[1:]]


def wrapped(line):
    """A paragraph in lines of the page's width; a row of a table as it is."""
    if line.startswith("|"):
        return [line]
    return textwrap.wrap(line, 100, break_on_hyphens=False, break_long_words=False) or [""]


def size(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.2f} GiB"


def verdict(value, bound):
    return "met" if value <= bound else "**missed**"


class Report:
    """Collects the sections of one script: printed at once, and written to the page if asked."""

    def __init__(self, page, command, directory="/var/tmp", framework="torch"):
        self.page, self.command, self.directory = page, command, directory
        self.framework = framework

    def add(self, key, question, lines):
        here = self.machine()
        self._print(question, [*lines, "", f"{self.run()}. {here}"])
        if self.page:
            text = self.page.read_text(encoding="utf-8") if self.page.exists() else HEAD
            text, number = with_machine(text, here)
            where = f"{self.run()}, on [machine {number}](#machines)."
            text = with_section(text, key, question, body_of([*lines, "", where]))
            self.page.write_text(text, encoding="utf-8")

    def run(self):
        date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d")
        return f"`{self.command}`, {date}, load {os.getloadavg()[0]:.1f} at the end"

    def machine(self):
        return machine(self.directory, self.framework)

    def _print(self, question, lines):
        print(f"\n## {question}\n", *body_of(lines), sep="\n", flush=True)


def body_of(lines):
    return [part for line in lines for part in wrapped(line)]


def with_section(text, key, question, body):
    """The page with this section: in its place, or before that on machines."""
    begin, end = f"<!-- {key}: begin -->", f"<!-- {key}: end -->"
    section = "\n".join([begin, *body, end])
    place = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    if place.search(text):
        return place.sub(lambda _: section, text)
    above, heading, below = text.partition(f"\n{MACHINES}\n")
    return f"{above.rstrip()}\n\n## {question}\n\n{section}\n{heading}{below}"


def section_of(text, key):
    """What the page has between the section's markers; empty where it has no such section."""
    found = re.search(f"<!-- {key}: begin -->(.*?)<!-- {key}: end -->", text, re.DOTALL)
    return found[1].strip() if found else ""


def with_machine(text, told):
    """The page with this machine in the list at its end, and the machine's number there."""
    above, _, below = text.partition(f"\n{MACHINES}\n")
    listed = re.findall(r"^\d+\. (.*(?:\n   .*)*)", below, re.MULTILINE)
    known = [re.sub(r"\s+", " ", one) for one in listed]
    if told not in known:
        known.append(told)
    items = []
    for number, one in enumerate(known, 1):
        items += textwrap.wrap(
            f"{number}. {one}", 100, subsequent_indent="   ", break_on_hyphens=False
        )
    listing = "\n".join(items)
    return f"{above.rstrip()}\n\n{MACHINES}\n\n{listing}\n", known.index(told) + 1


def machine(directory, framework="torch"):
    """One sentence about what the figures were taken on."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    cores = len(os.sched_getaffinity(0))
    parts = [
        f"{processor()}, {cores} core{'s' * (cores != 1)}",
        f"{size(pages)} of memory",
        f"Linux {platform.release().split('-')[0]}",
        disk(directory),
        f"Python {platform.python_version()}",
        f"{framework} {version(framework)}",
        f"spillway {version('spillway')}",
    ]
    return ", ".join(parts) + "."


def version(package):
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


def processor():
    text = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    found = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return found[1] if found else platform.machine()


def disk(directory):
    """File system and kind of the disk below the directory, as far as they can be known."""
    command = ["df", "--output=fstype,source", str(directory)]
    told = subprocess.run(command, capture_output=True, text=True, check=False).stdout.split()
    if len(told) < 4:
        return "unknown disk"
    file_system, device = told[-2], Path(told[-1]).name
    queue = Path("/sys/class/block", device).resolve()
    if (queue / "partition").exists():
        queue = queue.parent
    model = read(queue / "device" / "model")
    # A virtual disk cannot know whether it rotates, and says yes.
    virtual = device.startswith(("vd", "xvd"))
    rotates = not virtual and read(queue / "queue" / "rotational") == "1"
    kind = model or ("a virtual disk" if virtual else device)
    return f"{file_system} on {kind}{' (rotating)' * rotates}"


def read(path):
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
