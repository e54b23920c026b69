# SPDX-License-Identifier: Apache-2.0
"""Compiled code that holds or changes tensors past every op, while all leaves that may."""

import shutil

from tests.faults.in_child import in_child
from tests.faults.starter import activate

SIZE = 1 << 18  # elements


def _remove_compiled_code():
    from torch._inductor.runtime.runtime_utils import default_cache_dir

    shutil.rmtree(default_cache_dir())


def _let_all_leave(*tensors):
    """Under fuzz: away, with a copy that is current."""
    import torch

    for _ in range(2):
        for tensor in tensors:
            tensor.sum()
        torch.ones(8).sum()


@in_child(timeout=300)
def test_packaged_models_change_their_inputs():
    import torch
    from torch import nn

    class Doubling(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("calls", torch.zeros(SIZE))

        def forward(self, x):
            self.calls.add_(1)
            x.mul_(2)
            return x + self.calls

    with torch.no_grad():
        exported = torch.export.export(Doubling(), (torch.randn(SIZE),))
        path = torch._inductor.aoti_compile_and_package(exported, package_path="model.pt2")
    stock = torch._inductor.aoti_load_package(path)
    x = torch.arange(float(SIZE))
    outputs = [stock(x).clone() for _ in range(2)]
    activate(BUDGET="1GiB", MODE="fuzz")
    model = torch._inductor.aoti_load_package(path)
    again = torch.arange(float(SIZE))
    for output in outputs:
        _let_all_leave(again)
        result = model(again)
        _let_all_leave(result)
        assert torch.equal(result, output)
    assert torch.equal(again, x)
    _remove_compiled_code()


@in_child(timeout=300)
def test_frozen_parameters_are_there_when_they_are_read():
    import torch
    from torch import nn

    def compiled():
        torch._dynamo.reset()
        torch.manual_seed(0)
        layers = nn.Sequential(nn.Linear(256, 300), nn.ReLU(), nn.Linear(300, 256)).eval()
        return torch.compile(layers), torch.randn(4, 256)

    with torch.no_grad(), torch._inductor.config.patch(freezing=True):
        model, x = compiled()
        stock = model(x)
        activate(BUDGET="1GiB", MODE="fuzz")
        model, x = compiled()
        for _ in range(3):
            assert torch.equal(model(x), stock)
            _let_all_leave(stock)
    _remove_compiled_code()
