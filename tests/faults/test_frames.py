# SPDX-License-Identifier: Apache-2.0
"""A frame that stayed open would pin all that its thread ever uses: every one has to end."""

import contextlib
import signal

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


def _require_no_frame_is_open():
    """Makes and reads several times the budget, which inside a frame would all have to stay."""
    import spillway
    from tests.faults.pressure import filled, is_intact

    held = [filled(value) for value in range(40)]
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    stats = spillway.stats()
    assert stats.budget_bytes <= 16 * MIB and stats.evictions > 0, stats


@in_child
def test_disabling_inside_a_frame():
    import spillway
    from spillway import _storages
    from tests.faults.pressure import filled

    spillway.enable("12MiB")
    outer = _storages.in_frame(b"outer", reads=[filled(1)])
    inner = _storages.in_frame(b"inner", writes=[filled(2)])
    with outer, inner:
        spillway.disable()
    spillway.enable("12MiB")
    _require_no_frame_is_open()


@in_child
def test_a_frame_that_was_begun_unwatched_ends_no_other():
    """Both in the kernel of an op that is written in Python, and which goes on."""
    import threading

    import torch

    import spillway
    from spillway import _storages
    from tests.faults.pressure import address_of, filled, is_in_memory, push_out

    def kernel(x):
        spillway.disable()
        with _storages.in_frame(b"unwatched"):
            spillway.enable("12MiB")
        other = threading.Thread(target=push_out)
        other.start()
        other.join()
        return torch.tensor(is_in_memory(address_of(x)))

    library = torch.library.Library("spillway_test", "DEF")
    library.define("switch(Tensor x) -> Tensor")
    library.impl("switch", kernel, "CPU")
    spillway.enable("12MiB")
    assert torch.ops.spillway_test.switch(filled(1))
    _require_no_frame_is_open()


@in_child
def test_disabling_inside_an_op():
    """From the kernel of an operator that is written in Python."""
    import torch

    import spillway
    from tests.faults.pressure import filled

    library = torch.library.Library("spillway_test", "DEF")
    library.define("switch(Tensor x) -> Tensor")
    library.impl("switch", lambda x: (spillway.disable(), x.clone())[1], "CPU")
    spillway.enable("12MiB")
    torch.ops.spillway_test.switch(filled(1))
    spillway.enable("12MiB")
    _require_no_frame_is_open()


@pytest.mark.parametrize("place", ["begin", "use"])
@in_child
def test_an_interrupt_while_a_frame_begins(place):
    """Right after the library has begun it, and while its tensors are brought back."""
    from spillway import _native, _storages
    from tests.faults.pressure import filled

    activate(BUDGET="12MiB")
    functions = _native.loaded().functions
    name = f"spillway_{place}" + "_frame" * (place == "begin")
    original = getattr(functions, name)

    def interrupted(*arguments):
        result = original(*arguments)
        signal.raise_signal(signal.SIGINT)
        return result

    setattr(functions, name, interrupted)
    kept = []
    for value in range(3):
        try:
            with _storages.in_frame(b"interrupted", reads=[filled(value)]):
                raise AssertionError("not interrupted")
        except KeyboardInterrupt as error:
            kept.append(error)  # as notebooks do, with all that its traceback holds
    setattr(functions, name, original)
    _require_no_frame_is_open()


@in_child
def test_an_exception_in_a_frame_ends_it():
    from spillway import _storages
    from tests.faults.pressure import filled

    activate(BUDGET="12MiB")
    kept = []
    for value in range(20):
        try:
            with _storages.in_frame(b"fails", reads=[filled(value)]):
                raise KeyError
        except KeyError as error:
            kept.append(error)
    _require_no_frame_is_open()


@in_child
def test_a_frame_whose_tensors_do_not_fit_is_not_begun():
    import torch

    from spillway import _storages
    from tests.faults.pressure import filled

    activate(BUDGET="12MiB")
    held = [filled(value) for value in range(24)]
    try:
        with _storages.in_frame(b"too large", reads=held):
            raise AssertionError("24 MiB fit into 12")
    except torch.OutOfMemoryError:
        pass
    _require_no_frame_is_open()


@in_child
def test_an_op_that_is_shown_a_tensor_for_which_there_is_no_room():
    """One made before enable(), larger than the budget: the hook fails in the midst of the op."""
    import torch

    import spillway
    from tests.faults.pressure import filled

    older = filled(1, 24)
    spillway.enable("12MiB")
    with contextlib.suppress(torch.OutOfMemoryError):
        older.sum()
    spillway.enable("16MiB")
    _require_no_frame_is_open()
