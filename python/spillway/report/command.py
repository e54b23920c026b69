# SPDX-License-Identifier: Apache-2.0
"""The command line of ``spillway report``."""

import argparse
import json
import os
import pathlib
import sys

from spillway._native import UserError
from spillway.report import gather


def main(arguments: list[str] | None = None) -> int:
    """Writes the page; the exit status is 2 after a mistake that was explained."""
    options = _parser().parse_args(arguments)
    progress = _Progress()
    try:
        written = _write_all(options, progress)
    except UserError as error:
        progress.end()
        print(f"spillway: error: {error}", file=sys.stderr)
        return 2
    progress.end()
    for path in written.values():
        print(f"spillway: wrote {path}", file=sys.stderr)
    if options.json:
        print(json.dumps(written))
    return 0


class _Progress:
    """Shows the work in progress on a line of the terminal that is removed at the end."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def show(self, doing: str) -> None:
        if self._shown:
            print(f"\r\033[Kreport: {doing}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        if self._shown:
            print("\r\033[K", end="", file=sys.stderr, flush=True)


def _write_all(options: argparse.Namespace, progress: _Progress) -> dict[str, str]:
    """Writes what was asked for: kind of file to its path."""
    if not (options.output or options.perfetto):
        raise UserError("nothing to write: give -o FILE for the page, or --perfetto FILE")
    progress.show("reading and simulating")
    report = gather.report(
        options.subject,
        trace=options.trace,
        machine=options.machine,
        compare=options.compare,
        run=options.run,
        title=options.title,
    )
    written = {}
    if options.perfetto:
        from spillway.report import perfetto

        progress.show("writing events")
        _write(options.perfetto, perfetto.trace_events(report))
        written["perfetto"] = options.perfetto
    if options.output:
        try:
            from spillway.report import page
        except ImportError as error:
            raise UserError(
                f"a report is drawn with plotly and jinja2, and {error.name} is not installed: "
                "pip install plotly jinja2"
            ) from None
        progress.show("drawing")
        _write(options.output, page.render(report))
        written["page"] = options.output
    return written


def _write(path: str, text: str) -> None:
    try:
        pathlib.Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}. Name another file.") from None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="spillway report",
        description="Draw a recorded step, a plan or a run as one page that needs no network.",
    )
    parser.add_argument("subject", help="a trace, a plan, or the statistics of a run")
    parser.add_argument("-o", "--output", help="the HTML page to write")
    parser.add_argument("--trace", help="the trace that the plan or the run belongs to")
    parser.add_argument("--machine", help="name or file; else the one the plan was made for")
    parser.add_argument("--compare", help="what `spillway compare --json` printed")
    parser.add_argument("--run", help="statistics of a run with the plan (SPILLWAY_STATS)")
    parser.add_argument("--perfetto", help="also write the step for Perfetto, as JSON")
    parser.add_argument("--title", help="heading of the page")
    parser.add_argument("--json", action="store_true", help="print the written files as JSON")
    return parser
