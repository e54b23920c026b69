# SPDX-License-Identifier: Apache-2.0
"""The native library: finding the one built for this torch, and loading it."""

import ctypes
import pathlib
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spillway._library import Library

SUPPORTED_MINORS = range(11, 16)  # torch 2.11 to 2.15


class UserError(ValueError):
    """Something the person who runs the program can mend: the text says what and how."""


_lock = threading.Lock()
_library: "Library | None" = None
#: What holds now, variable name to text; None while nothing is managed.
settings: dict[str, str] | None = None
#: What will hold once the program uses a graphics card; None where nothing waits for that.
awaiting_card: dict[str, str] | None = None


def load() -> "Library":
    """The library for the torch of this process, loaded at the first call. Thread-safe.

    Raises:
        RuntimeError: there is none for this torch, or it was built for another one.
    """
    global _library
    with _lock:
        if _library is None:
            _library = _load()
        return _library


def loaded() -> "Library | None":
    """The library if it was loaded already."""
    return _library


def names_no_device(budget: str) -> bool:
    """Whether it is a budget, and leaves open whose memory it is of."""
    return bool(budget) and ":" not in budget


def budget_is_of_a_card() -> bool:
    """Whether a graphics card's memory is managed now, or will be as soon as it is used."""
    if awaiting_card is not None:
        return True
    return settings is not None and _library is not None and _library.holds_a_card()


def require_torch() -> None:
    """Imports torch.

    Raises:
        UserError: this Python has none.
    """
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise UserError(f"this Python has no PyTorch to manage: {sys.executable}") from None


def _load() -> "Library":
    require_torch()
    import torch

    from spillway._library import Library

    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    path = pathlib.Path(__file__).parent / "lib" / f"libspillway_torch-{major}.{minor}.so"
    if not path.exists():
        built = sorted(
            file.stem.split("-")[-1] for file in path.parent.glob("libspillway_torch-*.so")
        )
        raise RuntimeError(
            f"no adapter for torch {torch.__version__}: this installation has "
            f"{', '.join(built) or 'none'}; supported are 2.{SUPPORTED_MINORS[0]} to "
            f"2.{SUPPORTED_MINORS[-1]}. Install again in the environment of this torch: "
            "in the folder of Spillway's source, pip install -r requirements/build.txt && "
            "pip install --no-build-isolation ."
        )
    # A library built for another minor may load and silently manage nothing, hence the name above
    # and the second check inside.
    functions = ctypes.CDLL(str(path))
    built_for = functions.spillway_check_torch(major, minor)
    if built_for != 0:
        raise RuntimeError(f"{path} was built for torch 2.{built_for}, this is {torch.__version__}")
    return Library(functions)
