# SPDX-License-Identifier: Apache-2.0
"""Switching on, over and off in the middle of a program."""

import ctypes
import os
import threading

from tests.faults.in_child import in_child
from tests.faults.starter import activate

MIB = 1 << 20


@in_child
def test_tensors_that_exist_already_are_taken_in():
    """Parameters, optimizer state and data move, and training goes on as if nothing had been."""
    import spillway
    from tests.faults.training import Training, require_budget_held, train

    expected = train(5)
    training = Training().steps(2)
    spillway.enable("12MiB")
    training.steps(3)
    assert training.outcome() == expected
    # Weights, gradients and state are 32 MiB: they cannot all be in 12.
    assert require_budget_held().storages * MIB > 24 * MIB


@in_child
def test_memory_of_tensors_that_were_taken_in_is_given_back():
    import spillway
    from tests.faults.pressure import filled, is_intact, resident_bytes

    held = [filled(value, mib=4) for value in range(24)]
    before = resident_bytes()
    spillway.enable("16MiB")
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))
    assert before - resident_bytes() > 64 * MIB
    assert all(is_intact(tensor, value) for value, tensor in enumerate(held))


@in_child
def test_arrays_exported_before_still_share_their_memory():
    import numpy
    import torch

    import spillway
    from tests.faults.pressure import filled, is_intact, push_out

    tensor, lent = filled(1), numpy.full(MIB // 4, 2, dtype=numpy.float32)
    array, borrowed = tensor.numpy(), torch.from_numpy(lent)
    spillway.enable("12MiB")
    push_out()
    tensor.add_(10)
    borrowed.add_(20)
    push_out()
    assert (array == 11).all() and (lent == 22).all()
    array += 100
    lent += 200
    push_out()
    assert is_intact(tensor, 111) and is_intact(borrowed, 222)


@in_child
def test_enabling_again_replaces_the_settings():
    """A tensor evicted under the former settings is still found."""
    import spillway
    from tests.faults.training import Training, train

    os.mkdir("elsewhere")
    expected = train(6)
    training = Training()
    for settings in (
        {"budget": "12MiB"},
        {"budget": "10MiB"},
        {"budget": "16MiB", "mode": "verify"},
        {"budget": "12MiB", "spool_dir": os.path.abspath("elsewhere")},
        {"budget": "12MiB", "mode": "fuzz"},
        {"budget": "11MiB", "disk_budget": "1GiB"},
    ):
        spillway.enable(**settings)
        spillway.reset_peak()
        training.step()
        stats = spillway.stats()
        assert stats.peak_device_bytes <= 16 * MIB, (settings, stats)
        assert stats.mode == settings.get("mode", "enforce")
    assert training.outcome() == expected
    assert os.listdir("elsewhere") == []


@in_child
def test_with_blocks_nest():
    """The innermost limit holds; after the last block there is none."""
    import spillway
    from tests.faults.training import Training, train

    expected = train(6)
    training = Training().step()
    with spillway.budget("16MiB"):
        training.step()
        with spillway.budget("10MiB"):
            assert spillway.stats().budget_bytes == 10 * MIB
            spillway.reset_peak()
            training.step()
        assert spillway.stats().budget_bytes == 16 * MIB
        training.step()
        try:
            with spillway.budget("12MiB"):
                training.step()
                raise KeyError
        except KeyError:
            assert spillway.stats().budget_bytes == 16 * MIB
    assert spillway.stats().mode == "off"
    training.step()
    assert training.outcome() == expected


@in_child
def test_a_with_block_returns_to_the_variables():
    """A limit from the environment holds again after a block."""
    import spillway
    from tests.faults.training import Training, train

    expected = train(3)
    activate(BUDGET="16MiB")
    training = Training().step()
    with spillway.budget("12MiB"):
        training.step()
    stats = spillway.stats()
    assert (stats.mode, stats.budget_bytes) == ("enforce", 16 * MIB), stats
    assert training.step().outcome() == expected


@in_child
def test_disabling_brings_everything_back():
    """Even code with raw pointers may go on. Nothing moves any more."""
    import spillway
    from tests.faults.pressure import address_of, is_in_memory, push_out
    from tests.faults.training import Training, moved_bytes, train

    expected = train(4)
    training = Training()
    spillway.enable("12MiB")
    training.steps(2)
    weights = [parameter.detach() for parameter in training.model.parameters()]
    addresses = [weight.data_ptr() for weight in weights]
    push_out()
    assert not all(is_in_memory(address) for address in addresses)
    spillway.disable()
    assert [address_of(weight) for weight in weights] == addresses
    for weight, address in zip(weights, addresses):
        values = ctypes.cast(address, ctypes.POINTER(ctypes.c_float))
        assert values[weight.numel() - 1] == float(weight.view(-1)[-1])
    moved = moved_bytes()
    assert training.steps(2).outcome() == expected
    assert moved_bytes() == moved
    assert spillway.stats().mode == "off"
    spillway.disable()  # twice does no harm


@in_child
def test_on_and_off_many_times():
    import spillway
    from tests.faults.training import Training, train

    expected = train(8)
    training = Training()
    for _ in range(4):
        spillway.enable("12MiB")
        training.step()
        spillway.disable()
        training.step()
    assert training.outcome() == expected


@in_child
def test_enabling_from_a_thread_while_another_trains():
    import threading

    import spillway
    from tests.faults.training import train

    expected = train(12)
    spillway.enable("64MiB")
    done = threading.Event()

    def change():
        while not done.is_set():
            for limit in ("14MiB", "24MiB", "12MiB"):
                spillway.enable(limit)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        assert train(12) == expected
    finally:
        done.set()
        thread.join()


@in_child
def test_a_relative_spool_directory_stays_where_it_was():
    """The program changes its directory before anything is evicted."""
    from tests.faults.training import BUDGET, require_budget_held, train

    expected = train(2)
    os.mkdir("spool")
    os.mkdir("work")
    activate(BUDGET=BUDGET, SPOOL_DIR="spool")
    os.chdir("work")
    assert train(2) == expected
    require_budget_held()


@in_child
def test_threads_may_come_to_older_tensors_at_once():
    """Each is taken in once; what one thread has begun to read is not freed by the other."""
    import spillway
    from tests.faults.pressure import filled, is_intact

    held = [filled(value) for value in range(200)]
    spillway.enable("64MiB")
    together, wrong = threading.Barrier(4), []

    def read():
        together.wait()
        wrong.extend(value for value, tensor in enumerate(held) if not is_intact(tensor, value))

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert spillway.stats().storages >= 200


@in_child
def test_tensors_that_ops_made_can_be_swapped():
    """As modules do on conversion, where torch is asked to, and load_state_dict."""
    import torch

    from tests.faults.pressure import filled, is_intact, push_out

    activate(BUDGET="12MiB")
    first, second = filled(1), filled(2)
    torch.utils.swap_tensors(first, second)
    push_out()
    assert is_intact(first, 2) and is_intact(second, 1)
    torch.__future__.set_swap_module_params_on_conversion(True)
    model = torch.nn.Linear(512, 512, bias=False)
    torch.nn.init.constant_(model.weight, 3)
    push_out()
    model.double().float()
    push_out()
    assert is_intact(model.weight, 3)
    model.load_state_dict({"weight": filled(4).view(512, 512)})
    push_out()
    assert is_intact(model.weight, 4)


@in_child
def test_disabled_no_op_is_watched_any_more():
    import spillway
    from tests.faults.pressure import filled, is_intact, is_watched

    assert not is_watched()
    spillway.enable("64MiB")
    tensor = filled(1)
    assert is_watched()
    spillway.disable()
    assert not is_watched(), "the hook's price is paid for nothing"
    spillway.enable("64MiB")
    assert is_watched()
    assert is_intact(tensor, 1)
