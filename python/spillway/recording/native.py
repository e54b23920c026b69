# SPDX-License-Identifier: Apache-2.0
"""The part of the native library that records."""

import ctypes

from spillway import _native

#: A function that numbers the line of the program that is running.
WHERE = ctypes.CFUNCTYPE(ctypes.c_uint32)

_declared = False


def load() -> ctypes.CDLL:
    """The library, with the functions of recording declared.

    Raises:
        RuntimeError: there is none for this torch.
    """
    global _declared
    library = _native.load()
    if not _declared:
        _declare(library)
        _declared = True
    return library


def _declare(library: ctypes.CDLL) -> None:
    text = pointer = ctypes.c_void_p  # texts are freed by _native.check and _native.take
    name = ctypes.c_char_p
    for function, result, arguments in (
        ("spillway_record_begin", text, [WHERE, ctypes.c_int, ctypes.c_int, ctypes.c_int]),
        ("spillway_trace_begin", None, [WHERE]),
        ("spillway_record_step", None, []),
        ("spillway_record_end", None, []),
        ("spillway_record_module", None, [name]),
        ("spillway_record_line", None, [ctypes.c_uint32, name]),
        ("spillway_record_storage", None, [pointer, name, name]),
        ("spillway_record_last_op", text, []),
        ("spillway_record_decomposed", text, []),
        ("spillway_record_take", text, [name, name, pointer]),
        ("spillway_step_write", text, [pointer, name]),
        ("spillway_step_text", text, [pointer]),
        ("spillway_step_facts", text, [pointer]),
        ("spillway_step_free", None, [pointer]),
    ):
        entry = getattr(library, function)
        entry.restype = result
        entry.argtypes = arguments
