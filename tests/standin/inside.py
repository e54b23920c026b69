# SPDX-License-Identifier: Apache-2.0
"""What is asked of the stand-in card from within PyTorch: run by test_runtime.py, in a process of
its own for each function."""

import ctypes
import sys

import torch

MIB = 1 << 20


def copies():
    """Bytes are the same after a way through the card, pageable and page-locked, whole or not."""
    there = torch.arange(1 << 20, dtype=torch.float32)
    on_card = there.to("cuda")
    assert on_card.is_cuda
    assert torch.equal(on_card.cpu(), there)
    assert torch.equal(on_card[1000:2000].cpu(), there[1000:2000])
    locked = there.pin_memory()
    assert locked.is_pinned()
    assert not there.is_pinned()
    back = torch.zeros(1 << 20).pin_memory()
    back.copy_(locked.to("cuda", non_blocking=True), non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, there)


def accounts():
    """PyTorch's figures and the card's are those of a card of 64 MiB."""
    free, total = torch.cuda.mem_get_info()
    assert total == 64 * MIB
    block = torch.empty(8 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 8 * MIB
    assert torch.cuda.mem_get_info()[0] <= free - 8 * MIB
    del block
    assert torch.cuda.memory_allocated() == 0
    torch.cuda.empty_cache()
    assert torch.cuda.mem_get_info()[0] == free


def out_of_memory():
    """The card refuses what it has no room for, and serves what it has afterwards."""
    held = torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    try:
        torch.empty(40 * MIB, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        del held
        assert torch.empty(40 * MIB, dtype=torch.uint8, device="cuda").is_cuda
    else:
        raise AssertionError("80 MiB on a card of 64")


def streams():
    """A copy returns before it is done, and another stream sees it only if it waits."""
    runtime = ctypes.CDLL(None)
    hold = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(lambda _: ctypes.CDLL(None).usleep(200_000))
    source = torch.ones(1 << 18).pin_memory()
    on_card = torch.zeros(1 << 18).to("cuda")
    torch.cuda.synchronize()
    first, second = torch.cuda.Stream(), torch.cuda.Stream()
    seen = [torch.full((1 << 18,), 7.0).pin_memory() for _ in range(2)]
    assert runtime.cudaLaunchHostFunc(ctypes.c_void_p(first.cuda_stream), hold, None) == 0
    with torch.cuda.stream(first):
        on_card.copy_(source, non_blocking=True)
    assert not first.query()
    with torch.cuda.stream(second):
        seen[0].copy_(on_card, non_blocking=True)
        second.synchronize()
        second.wait_stream(first)
        seen[1].copy_(on_card, non_blocking=True)
    torch.cuda.synchronize()
    assert first.query()
    assert torch.equal(seen[0], torch.zeros(1 << 18)), "nothing waits: what was there before"
    assert torch.equal(seen[1], source)


def segments():
    """PyTorch's expandable segments, which map memory themselves, work as well."""
    blocks = [torch.full((3 * MIB,), float(i)).to("cuda") for i in range(3)]
    assert [block[-1].cpu().item() for block in blocks] == [0.0, 1.0, 2.0]
    del blocks
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() == 0


def launches():
    """A kernel that nothing here can run ends the process."""
    torch.ones(3).to("cuda").add_(1)


if __name__ == "__main__":
    {f.__name__: f for f in (copies, accounts, out_of_memory, streams, segments, launches)}[
        sys.argv[1]
    ]()
