# SPDX-License-Identifier: Apache-2.0
"""The native library: finding the one built for this torch, loading it, calling it.

Calls go through ctypes, which releases the GIL around each: the GIL is always taken before the
engine's lock, never the other way round.
"""

import ctypes
import json
import pathlib
import sys
import threading

SUPPORTED_MINORS = range(11, 16)  # torch 2.11 to 2.15


class UserError(ValueError):
    """Something the person who runs the program can mend: the text says what and how."""


_lock = threading.Lock()
_library: ctypes.CDLL | None = None
#: What holds now, variable name to text; None while nothing is managed.
settings: dict[str, str] | None = None


def load() -> ctypes.CDLL:
    """The library for the torch of this process, loaded at the first call. Thread-safe.

    Raises:
        RuntimeError: there is none for this torch, or it was built for another one.
    """
    global _library
    with _lock:
        if _library is None:
            _library = _load()
        return _library


def loaded() -> ctypes.CDLL | None:
    """The library if it was loaded already."""
    return _library


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


def _load() -> ctypes.CDLL:
    require_torch()
    import torch

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
    library = ctypes.CDLL(str(path))
    built_for = library.spillway_check_torch(major, minor)
    if built_for != 0:
        raise RuntimeError(f"{path} was built for torch 2.{built_for}, this is {torch.__version__}")
    _declare(library)
    return library


def _declare(library: ctypes.CDLL) -> None:
    text = ctypes.c_void_p  # freed by `check`, so not c_char_p
    pointer = ctypes.c_void_p
    for name, result, arguments in (
        ("spillway_start", text, [ctypes.c_char_p]),
        ("spillway_stop", text, []),
        ("spillway_statistics", text, []),
        ("spillway_budget_page", text, []),
        ("spillway_note_step", None, []),
        ("spillway_end", None, [ctypes.c_int, ctypes.c_int]),
        ("spillway_reset_peak", None, []),
        ("spillway_keep_gradients", None, [ctypes.c_int]),
        ("spillway_keep_made", None, [ctypes.c_int]),
        ("spillway_may_be_older", ctypes.c_int, []),
        ("spillway_wake", None, []),
        ("spillway_never_rest", None, []),
        ("spillway_show_addresses", None, [ctypes.c_int]),
        ("spillway_touch", text, [pointer, ctypes.c_int]),
        ("spillway_manage_made", text, [pointer, ctypes.c_int]),
        ("spillway_serve_when_resized", None, [pointer]),
        ("spillway_forget_tensor", None, [pointer]),
        ("spillway_keep", text, [pointer]),
        ("spillway_release", None, [pointer]),
        ("spillway_keep_address", text, [pointer, ctypes.c_int]),
        ("spillway_begin_frame", text, [ctypes.c_char_p, pointer]),
        ("spillway_use", text, [pointer, ctypes.c_int]),
        ("spillway_end_frame", None, [ctypes.py_object] * 3),
        ("spillway_free", None, [pointer]),
    ):
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments


def holding_the_lock() -> ctypes.PyDLL:
    """The library for the one call beside which no other thread of Python may run."""
    library = ctypes.PyDLL(load()._name)
    library.spillway_adopt.restype = ctypes.c_void_p
    library.spillway_adopt.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library


def as_json(settings: dict[str, str]) -> bytes:
    return json.dumps(settings).encode()


def take(text: int | None) -> str | None:
    """The text behind a pointer that the library returned, which is freed."""
    if not text:
        return None
    value = ctypes.string_at(text).decode(errors="replace")
    _library.spillway_free(text)
    return value


def check(text: int | None) -> None:
    """Raises what a returned text describes; nothing for null."""
    message = take(text)
    if message is None:
        return
    kind, _, rest = message.partition(": ")
    if kind == "user":
        raise UserError(rest)
    if kind == "memory":
        import torch

        raise torch.OutOfMemoryError(rest)
    raise RuntimeError(rest)
