# SPDX-License-Identifier: Apache-2.0
"""PyTorch's profiler notes addresses of tensors past every op: also of those that are away."""

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate


def _profiled(**options):
    """Losses, and the shapes of parameters that the profiler saw, of training under it."""
    import torch
    from torch import nn

    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))
    optimizer = torch.optim.Adam(model.parameters())
    losses = []
    options |= {"activities": [torch.profiler.ProfilerActivity.CPU]}
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(schedule=schedule, **options) as profiler:
        for _ in range(4):
            optimizer.zero_grad()
            loss = model(torch.randn(64, 512)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
            profiler.step()
    return losses, profiler


def _shapes_of_ops(profiler):
    """Returns operators with their shapes, and how often each ran."""
    return sorted(
        (event.key, str(event.input_shapes), event.count)
        for event in profiler.key_averages(group_by_input_shape=True)
        if event.key.startswith("aten::")
    )


def _noted_shapes(profiler):
    """Returns the shapes of modules' parameters, as the profiler noted them at the first call."""
    shapes = []
    left = list(profiler.profiler.kineto_results.experimental_event_tree())
    while left:
        event = left.pop()
        left += event.children
        module = getattr(event.extra_fields, "module", None)
        if module is not None and module.parameters:
            shapes += [(name, tuple(part.sizes)) for name, part, _ in module.parameters]
            assert all(part.storage_data_ptr for _, part, _ in module.parameters)
    return sorted(shapes)


@in_child
def test_stacks_are_recorded_while_parameters_are_away():
    import torch

    import spillway

    options = {"with_stack": True, "record_shapes": True, "profile_memory": True}
    stock, profiler = _profiled(**options)
    shapes = _noted_shapes(profiler)
    assert len(shapes) == 16  # two steps
    shapes_of_ops = _shapes_of_ops(profiler)
    activate(BUDGET="1GiB", MODE="fuzz")
    losses, profiler = _profiled(**options)
    assert losses == stock
    assert spillway.stats().evicted_bytes > 0
    assert _noted_shapes(profiler) == shapes
    assert _shapes_of_ops(profiler) == shapes_of_ops
    away = torch.ones(1 << 20)
    torch.ones(8).sum()  # under fuzz it has left
    with pytest.raises(RuntimeError, match="was accessed by code that no hook shows"):
        torch._C.TensorBase.data_ptr(away)


@in_child
def test_writing_past_every_op_is_refused_while_stacks_are_recorded():
    import torch

    activate(BUDGET="1GiB", MODE="fuzz")
    with torch.profiler.profile(with_stack=True):
        away = torch.full((1 << 20,), 3.0)
        torch.ones(8).sum()
        with pytest.raises(RuntimeError, match="data pointer"):
            torch._C.TensorBase.data_ptr(away)
        torch.ones(8).sum()
        assert bool((away == 3.0).all())
