# SPDX-License-Identifier: Apache-2.0
"""Raw pointers that nobody declared: told where they hit, found where they write."""

import ctypes
import gc
import signal

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate


def _use_a_stale_pointer(access):
    import torch

    from tests.faults.pressure import push_out

    tensor = torch.full((1 << 18,), 3.0)
    pointer = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
    push_out()
    print("before", flush=True)
    if access == "read":
        print(pointer[1000])
    else:
        pointer[1000] = 1.0
    print("after", flush=True)


@pytest.mark.parametrize("access", ["read", "write"])
def test_a_stale_pointer_ends_the_program_with_its_storage_named(starter, access):
    child = starter.run(_use_a_stale_pointer, access, BUDGET="12MiB")
    assert child.status == -signal.SIGSEGV, child.describe()
    assert child.stdout == "before\n"
    for text in ("stale pointer", "1048576 bytes", "made by aten::full", "spillway.resident"):
        assert text in child.stderr, child.describe()
    assert child.left_behind == []


def _write_while_it_leaves():
    import torch

    tensor = torch.full((1 << 20,), 3.0)
    pointer = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
    held = torch.full((1 << 20,), 4.0)
    torch.full((1 << 18,), 5.0)  # which lets go of what the op before it made
    print(pointer[1000], flush=True)
    pointer[1000] = 1.0
    print("lost", held[0], flush=True)


def _read_while_it_comes_back():
    import threading
    import time

    import torch

    tensor = torch.full((1 << 20,), 3.0)
    pointer = ctypes.cast(tensor.data_ptr(), ctypes.POINTER(ctypes.c_float))
    held = [torch.full((1 << 20,), 4.0) for _ in range(8)]
    reader = threading.Thread(target=tensor.sum)
    reader.start()
    time.sleep(0.3)
    print({pointer[index] for index in range(0, 1 << 20, 1024)}, len(held), flush=True)
    reader.join()


@pytest.mark.parametrize("mode", ["enforce", "verify"])
@pytest.mark.parametrize("io", ["threads", "auto"])
def test_a_write_while_the_bytes_leave_is_not_lost(starter, io, mode):
    child = starter.run(
        _write_while_it_leaves,
        BUDGET="12MiB",
        START_AT=0.5,
        IO=io,
        MODE=mode,
        FAULTS="spool.write=delay:2s@1+",
    )
    assert child.status == -signal.SIGSEGV, child.describe()
    assert child.stdout == "3.0\n", "it may still be read"
    for text in ("stale pointer", "4194304 bytes", "was being evicted", "spillway.resident"):
        assert text in child.stderr, child.describe()


@pytest.mark.parametrize("mode", ["enforce", "verify"])
@pytest.mark.parametrize("io", ["threads", "auto"])
def test_a_read_while_the_bytes_come_back_sees_no_others(starter, io, mode):
    child = starter.run(
        _read_while_it_comes_back,
        BUDGET="24MiB",
        IO=io,
        MODE=mode,
        FAULTS="spool.read=delay:2s@1+",
    )
    assert child.status == -signal.SIGSEGV, child.describe()
    assert child.stdout == ""
    assert "stale pointer" in child.stderr, child.describe()


def _crash_elsewhere():
    ctypes.string_at(0)


def test_other_crashes_are_not_ours(starter):
    child = starter.run(_crash_elsewhere, BUDGET="12MiB")
    assert child.status == -signal.SIGSEGV, child.describe()
    assert "pillway" not in child.stderr


@in_child
def test_the_error_of_other_code_names_the_storage():
    """Code that asks torch for the address of what is not there gets an error, not an address."""
    import torch

    from tests.faults.pressure import address_of, filled, push_out

    activate(BUDGET="12MiB")
    tensor = filled(1)
    push_out()
    try:
        address_of(tensor)
    except RuntimeError as error:
        assert "1 MiB" in str(error) and "aten::full" in str(error), error
        assert "spillway.resident(tensor)" in str(error), error
    else:
        raise AssertionError("the address of nothing")
    assert torch.equal(tensor, filled(1))


