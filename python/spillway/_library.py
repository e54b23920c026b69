# SPDX-License-Identifier: Apache-2.0
"""The C interface of the native library: every call that Python makes of it.

Any thread. Calls go through ctypes, which releases the GIL around each: the GIL is always taken
before the engine's lock, never the other way round. Texts that the library returns are freed here,
and those that describe an error are raised.
"""

import ctypes
import enum
import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from spillway._native import UserError

if TYPE_CHECKING:
    import torch

#: A function that numbers the line of the program that is running. Whoever gives one to the library
#: holds it for as long as the library may call it.
WHERE = ctypes.CFUNCTYPE(ctypes.c_uint32)

#: A function that starts and returns 1, or refuses what it was called for.
BEGIN = ctypes.CFUNCTYPE(ctypes.c_int)

_TEXT = ctypes.c_void_p  # freed by `take`, so not c_char_p
_POINTER = ctypes.c_void_p
_NAME = ctypes.c_char_p
_FLAG = ctypes.c_int

# Result and arguments of each function. `spillway_adopt` is missing: see `Library.adopt`.
_DECLARED = {
    "spillway_start": (_TEXT, _NAME),
    "spillway_card_budget": (_TEXT, _NAME, _POINTER),
    "spillway_await_card": (_TEXT, _NAME, BEGIN),
    "spillway_end_waiting": (None, _FLAG),
    "spillway_stop": (_TEXT,),
    "spillway_is_started": (_FLAG,),
    "spillway_statistics": (_TEXT,),
    "spillway_budget_page": (_TEXT,),
    "spillway_holds_a_card": (_FLAG,),
    "spillway_note_step": (None,),
    "spillway_end": (None, _FLAG, _FLAG),
    "spillway_reset_peak": (None,),
    "spillway_keep_gradients": (None, _FLAG),
    "spillway_keep_made": (None, _FLAG),
    "spillway_may_be_older": (_FLAG,),
    "spillway_wake": (None,),
    "spillway_never_rest": (None,),
    "spillway_show_addresses": (None, _FLAG),
    "spillway_touch": (_TEXT, _POINTER, ctypes.c_int),
    "spillway_manage_made": (_TEXT, _POINTER, _FLAG),
    "spillway_serve_when_resized": (None, _POINTER),
    "spillway_release_tensor": (None, _POINTER),
    "spillway_keep": (_TEXT, _POINTER),
    "spillway_release": (None, _POINTER),
    "spillway_keep_address": (_TEXT, _POINTER, _FLAG),
    "spillway_begin_frame": (_TEXT, _NAME, _POINTER),
    "spillway_use": (_TEXT, _POINTER, _FLAG),
    "spillway_end_frame": (None, ctypes.py_object, ctypes.py_object, ctypes.py_object),
    "spillway_free": (None, _POINTER),
    "spillway_record_begin": (_TEXT, WHERE, _FLAG, _FLAG, _FLAG),
    "spillway_trace_begin": (None, WHERE),
    "spillway_record_step": (None,),
    "spillway_record_end": (None,),
    "spillway_record_module": (None, _NAME),
    "spillway_record_line": (None, ctypes.c_uint32, _NAME),
    "spillway_record_storage": (None, _POINTER, _NAME, _NAME),
    "spillway_record_last_op": (_TEXT,),
    "spillway_record_decomposed": (_TEXT,),
    "spillway_record_take": (_TEXT, _NAME, _NAME, _POINTER),
    "spillway_step_write": (_TEXT, _POINTER, _NAME),
    "spillway_step_text": (_TEXT, _POINTER),
    "spillway_step_facts": (_TEXT, _POINTER),
    "spillway_step_free": (None, _POINTER),
}


class CardBudget(enum.IntEnum):
    """What settings mean where the process sees a graphics card."""

    NONE = 0
    YES = 1  #: the budget is of its memory
    OFF = 2  #: so it would be, but the mode is off


