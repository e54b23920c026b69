# SPDX-License-Identifier: Apache-2.0
"""Every public way to a storage: it counts against the budget and leaves, or is listed as foreign.

made by             no op shows it     budget
UntypedStorage(n)   x x x x x x x x    held: the first leave before an op has shown any
"""

import pytest

from tests.faults import ways_to_storages
from tests.faults.in_child import in_child
from tests.faults.starter import activate

BUDGET = "12MiB"
COUNT = 24  # of 1 MiB each: half of them have to be elsewhere


@pytest.mark.parametrize("way", sorted(ways_to_storages.MANAGED))
@in_child
def test_it_counts_and_leaves(way):
    import spillway
    from tests.faults.training import require_budget_held

    activate(BUDGET=BUDGET)
    make = ways_to_storages.MANAGED[way]
    held = ways_to_storages.Held(make(value) for value in range(COUNT))
    stats = spillway.stats()
    assert stats.storages >= COUNT, stats
    require_budget_held()
    assert all(ways_to_storages.is_all(made, value) for value, made in enumerate(held))
    require_budget_held()


@pytest.mark.parametrize("way", sorted(ways_to_storages.FOREIGN))
@in_child
def test_what_does_not_count(way):
    """As docs/pytorch.md lists it. One that counts by now has to move to the other table."""
    import gc

    import spillway

    activate(BUDGET=BUDGET)
    before = spillway.stats().storages
    held = ways_to_storages.Held(ways_to_storages.FOREIGN[way](value) for value in range(4))
    gc.collect()
    assert spillway.stats().storages == before
    assert all(ways_to_storages.is_all(made, value) for value, made in enumerate(held))


@in_child
def test_weights_that_qnnpack_packs_at_the_first_call():
    """The weight that it was given counts still; the copy that it makes is the kernel's own."""
    import torch

    import spillway
    from tests.faults.pressure import MIB, resident_bytes

    if "qnnpack" not in torch.backends.quantized.supported_engines:
        pytest.skip("this torch is built without QNNPACK")
    torch.backends.quantized.engine = "qnnpack"
    activate(BUDGET="64MiB")

    def quantised(rows):
        values = torch.full((rows, 4096), 1, dtype=torch.int8)
        return torch._make_per_tensor_quantized_tensor(values, 1.0, 0)

    x = torch.quantize_per_tensor(torch.ones(1, 4096), 1.0, 0, torch.quint8)
    small = torch.ops.quantized.linear_prepack(quantised(8), None)
    torch.ops.quantized.linear(x, small, 4096.0, 0)  # loads what every call needs
    packed = torch.ops.quantized.linear_prepack(quantised(2048), None)
    before, resident = spillway.stats(), resident_bytes()
    result = torch.ops.quantized.linear(x, packed, 4096.0, 0)
    after = spillway.stats()
    assert (result.int_repr() == 1).all()
    assert after.storages == before.storages
    assert after.device_bytes - before.device_bytes < MIB
    assert resident_bytes() - resident >= 7 * MIB


@in_child
def test_what_counts_and_stays():
    """Tensors of oneDNN's layout have no storage that could refuse."""
    import torch

    import spillway
    from tests.faults.pressure import MIB, push_out
    from tests.faults.training import require_budget_held

    activate(BUDGET=BUDGET)
    held = [torch.full((MIB // 4,), float(value)).to_mkldnn() for value in range(4)]
    push_out()
    assert spillway.stats().device_bytes >= 4 * MIB
    assert all((made.to_dense() == value).all() for value, made in enumerate(held))
    require_budget_held()


@in_child
def test_the_best_weights_of_each_epoch():
    """Eight copies, four times the budget: no more of them is resident than it allows."""
    import copy

    import torch

    from tests.faults.pressure import MIB, resident_bytes
    from tests.faults.training import require_budget_held

    epochs, state_bytes = 8, 6 * MIB
    activate(BUDGET=BUDGET)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512, bias=False) for _ in range(6)])
    best, sums, resident = ways_to_storages.Held(), [], []
    for _ in range(epochs):
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(1)
        best.append(copy.deepcopy(model.state_dict()))
        sums.append([parameter.double().sum().item() for parameter in model.parameters()])
        resident.append(resident_bytes())
    stats = require_budget_held()
    moved = stats.evicted_bytes + stats.clean_evicted_bytes
    assert moved >= (epochs + 1) * state_bytes - stats.budget_bytes
    # Compared with the first epoch, in which code was loaded and the budget was all but full.
    assert max(resident) - resident[0] < 2 * state_bytes, resident
    for state, expected in zip(best, sums, strict=True):
        assert [value.double().sum().item() for value in state.values()] == expected


