# SPDX-License-Identifier: Apache-2.0
"""Finding the file of a named machine."""

import difflib
import os
import pathlib

from spillway._native import UserError

_PACKAGE = pathlib.Path(__file__).resolve().parent.parent


def folders() -> tuple[pathlib.Path, ...]:
    """Where machines are looked for: in SPILLWAY_MACHINES if that is set. Else an installation has
    the files beside the package, a checkout at its root.
    """
    if given := os.environ.get("SPILLWAY_MACHINES"):
        return (pathlib.Path(given),)
    return (_PACKAGE / "machines", _PACKAGE.parent.parent / "machines")


def find(machine: str) -> pathlib.Path:
    """The file of ``machine``: a name such as ``h200``, or a path.

    Raises:
        UserError: there is none.
    """
    path = pathlib.Path(machine)
    if path.suffix == ".json" or "/" in machine:
        if path.is_file():
            return path
        raise UserError(
            f"There is no machine file {machine}. Name another, or a machine: {', '.join(names())}."
        )
    for folder in folders():
        if (folder / f"{machine}.json").is_file():
            return folder / f"{machine}.json"
    known = names()
    near = difflib.get_close_matches(machine, known, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    raise UserError(f'There is no machine "{machine}".{hint} There are: {", ".join(known)}.')


def names() -> list[str]:
    """The machines that can be named."""
    return sorted({file.stem for folder in folders() for file in folder.glob("*.json")})
