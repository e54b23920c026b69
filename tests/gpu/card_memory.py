# SPDX-License-Identifier: Apache-2.0
"""What torch's functions for memory on the card do where a budget leaves 400 MiB for tensors: a
program of its own, which fails at the first that is not as it should be. Its arguments name parts,
all by default. It is started with a wide budget.
"""

import contextlib
import copy
import ctypes
import gc
import io
import sys
import threading

import torch

import spillway
from tests.gpu.room import make_room, run_parts

MIB = 1 << 20
ROOM = 400 * MIB
STAND_IN = hasattr(ctypes.CDLL(None), "stand_in_cards")


def allocate(mib):
    return torch.empty(mib * MIB, dtype=torch.uint8, device="cuda")


def is_ours(memory):
    address = memory.data_ptr() if torch.is_tensor(memory) else memory
    segments = torch.cuda.memory_snapshot()  # torch's own alone
    return not any(s["address"] <= address < s["address"] + s["total_size"] for s in segments)


def bytes_of_torch():
    return sum(segment["total_size"] for segment in torch.cuda.memory_snapshot())


def who_allocates():
    large, small = allocate(40), torch.empty(1000, device="cuda")
    assert is_ours(large)
    assert not is_ours(small)
    assert not is_ours(allocate(1))
    assert spillway.stats().device_bytes >= 40 * MIB
    for mib, ours in ((5, True), (1, False)):
        address = torch.cuda.caching_allocator_alloc(mib * MIB)
        assert is_ours(address) == ours
        torch.cuda.caching_allocator_delete(address)


