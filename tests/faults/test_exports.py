# SPDX-License-Identifier: Apache-2.0
"""Memory that is shared with other libraries stays while it is shared."""

import gc

from tests.faults.in_child import in_child
from tests.faults.starter import activate


@in_child
def test_an_array_over_a_tensor_that_was_not_copied_yet():
    """To export it writable is to write it: from then on it has memory of its own, which stays."""
    import torch

    from tests.faults.pressure import address_of, filled, is_in_memory, push_out

    activate(BUDGET="12MiB")
    tensor = filled(1)
    lazy = torch._lazy_clone(tensor)
    array = lazy.numpy()
    address = array.__array_interface__["data"][0]
    assert address == address_of(lazy) != address_of(tensor)
    lazy.add_(1)  # shows its storage, which may be evicted from then on
    push_out()
    assert is_in_memory(address)
    assert (array == 2).all() and bool((tensor == 1).all())
    del array
    gc.collect()
    push_out()
    assert not is_in_memory(address)
