# SPDX-License-Identifier: Apache-2.0
"""Composites that read memory themselves are ops like others, and fuzz shows which do.

tensor_split(x, index)     index made   another op   reads index through its pointer
                           in memory    it may leave  brought back, or an error
"""

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

pytest.importorskip("expecttest", reason="torch's operator database needs expecttest")


@in_child
def test_an_index_tensor_that_has_left_is_brought_back():
    """At the settings that users have."""
    import torch

    from tests.faults.pressure import address_of, push_out

    count = 128 << 10  # 1 MiB, which leaves before smaller ones do
    expected = torch.tensor_split(torch.arange(4), torch.arange(count))
    activate(BUDGET="12MiB")
    indices, x = torch.arange(count), torch.arange(4)
    push_out()
    with pytest.raises(RuntimeError, match="not in memory"):
        address_of(indices)
    parts = torch.tensor_split(x, indices)
    assert len(parts) == len(expected)
    assert all(torch.equal(*pair) for pair in zip(parts[:6], expected[:6], strict=True))


@in_child
def test_indices_of_checked_sparse_tensors_are_brought_back():
    import torch

    from tests.faults.pressure import push_out

    activate(BUDGET="12MiB")
    indices, values = torch.arange(16 << 10)[None], torch.ones(16 << 10)
    push_out()
    with torch.sparse.check_sparse_tensor_invariants():
        made = torch.sparse_coo_tensor(indices, values)
    push_out()
    assert made.coalesce().to_dense().sum() == 16 << 10
    push_out()
    wrong = torch.full((1, 16 << 10), -1)
    push_out()
    with pytest.raises(RuntimeError, match="negative ind"):
        torch.sparse_coo_tensor(wrong, values, check_invariants=True)


@pytest.mark.parametrize("name", ["quantile", "nanquantile"])
@in_child
def test_quantiles_named_by_a_tensor_are_computed_under_fuzz(name):
    """Inside, the composite reads ranks that an op before the last made."""
    import torch

    quantile = getattr(torch, name)
    levels = torch.tensor([0.1, 0.5])
    expected = quantile(torch.arange(100.0), levels)
    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    x, levels = torch.arange(100.0), torch.tensor([0.1, 0.5])
    assert torch.equal(quantile(x, levels), expected)


@pytest.mark.parametrize("checked", [True, False])
@in_child(timeout=240)
def test_sparse_tensors_and_optimizers_under_fuzz(checked):
    """The uses in PyTorch's own tests of optimizers and autograd, invariants checked."""
    from tests.oracle import opinfo
    from tests.oracle.op_tables import sparse

    def outcomes():
        attempts = sparse.attempts(checked)
        return {label: opinfo._attempt(function) for label, function in attempts.items()}

    expected = outcomes()
    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    found = outcomes()
    assert {k: v for k, v in found.items() if v != expected[k]} == {}


@in_child(timeout=240)
def test_gradients_of_sparse_tensors_are_checked_under_fuzz():
    """gradcheck calls its function many times over, with inputs that it changes in between."""
    import torch

    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    torch.sparse.check_sparse_tensor_invariants.enable()
    dense = torch.randn(3, 4, dtype=torch.double)
    dense[dense < 0] = 0
    for layout in (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc):
        sparse = dense.to_sparse(layout=layout).requires_grad_()
        assert torch.autograd.gradcheck(lambda x: x.to_dense(), (sparse,), masked=True)
    sparse = dense.to_sparse().requires_grad_()
    right = torch.randn(4, 2, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(torch.sparse.mm, (sparse, right), masked=True)

    def summed(x):
        return torch.sparse.sum(x, 0).to_dense()

    assert torch.autograd.gradcheck(summed, (sparse,), masked=True)


@in_child
def test_a_list_is_made_of_a_tensor_that_stays_meanwhile():
    """`tolist` runs ops before it reads through a pointer, and these may let others evict."""
    import torch

    from tests.oracle.op_tables import composites

    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    library = composites._library()
    library.functions.spillway_set_transparent(",".join(composites.candidates()).encode())
    x = torch.full((16,), 3)
    torch.ones(4)  # x may leave
    assert x.tolist() == [3] * 16


@in_child
def test_fuzz_shows_a_composite_that_reads_what_was_just_made():
    """Its arguments are the latest results: they would be in memory by chance."""
    import torch

    from spillway import _native
    from tests.oracle.op_tables import composites

    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    library = composites._library()
    x = torch.arange(10)
    split = "aten::tensor_split.tensor_indices_or_sections"
    for transparent, shown in (([], False), ([split], True)):
        library.functions.spillway_set_transparent(",".join(transparent).encode())
        indices = torch.tensor([2, 5])  # nothing runs after it
        try:
            parts = torch.tensor_split(x, indices)
        except RuntimeError as error:
            assert shown and "no hook shows" in str(error), error
        else:
            assert not shown and [part.numel() for part in parts] == [2, 3, 5]
    library.functions.spillway_set_transparent(None)
    assert _native.loaded() is not None


@in_child
def test_a_tensor_that_torch_is_filling_stays_under_fuzz():
    """`item` is a composite that runs while `torch.tensor` fills its result."""
    import torch

    activate(MODE="fuzz", BUDGET="2GiB", MIN_SIZE="1")
    numbers = [torch.tensor(float(value)) for value in range(8)]
    assert torch.tensor(numbers).tolist() == list(range(8))
    assert torch.tensor([[numbers[1], 2.5], [3, numbers[4]]]).tolist() == [[1, 2.5], [3, 4]]
