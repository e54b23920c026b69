# SPDX-License-Identifier: Apache-2.0
"""Starting and stopping the engine, and what is said when that fails."""

import _thread
import os
import sys
import threading
from collections.abc import Callable

from spillway import _ending, _native, _shims
from spillway._library import BEGIN, CardBudget, Library
from spillway._native import UserError

_PAGE = "SPILLWAY_BUDGET_PAGE"
# Where the planning commands find machines, and a report the command: nothing to a program.
_OF_THE_COMMANDS = ("SPILLWAY_COMMAND", "SPILLWAY_MACHINES")
#: There where the driver is, of Linux and of Windows' Linux.
_CARDS = ("/dev/nvidiactl", "/dev/dxg")

_changes = threading.RLock()  # of what is managed; taken after torch's own of the first use
_refused = False  # the start that was awaited


def _renew_lock() -> None:
    """Another thread of the parent may have had it."""
    global _changes
    _changes = threading.RLock()


os.register_at_fork(after_in_child=_renew_lock)


def start(settings: dict[str, str]) -> None:
    """Applies settings (variable name to text) and makes torch ready for evicted storages.

    Raises:
        UserError: a setting is wrong, or cannot be honoured on this machine.
        RuntimeError: the library cannot be loaded into this torch.
    """
    library = _native.load()
    with _changes:
        if _native.awaiting_card is not None and not _goes_with_a_card(library, settings):
            return
        library.start(settings)
        _native.settings = settings
        _native.awaiting_card = None
        _publish_page(library.budget_page())
        _install(settings)


def stop() -> None:
    """Nothing is managed from now on, and nothing waits for the program to use a card."""
    library = _native.loaded()
    with _changes:
        if library is not None:
            library.stop()
        _native.settings = None
        _native.awaiting_card = None
        os.environ.pop(_PAGE, None)


def _install(settings: dict[str, str]) -> None:
    """What is watched besides ops, once per process."""
    _shims.install()
    _ending.watch()
    if "SPILLWAY_TRACE" in settings and settings.get("SPILLWAY_MODE") == "record":
        from spillway.recording import real_run

        real_run.start()


def _goes_with_a_card(library: Library, settings: dict[str, str]) -> bool:
    """Whether there is anything to start by settings that the program gives while it waits.

    Raises:
        UserError: they are of the CPU's memory. An engine of that would be the process's for good.
    """
    kind = library.card_budget(settings)
    if kind is CardBudget.NONE:
        raise UserError(
            "Spillway waits for this program to use a graphics card, whose memory the budget in "
            "the environment is of, and cannot hold the CPU's besides: call spillway.disable() "
            "first, or start without that budget"
        )
    if kind is CardBudget.OFF:
        _wait_no_more()
    return kind is CardBudget.YES


def _wait_no_more() -> None:
    if _native.awaiting_card is not None:
        _native.awaiting_card = None
        _native.load().end_waiting(refused=False)


def _start_or_wait(settings: dict[str, str]) -> None:
    """Starts now, or where the budget is of a graphics card, once torch begins to use one.

    A process that only imports torch makes no context on the card then: a launcher, a loader's
    worker, a compiler's.
    """
    import torch

    library = _native.load()
    kind = library.card_budget(settings)
    if kind is CardBudget.NONE or not _may_see_a_card():
        start(settings)
    elif kind is CardBudget.OFF:
        library.await_card(settings, None)
    else:
        with _changes:
            library.await_card(settings, _begin)
            _native.awaiting_card = settings
            _install(settings)
        torch.cuda._lazy_call(_card_is_used)


def _may_see_a_card() -> bool:
    import torch

    if torch.version.cuda is None:
        return False
    # Not torch.cuda.is_available(): it calls the driver, after which a forked process cannot.
    count = torch.cuda._device_count_nvml()
    # Negative where NVIDIA's library is missing, or parts of a card are shown (MIG).
    return count > 0 if count >= 0 else any(map(os.path.exists, _CARDS))