@in_child
def test_what_was_filled_once_is_written_to_disk_once():
    import spillway
    from tests.faults.pressure import MIB, push_out

    activate(BUDGET=BUDGET)
    make = ways_to_storages.MANAGED["pickle of a tensor"]
    held = ways_to_storages.Held(make(value) for value in range(4))
    push_out()
    written = []
    for _ in range(3):
        assert all(ways_to_storages.is_all(made, value) for value, made in enumerate(held))
        before = spillway.stats()
        push_out()
        after = spillway.stats()
        written.append(after.clean_evicted_bytes - before.clean_evicted_bytes)
    assert all(clean >= 4 * MIB for clean in written), written


@in_child
def test_a_storage_larger_than_the_budget_is_refused_as_out_of_memory():
    import torch

    from tests.faults.pressure import MIB

    activate(BUDGET=BUDGET)
    with pytest.raises(torch.OutOfMemoryError, match="16 MiB"):
        torch.UntypedStorage(16 * MIB)
    with pytest.raises(torch.OutOfMemoryError, match="16 MiB"):
        torch.UntypedStorage().resize_(16 * MIB)
    with pytest.raises(torch.OutOfMemoryError, match="16 MiB"):
        torch.UntypedStorage.from_buffer(bytearray(16 * MIB), dtype=torch.uint8)
    assert ways_to_storages.is_all(torch.UntypedStorage(MIB).fill_(3), 3)


@in_child
def test_arguments_and_other_devices_are_as_ever():
    import torch

    class Own(torch.UntypedStorage):
        pass

    activate(BUDGET=BUDGET)
    assert torch.UntypedStorage().nbytes() == 0
    assert torch.UntypedStorage([1, 2, 3]).tolist() == [1, 2, 3]
    assert torch.UntypedStorage(3, device="cpu").device.type == "cpu"
    assert torch.UntypedStorage(1 << 40, device="meta").device.type == "meta"
    assert type(Own(7)) is Own and Own([1, 2])[1] == 2
    for wrong in (("no",), (1, 2)):
        with pytest.raises((TypeError, RuntimeError)):
            torch.UntypedStorage(*wrong)


@in_child
def test_a_storage_older_than_the_budget_grows_within_it():
    import torch

    import spillway
    from tests.faults.training import require_budget_held

    older = ways_to_storages.Held(torch.UntypedStorage() for _ in range(COUNT))
    spillway.enable(BUDGET)
    for value, storage in enumerate(older):
        storage.resize_(ways_to_storages.MIB).fill_(value)
    require_budget_held()
    assert all(ways_to_storages.is_all(storage, value) for value, storage in enumerate(older))


@in_child
def test_after_the_budget_ended_and_in_a_forked_child():
    import os

    import spillway

    activate(BUDGET=BUDGET)
    ways = ("UntypedStorage(n)", "copy.deepcopy of a tensor", "torch.load of the old format")

    def make():
        makers = [ways_to_storages.MANAGED[way] for way in ways for _ in range(8)]
        made = ways_to_storages.Held(make_one(5) for make_one in makers)
        return all(ways_to_storages.is_all(one, 5) for one in made)

    child = os.fork()
    if child == 0:
        os._exit(0 if make() else 1)
    assert os.waitpid(child, 0)[1] == 0
    spillway.disable()
    assert make()
    spillway.enable(BUDGET)
    assert make()