@in_child
def test_memory_that_the_program_page_locks_stays():
    """Evicted, it would leave the pages that a device copies from: wrong values, and no fault."""
    from spillway._shims import page_locking
    from tests.faults.pressure import filled, is_in_memory, push_out

    activate(BUDGET="12MiB")
    answers = {"register": 1, "unregister": 0}
    register = page_locking._kept_while_registered(lambda address, size, flags: answers["register"])
    unregister = page_locking._released_with(lambda address: answers["unregister"])
    tensor = filled(1)
    address = tensor.data_ptr()
    register(address, tensor.nbytes, 0)
    push_out()
    assert not is_in_memory(address), "kept for a registration that failed"
    answers["register"] = 0
    register(address + 4096, tensor.nbytes - 4096, 0)
    push_out()
    assert is_in_memory(address)
    unregister(address + 4096)
    push_out()
    assert not is_in_memory(address)
    register(tensor.numpy(force=True).ctypes.data, 1, 0)  # a part of it, and a held array
    register(id(tensor), 1, 0)  # not ours


@in_child
def test_page_locking_by_hand_goes_through_the_wrapper():
    import torch

    runtime = getattr(torch._C, "_cudart", None)
    if runtime is None:  # a build without CUDA has nothing to wrap
        return
    activate(BUDGET="12MiB")
    for name in ("cudaHostRegister", "cudaHostUnregister"):
        assert hasattr(getattr(runtime, name), "__wrapped__"), name


@in_child
def test_verify_mode_trains_the_same_and_compares():
    import spillway
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train()
    activate(BUDGET=BUDGET, MODE="verify")
    assert train() == expected
    stats = require_budget_held()
    assert stats.checksums_compared >= stats.fetches > 0, stats
    assert stats.undeclared_writes == 0, spillway.stats()


@in_child
def test_verify_mode_finds_an_undeclared_write_and_keeps_it():
    """The write comes after the tensor was read back, while its copy on the disk still counts."""
    import spillway
    from tests.faults.pressure import address_of, filled, is_intact, push_out

    activate(BUDGET="12MiB", MODE="verify")
    tensor = filled(1)
    address = address_of(tensor)
    push_out()
    assert is_intact(tensor, 1)
    ctypes.cast(address, ctypes.POINTER(ctypes.c_float))[77] = 9.0
    push_out()
    assert float(tensor[77]) == 9.0
    assert spillway.stats().undeclared_writes == 1


@pytest.mark.parametrize("mode", ["enforce", "verify"])
@in_child
def test_a_write_through_data_ptr_counts_as_declared(mode):
    """Also one that comes after the tensor was read back, while its copy on the disk is good."""
    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB", MODE=mode)
    tensor = filled(1)
    address = tensor.data_ptr()
    push_out()
    assert is_intact(tensor, 1)
    assert spillway.stats().fetches > 0
    ctypes.cast(address, ctypes.POINTER(ctypes.c_float))[77] = 9.0
    push_out()
    assert float(tensor[77]) == 9.0
    assert spillway.stats().undeclared_writes == 0


@pytest.mark.parametrize(
    "export",
    [
        "of_a_subclass",
        "of_what_requires_a_gradient",
        "of_a_view",
        "of_a_capsule",
        "of_the_protocol",
    ],
)
@in_child
def test_an_array_holds_its_tensor_however_it_was_made(export):
    from tests.faults import exports
    from tests.faults.pressure import address_of, filled, is_in_memory, push_out

    activate(BUDGET="12MiB", MODE="verify")
    tensor = filled(1)
    array = getattr(exports, export)(tensor)
    address = address_of(tensor)
    push_out()
    assert is_in_memory(address), "it left under the array"
    if array.flags.writeable:
        array[-1] = 9.0
    push_out()
    assert float(array[-1]) == float(tensor.detach()[-1])
    assert float(array[0]) == 1.0
    del array
    gc.collect()
    push_out()
    assert not is_in_memory(address), "it stays although nobody holds an array"
