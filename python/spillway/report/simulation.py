# SPDX-License-Identifier: Apache-2.0
"""The answer of the command `spillway` about a plan, as JSON."""

import json
import os
import shutil
import subprocess
import tempfile
from typing import Any

from spillway._native import UserError


def ask(*arguments: str) -> dict[str, Any]:
    """The object that `spillway ARGUMENTS... --json` prints.

    Raises:
        UserError: the command is not there, or refuses; its own words are passed on.
    """
    command = os.environ.get("SPILLWAY_COMMAND") or shutil.which("spillway")
    if command is None:
        raise UserError(
            "the command spillway, which simulates the plans of a report, is not on PATH: activate "
            "the environment that it is installed in"
        )
    # A file, since the answer for a long step is larger than a pipe's reader would like.
    with tempfile.TemporaryFile() as answer:
        done = subprocess.run(
            [command, *arguments, "--json"], stdout=answer, stderr=subprocess.PIPE, check=False
        )
        answer.seek(0)
        text = answer.read()
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        said = done.stderr.decode(errors="replace").strip() or f"ended with {done.returncode}"
        raise UserError(f"spillway {arguments[0]}: {said}")
    return parsed