def _card_is_used() -> None:
    """Called by torch as it begins to use a card, and before its first memory there.

    Raises:
        SystemExit: the start was refused, now or before.
    """
    global _refused
    with _changes:
        settings = _native.awaiting_card
        if settings is None:  # enable() or disable() came before
            return
        if _refused:
            raise SystemExit(2)
        try:
            _or_end(lambda: start(settings))
        except SystemExit:
            _refused = True
            _native.load().end_waiting(refused=True)
            raise


@BEGIN
def _begin() -> int:
    """Whether torch's allocator may go on. What is raised here reaches nobody."""
    try:
        _card_is_used()
    except KeyboardInterrupt:
        _thread.interrupt_main()
        return False
    except BaseException:
        return False
    return True


def _publish_page(page: str | None) -> None:
    """Lets processes that multiprocessing starts from this one find the budget to share."""
    if page:
        os.environ[_PAGE] = page
    elif _PAGE not in settings_of_environment():
        os.environ.pop(_PAGE, None)  # not a member either


def defaults(named: dict[str, str]) -> dict[str, str]:
    """Returns the environment's values of settings that the program does not name."""
    found = settings_of_environment()
    # The program's own limit is not shared with whoever started it, and stands instead of another.
    limits = {"SPILLWAY_BUDGET", "SPILLWAY_EMULATE_DEVICE"}
    for name in (_PAGE, "SPILLWAY_WITHOUT_MEMORY", *(limits if limits & named.keys() else ())):
        found.pop(name, None)
    return found


def settings_of_environment() -> dict[str, str]:
    """The ``SPILLWAY_*`` variables that are meant for this process."""
    settings = {
        name: value
        for name, value in os.environ.items()
        if name.startswith("SPILLWAY_") and name not in _OF_THE_COMMANDS
    }
    page = settings.get(_PAGE)
    if page is not None and not (_started_by_multiprocessing() and _is_budget_page(page)):
        del settings[_PAGE]  # a program of its own, with a budget of its own
    return settings


def _started_by_multiprocessing() -> bool:
    import multiprocessing.process as processes

    # A spawned process imports the main module, and torch with it, before it knows its parent.
    inheriting = getattr(processes.current_process(), "_inheriting", False)
    return inheriting or processes.parent_process() is not None


def _is_budget_page(path: str) -> bool:
    """Whether the process that made it is still there (runtime/memory/shared_budget.hpp)."""
    try:
        return os.readlink(path).startswith("/memfd:spillway-budget ")
    except OSError:
        return False


def from_environment() -> None:
    """Starts with the ``SPILLWAY_*`` variables of this process, or ends it with status 2."""
    settings = settings_of_environment()
    if not settings:
        return
    if "SPILLWAY_WITHOUT_MEMORY" in settings:
        from spillway.recording import program

        _or_end(program.start)
    else:
        _or_end(lambda: _start_or_wait(settings))


def _or_end(begin: Callable[[], None]) -> None:
    """Ends the process with status 2 where it cannot begin.

    Raises:
        SystemExit: which torch lets pass, where it would make another error of an exception.
    """
    try:
        begin()
    except UserError as error:
        _end(str(error))
    except Exception as error:  # import torch must not fail half-way
        if _is_strict():
            _end(f"{error}\nSet SPILLWAY_STRICT=0 to train without the limit instead.")
        print(f"spillway: not active: {error}", file=sys.stderr)
        _wait_no_more()


def _is_strict() -> bool:
    """As the native library reads it, which may be what is missing."""
    word = os.environ.get("SPILLWAY_STRICT", "1").strip().lower()
    return word not in {"0", "off", "false", "no"}


def _end(text: str) -> None:
    print(f"spillway: error: {text}", file=sys.stderr, flush=True)
    raise SystemExit(2)
