# SPDX-License-Identifier: Apache-2.0
"""Words of a benchmark's command line: which programs, on which disk, to which page."""

import argparse
import importlib.util
import os
from pathlib import Path


def add_program(parser, programs):
    """The names of programs; check_programs() says whether there are such."""
    parser.add_argument("program", nargs="*", help=f"of {', '.join(programs)}; default: all")


def check_programs(parser, arguments, programs):
    """Ends the benchmark where a program was named that there is not."""
    unknown = set(arguments.program) - set(programs)
    if unknown:
        parser.error(f"no program {', '.join(sorted(unknown))}; there are {', '.join(programs)}")


def parse_choice(description, programs, page, used_for):
    """Returns what was asked for of a benchmark that measures programs on a disk, for a page."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    add_program(parser, programs)
    add_page(parser, page)
    add_directory(parser, used_for)
    arguments = parser.parse_args()
    check_programs(parser, arguments, programs)
    return arguments


def add_directory(parser, used_for):
    """The disk that is measured."""
    parser.add_argument(
        "--directory", type=Path, default=Path(os.environ.get("TMPDIR", "/var/tmp")),
        help=f"of {used_for}: the disk that is measured",
    )  # fmt: skip


def add_page(parser, page):
    """Adds flags that say whether and where to write: page_to_write() reads them."""
    parser.add_argument("--write", action="store_true", help="write what was found into the page")
    parser.add_argument(
        "--page", type=Path, default=page, help=f"where to (docs/{page.name} by default)"
    )


def page_to_write(arguments):
    """Returns the page, or None where nothing is to be written."""
    return arguments.page if arguments.write else None


def is_installed(name, modules, where=""):
    """Whether the program can run; if not, says which of the modules are missing."""
    missing = [each for each in modules if not importlib.util.find_spec(each)]
    if missing:
        print(f"{name}: left out, {', '.join(missing)} not installed{where}")
    return not missing
