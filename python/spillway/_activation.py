# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping the engine, and what is said when that fails."""

import os
import sys

from spillway import _native, _shims
from spillway._native import UserError


def start(settings: dict[str, str]) -> None:
    """Applies settings (variable name to text) and makes torch ready for evicted storages.

    Raises:
        UserError: a setting is wrong, or cannot be honoured on this machine.
        RuntimeError: the library cannot be loaded into this torch.
    """
    library = _native.load()
    _native.check(library.spillway_start(_native.as_json(settings)))
    _native.settings = settings
    _shims.install()


def from_environment() -> None:
    """Starts with the ``SPILLWAY_*`` variables of this process, or ends it with status 2."""
    settings = {name: value for name, value in os.environ.items() if name.startswith("SPILLWAY_")}
    try:
        if "SPILLWAY_WITHOUT_MEMORY" in settings:
            from spillway.recording import program

            program.start()
        else:
            start(settings)
    except UserError as error:
        _end(str(error))
    except Exception as error:  # noqa: BLE001 - import torch must not fail half-way
        if os.environ.get("SPILLWAY_STRICT", "1") != "0":
            _end(f"{error}\nSet SPILLWAY_STRICT=0 to train without the limit instead.")
        print(f"spillway: not active: {error}", file=sys.stderr)


def _end(text: str) -> None:
    print(f"spillway: error: {text}", file=sys.stderr, flush=True)
    # torch turns an exception here into one of its own about a broken plug-in; SystemExit passes.
    raise SystemExit(2)