def values_and_streams():
    host = torch.arange(3 * MIB, dtype=torch.float32)
    card = host.cuda()
    assert is_ours(card)
    assert torch.equal(card.cpu(), host)
    pinned = host.pin_memory().to("cuda", non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(pinned.cpu(), host)
    card.record_stream(torch.cuda.Stream())
    storage = card.untyped_storage()
    storage.resize_(0)
    storage.resize_(12 * MIB)
    assert is_ours(card)


def figures():
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    idle = spillway.stats().device_bytes
    tensor = allocate(40)
    assert spillway.stats().device_bytes >= idle + 40 * MIB
    assert torch.cuda.memory_allocated() >= before + 40 * MIB
    assert torch.cuda.memory_reserved() >= torch.cuda.memory_allocated()
    del tensor
    assert allocate(2) is not None  # notes what was freed
    assert torch.cuda.memory_allocated() <= before + 2 * MIB
    torch.cuda.empty_cache()  # some may have gone before, when the limit was last looked at
    assert spillway.stats().device_bytes <= idle
    torch.cuda.reset_peak_memory_stats()
    assert torch.cuda.max_memory_allocated() < before + 40 * MIB


def small_tensors():
    """The budget covers what torch keeps for small tensors: large ones leave for it."""
    context = spillway.stats().unmanaged_bytes - bytes_of_torch()
    crowd = [allocate(40) for _ in range(9)]
    small = []
    for _ in range(120):
        small.append(torch.ones(MIB // 4, device="cuda"))
        stats = spillway.stats()
        assert stats.device_bytes + bytes_of_torch() + context <= stats.budget_bytes
    assert spillway.stats().unmanaged_bytes >= 120 * MIB
    assert len(crowd) == 9


def addresses_and_numbers():
    """Whatever reads a tensor, or takes its address, finds it on the card, though it had left."""
    tensors = [torch.full((4 * MIB,), float(i), device="cuda") for i in range(8)]
    crowd = [allocate(40) for _ in range(9)]
    assert all(tensors[0].data_ptr() == tensors[0].data_ptr() != 0 for _ in range(2))
    assert tensors[1][5].item() == 1
    assert "2.," in str(tensors[2])
    assert tensors[3].cpu().numpy()[7] == 3
    assert tensors[3].tolist()[-1] == 3
    interface = tensors[4].__cuda_array_interface__
    assert interface["data"][0] == tensors[4].data_ptr()
    assert torch.from_dlpack(tensors[5])[9].item() == 5
    assert copy.deepcopy(tensors[6]).eq(6).all().item()
    file = io.BytesIO()
    torch.save(tensors[7], file)
    file.seek(0)
    assert torch.load(file).eq(7).all().item()
    assert len(crowd) == 9


def side_streams():
    """A tensor leaves after another stream's work on it, and is there again for it."""
    side = torch.cuda.Stream()
    tensors = [torch.full((4 * MIB,), float(i), device="cuda") for i in range(8)]
    for _ in range(3):
        crowd = [allocate(40) for _ in range(8)]
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for tensor in tensors:
                tensor.add_(1)
                tensor.record_stream(side)
        torch.cuda.current_stream().wait_stream(side)
        assert len(crowd) == 8
        del crowd
    for i, tensor in enumerate(tensors):
        assert tensor.eq(i + 3).all().item()


def held():
    """What is held stays where it is, and is there after that as before."""
    kept, used = allocate(40).fill_(1), allocate(40).fill_(2)
    spillway.keep(kept)
    address = kept.data_ptr()
    with spillway.resident(used):
        crowd = [allocate(40) for _ in range(12)]
        assert used.eq(2).all().item()
    assert len(crowd) == 12
    assert kept.data_ptr() == address
    spillway.release(kept)
    del crowd
    assert kept.eq(1).all().item()


def kernels_by_themselves():
    """What is no op to the hook works in the current stream, though the last op's was another."""
    side = torch.cuda.Stream()
    kernel = torch.library.get_kernel("aten::add_.Tensor", "CUDA")
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.CUDA)
    one = torch.ones((), device="cuda")
    tensors = [torch.full((4 * MIB,), float(i), device="cuda") for i in range(8)]
    for _ in range(3):
        crowd = [allocate(40) for _ in range(9)]
        side.wait_stream(torch.cuda.current_stream())
        for tensor in tensors:
            one.add(0)  # in the other stream
            with torch.cuda.stream(side):
                kernel.call_boxed(keys, tensor, one)
        torch.cuda.current_stream().wait_stream(side)
        assert len(crowd) == 9
        del crowd
    for i, tensor in enumerate(tensors):
        assert tensor.eq(i + 3).all().item(), i


def ops_in_ops():
    """An op of Python's goes on in another stream inside."""
    side = torch.cuda.Stream()

    @torch.library.custom_op("spillway_tests::add_beside", mutates_args=())
    def add_beside(tensor: torch.Tensor) -> torch.Tensor:
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            result = tensor + 1
        torch.cuda.current_stream().wait_stream(side)
        return result

    tensors = [torch.full((4 * MIB,), float(i), device="cuda") for i in range(8)]
    for _ in range(3):
        crowd = [allocate(40) for _ in range(8)]
        for i, tensor in enumerate(tensors):
            assert add_beside(tensor).eq(i + 1).all().item(), i
        assert len(crowd) == 8
        del crowd


def limits_of_torchs_own():
    """A share that torch may use is of its own pool alone."""
    torch.cuda.set_per_process_memory_fraction(0.001)
    assert is_ours(allocate(40))
    torch.cuda.set_per_process_memory_fraction(1.0)


def pools():
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        tensor = allocate(16)
    assert not is_ours(tensor)
    assert is_ours(allocate(16))
    del tensor, pool
    gc.collect()


def captures():
    input_of_graph = allocate(16).zero_()
    graph = torch.cuda.CUDAGraph()
    torch.cuda.synchronize()
    with torch.cuda.graph(graph):
        made = allocate(16)
        for _ in range(40):
            made.copy_(input_of_graph)
    assert not is_ours(made)
    assert is_ours(allocate(16))
    input_of_graph.fill_(7)
    crowd = [allocate(40) for _ in range(12)]  # more than the budget: what may leave does
    graph.replay()
    torch.cuda.synchronize()
    assert made.eq(7).all().item()
    assert len(crowd) == 12


def lists_of_tensors():
    """A card's kernels for lists reach the tensors themselves, where the CPU's call other ops."""
    tensors = [torch.ones(4 * MIB, device="cuda") for _ in range(8)]
    crowd = [allocate(40) for _ in range(9)]  # more than the budget with them: some have left
    norms = torch._foreach_norm(tensors)
    torch._foreach_mul_(tensors, 3)
    assert len(crowd) == 9
    assert all(norm.item() == 2048 for norm in norms)
    assert all(tensor.eq(3).all().item() for tensor in tensors)


def cudas(name):
    """A function of CUDA's runtime, whose launches no hook sees."""
    for library in (None, "libcudart.so.13", "libcudart.so.12"):
        with contextlib.suppress(OSError, AttributeError):
            return getattr(ctypes.CDLL(library), name)
    raise AssertionError(f"no {name}")


def collectives():
    """What a collective launches goes on after its op has returned, in a stream of its own, until
    the program waits for it: its buffers stay. As NCCL's do, without a second card."""
    copy_async, between_addresses_of_the_card = cudas("cudaMemcpyAsync"), 3
    side = torch.cuda.Stream()
    right = torch.full((4 * MIB,), 5.0, device="cuda")
    wrong = torch.zeros_like(right)
    spillway.keep(right)
    spillway.keep(wrong)

    def launch(buffer):
        side.wait_stream(torch.cuda.current_stream())
        if not STAND_IN:  # its copies come late by themselves
            with torch.cuda.stream(side):
                torch.cuda._sleep(100_000_000)  # cycles: longer than the crowd takes
        for source in [wrong] * 40 + [right]:
            code = copy_async(
                *map(ctypes.c_void_p, (buffer.data_ptr(), source.data_ptr())),
                ctypes.c_size_t(buffer.nbytes), between_addresses_of_the_card,
                ctypes.c_void_p(side.cuda_stream),
            )  # fmt: skip
            assert code == 0

    library = torch.library.Library("c10d", "FRAGMENT")
    library.define("spillway_test_(Tensor(a!) buffer) -> ()")
    library.impl("spillway_test_", launch, "CUDA")
    buffers = [torch.empty_like(right) for _ in range(3)]
    for buffer in buffers:
        torch.ops.c10d.spillway_test_(buffer)
    crowd = [allocate(40) for _ in range(9)]  # more than the budget with them
    torch.cuda.current_stream().wait_stream(side)
    assert len(crowd) == 9
    for buffer in buffers:
        assert buffer.eq(5).all().item()


def refusals():
    tensor = allocate(16)
    for reason, call in (
        ("cannot be shared with other processes", tensor.untyped_storage()._share_cuda_),
        ("would keep to no budget", lambda: torch._C._cuda_changeCurrentAllocator(None)),
        ("out of memory under the budget", lambda: allocate(500)),
    ):
        try:
            call()
        except RuntimeError as error:
            assert reason in str(error), error
        else:
            raise AssertionError(reason)


def threads():
    def work():
        for count in range(300):
            allocate(count % 7 + 1)

    crowd = [threading.Thread(target=work) for _ in range(4)]
    for thread in crowd:
        thread.start()
    for thread in crowd:
        thread.join()


PARTS = (
    who_allocates,
    values_and_streams,
    figures,
    small_tensors,
    addresses_and_numbers,
    side_streams,
    held,
    kernels_by_themselves,
    ops_in_ops,
    limits_of_torchs_own,
    pools,
    captures,
    lists_of_tensors,
    collectives,
    refusals,
    threads,
)

if __name__ == "__main__":
    make_room(ROOM)
    run_parts(PARTS, sys.argv[1:])
    kept = allocate(16).fill_(3)
    spillway.disable()
    assert kept.eq(3).all().item()
