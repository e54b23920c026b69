# SPDX-License-Identifier: Apache-2.0
"""Spillway for TensorFlow, from a program. ``SPILLWAY_BUDGET=200MiB python program.py`` needs none
of it: `import tensorflow` opens the plugin by itself then. docs/tensorflow.md has the whole of it.
"""

import ctypes
import os
import pathlib
from typing import Any

from spillway import _unmanaged
from spillway._library import TensorflowPlugin
from spillway._native import UserError


def enable(budget: str | int | None = None, **options: Any) -> None:
    """Keeps TensorFlow's tensors on the processor within ``budget``. Call it before the first one.

    Args:
        budget: bytes, ``"12GiB"``, ``"80%"`` of RAM, or ``"auto"``; of a card's memory, whose
            tensors are kept within it instead, bytes alone: ``"cuda:12GiB"``.
        **options: any other setting of docs/settings.md that docs/tensorflow.md names, in lower
            case and without ``SPILLWAY_``, e.g. ``spool_dir="/mnt/nvme"``.

    Raises:
        UserError: there is no plugin for this TensorFlow, a setting cannot be honoured, or it is
            too late. Nothing has changed then.
    """
    from tensorflow.python.eager import context
    from tensorflow.python.framework import load_library

    path = _path()
    if not path.exists():
        raise UserError(
            f"no plugin for this TensorFlow: there is no {path}. Install Spillway again in the "
            "environment of this TensorFlow, of a version that docs/tensorflow.md names"
        )
    if stats() is not None:
        raise UserError("TensorFlow is managed since it was imported: unset SPILLWAY_BUDGET first")
    if context.context()._context_handle is not None:
        raise UserError("TensorFlow has made tensors already: call enable() before the first one")
    given = {"budget": budget, **options}
    settings = {f"SPILLWAY_{name.upper()}": str(v) for name, v in given.items() if v is not None}
    try:
        plugin = TensorflowPlugin(ctypes.CDLL(str(path)))
    except OSError as error:
        raise UserError(f"the plugin cannot be opened: {error}. Install Spillway again") from error
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    if trouble := plugin.start():
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        raise UserError(trouble)
    if stats() is None:  # mode off, or what is wrong is no reason to end: that was said
        return
    load_library.load_pluggable_device_library(str(path))
    _unmanaged.watch()


def stats() -> dict[str, Any] | None:
    """Counters of this process (docs/tensorflow.md); None where nothing is managed."""
    path = _path()
    if not path.exists():
        return None
    try:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOLOAD)
    except OSError:  # nobody has opened it
        return None
    return TensorflowPlugin(library).statistics()


def _path() -> pathlib.Path:
    import tensorflow

    minor = ".".join(tensorflow.__version__.split(".")[:2])
    return pathlib.Path(__file__).parent / "lib" / f"libspillway_tensorflow-{minor}.so"