class Library:
    """The adapter for one minor of torch, which is open until the process ends.

    A method that can fail raises UserError for what a person can mend, torch.OutOfMemoryError where
    memory is short, and RuntimeError for the rest.
    """

    def __init__(self, functions: ctypes.CDLL) -> None:
        self.functions = functions  #: as ctypes knows them
        for name, (result, *arguments) in _DECLARED.items():
            function = getattr(functions, name)
            function.restype = result
            function.argtypes = arguments
        #: Ends the frame that the calling thread began last. A function of C, which takes the three
        #: arguments of `__exit__` and looks at none.
        self.end_frame: Callable[..., None] = functions.spillway_end_frame

    def take(self, text: int | None) -> str | None:
        """The text behind a pointer that the library returned, which is freed; None for null."""
        if not text:
            return None
        value = ctypes.string_at(text).decode(errors="replace")
        self.functions.spillway_free(text)
        return value

    def _check(self, text: int | None) -> None:
        """Raises what a returned text describes; nothing for null."""
        if text:
            self._raise(self.take(text))

    @staticmethod
    def _raise(message: str) -> None:
        kind, _, rest = message.partition(": ")
        if kind == "user":
            raise UserError(rest)
        if kind == "memory":
            import torch

            raise torch.OutOfMemoryError(rest)
        raise RuntimeError(rest)

    # The engine

    def start(self, settings: dict[str, str]) -> None:
        """Manages the process by these settings, variable name to text."""
        self._check(self.functions.spillway_start(json.dumps(settings).encode()))

    def card_budget(self, settings: dict[str, str]) -> CardBudget:
        answer = ctypes.c_int()
        text = json.dumps(settings).encode()
        self._check(self.functions.spillway_card_budget(text, ctypes.byref(answer)))
        return CardBudget(answer.value)

    def await_card(self, settings: dict[str, str], begin: Callable[[], int] | None) -> None:
        """Looks at the settings, and waits: `start` follows once the program uses a card.

        Args:
            begin: a BEGIN, called before memory of a card is given out of which torch told nobody.
        """
        text = json.dumps(settings).encode()
        self._check(self.functions.spillway_await_card(text, begin or BEGIN()))

    def end_waiting(self, refused: bool) -> None:
        """No start follows. `refused`: one was tried, which the program's end shows."""
        self.functions.spillway_end_waiting(refused)

    def stop(self) -> None:
        self._check(self.functions.spillway_stop())

    def statistics(self) -> str | None:
        """JSON, as docs/statistics.md describes it; None where `start` never succeeded."""
        if not self.functions.spillway_is_started():
            return None
        return self.take(self.functions.spillway_statistics())

    def budget_page(self) -> str | None:
        """The file by which processes started from this one find the budget to share, if any."""
        return self.take(self.functions.spillway_budget_page())

    def holds_a_card(self) -> bool:
        """Whether a graphics card's memory is managed."""
        return self.functions.spillway_holds_a_card() != 0

    def reset_peak(self) -> None:
        self.functions.spillway_reset_peak()

    def note_step(self) -> None:
        """An optimizer's step begins."""
        self.functions.spillway_note_step()

    def end(self, out_of_memory: bool, now: bool) -> None:
        """The interpreter ends, by a shortage that nobody caught or not. `now`: write the files."""
        self.functions.spillway_end(out_of_memory, now)

    def wake(self) -> None:
        """The calling thread's ops are watched from now on."""
        self.functions.spillway_wake()

    def never_rest(self) -> None:
        self.functions.spillway_never_rest()

    # Storages

    def touch(self, storage: "torch.UntypedStorage", writes: bool) -> None:
        """Brings it back for code that is done with it when it returns."""
        self._check(self.functions.spillway_touch(storage._cdata, writes))

    def give_address(self, storage: "torch.UntypedStorage") -> None:
        """Brings it back until the thread's next op; it counts as written from now on."""
        self._check(self.functions.spillway_touch(storage._cdata, 2))

    def manage_made(self, storage: "torch.UntypedStorage", keep_contents: bool) -> None:
        """Gives it managed memory. Only its maker may know it yet."""
        self._check(self.functions.spillway_manage_made(storage._cdata, keep_contents))

    def serve_when_resized(self, storage: "torch.UntypedStorage") -> None:
        """Manages the memory that it is resized to."""
        self.functions.spillway_serve_when_resized(storage._cdata)

    def release_tensor(self, storage: "torch.UntypedStorage") -> None:
        """Holds no weak reference to the tensor that an op made with it."""
        self.functions.spillway_release_tensor(storage._cdata)

    def keep(self, storage: "torch.UntypedStorage") -> None:
        """It never moves until released."""
        self._check(self.functions.spillway_keep(storage._cdata))

    def release(self, storage: "torch.UntypedStorage") -> None:
        self.functions.spillway_release(storage._cdata)

    def keep_address(self, address: int) -> None:
        """Keeps the storage that the address lies in; nothing for memory that is not managed."""
        self._check(self.functions.spillway_keep_address(address, True))

    def release_address(self, address: int) -> None:
        self._check(self.functions.spillway_keep_address(address, False))

    def keep_gradients(self) -> None:
        """Gradients never move from now on."""
        self.functions.spillway_keep_gradients(True)

    def keep_made(self, kept: bool) -> None:
        """Keeps in memory what ops make, until this is called with False."""
        self.functions.spillway_keep_made(kept)

    def show_addresses(self, shown: bool) -> None:
        """Addresses of evicted storages can be asked for, by a profiler, as long as this holds."""
        self.functions.spillway_show_addresses(shown)

    def may_be_older(self) -> bool:
        """Whether tensors that were made before the start may be left for `adopt`."""
        return self.functions.spillway_may_be_older() != 0

    def adopt(self, tensors: Sequence[int]) -> str | None:
        """Takes the tensors behind these addresses into managed memory, and says what is left.

        The one call that keeps the GIL: no other thread of Python may run beside it.
        """
        adopt = ctypes.PyDLL(self.functions._name).spillway_adopt
        adopt.restype = _TEXT
        adopt.argtypes = [_POINTER, ctypes.c_size_t]
        return self.take(adopt((_POINTER * len(tensors))(*tensors), len(tensors)))

    # Frames

    def begin_frame(self, name: bytes, begun: ctypes.c_int) -> None:
        """One op of the calling thread begins. `name` is never freed: the library goes on showing
        it. `begun` becomes 1 as soon as `end_frame` has to be called, whatever is raised.
        """
        self._check(self.functions.spillway_begin_frame(name, ctypes.byref(begun)))

    def use(self, storage: "torch.UntypedStorage", written: bool) -> None:
        """Brings it back until the frame ends."""
        self._check(self.functions.spillway_use(storage._cdata, written))

    # Recording

    def record_begin(
        self, where: Callable[[], int], matmul_rounds: bool, convolution_rounds: bool, data: bool
    ) -> None:
        """Sees every op of every thread from now on. `where`: a WHERE."""
        begin = self.functions.spillway_record_begin
        self._check(begin(where, matmul_rounds, convolution_rounds, data))

    def trace_begin(self, where: Callable[[], int]) -> None:
        """Modules, lines and storages of a managed run may be told from now on."""
        self.functions.spillway_trace_begin(where)

    def record_step(self) -> None:
        """The step that is recorded begins here."""
        self.functions.spillway_record_step()

    def record_end(self) -> None:
        self.functions.spillway_record_end()

    def record_module(self, name: str) -> None:
        """The module that runs from now on in this thread; none for an empty name."""
        self.functions.spillway_record_module(name.encode())

    def record_line(self, number: int, text: str) -> None:
        self.functions.spillway_record_line(number, text.encode())

    def record_storage(self, storage: "torch.UntypedStorage", role: str, name: str) -> None:
        self.functions.spillway_record_storage(storage._cdata, role.encode(), name.encode())

    def record_last_op(self) -> str | None:
        """The op that began last."""
        return self.take(self.functions.spillway_record_last_op())

    def record_decomposed(self) -> list[str]:
        """Ops that were recorded as their parts."""
        return json.loads(self.take(self.functions.spillway_record_decomposed()) or "[]")

    def record_take(self, framework: str, machine_path: str | None) -> int:
        """The handle of the step since `record_step`, to be freed by `step_free`."""
        handle = ctypes.c_void_p()
        machine = None if machine_path is None else machine_path.encode()
        take = self.functions.spillway_record_take
        self._check(take(framework.encode(), machine, ctypes.byref(handle)))
        return handle.value

    def step_write(self, step: int, path: str) -> None:
        self._check(self.functions.spillway_step_write(step, path.encode()))

    def step_text(self, step: int) -> dict[str, Any]:
        """The trace, as docs/formats.md describes it."""
        return json.loads(self.take(self.functions.spillway_step_text(step)) or "{}")

    def step_facts(self, step: int) -> dict[str, Any]:
        return json.loads(self.take(self.functions.spillway_step_facts(step)) or "{}")

    def step_free(self, step: int) -> None:
        self.functions.spillway_step_free(step)


class TensorflowPlugin:
    """The plugin for one minor of TensorFlow, opened by TensorFlow itself."""

    def __init__(self, functions: ctypes.CDLL) -> None:
        self._functions = functions
        functions.spillway_tensorflow_start.restype = _TEXT
        functions.spillway_tensorflow_statistics.restype = _TEXT
        functions.spillway_tensorflow_free.argtypes = [_POINTER]

    def start(self) -> str | None:
        """Starts by the settings in the environment; returns what is wrong with them."""
        trouble = self._taken(self._functions.spillway_tensorflow_start())
        return trouble and trouble.decode("utf-8", "replace")

    def statistics(self) -> dict[str, Any] | None:
        """The counters, as docs/tensorflow.md describes them; None where nothing is managed."""
        text = self._taken(self._functions.spillway_tensorflow_statistics())
        return json.loads(text) if text else None

    def _taken(self, text: int | None) -> bytes | None:
        """The bytes of a text that is ours to free."""
        if not text:
            return None
        try:
            return ctypes.string_at(text)
        finally:
            self._functions.spillway_tensorflow_free(text)
