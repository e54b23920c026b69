# SPDX-License-Identifier: Apache-2.0
"""The safetensors library: loaded weights are managed, files larger than the budget are saved."""

import hashlib
import os

import pytest

from tests.faults.in_child import in_child
from tests.faults.starter import activate

TENSORS = 32  # of a MiB each, in 12 MiB


def _filled_tensors():
    from tests.faults.pressure import filled

    return {name: filled(value) for value, name in enumerate(_filled_names())}


def _library():
    """Its functions by the module: names imported before Spillway starts are not what it wraps."""
    import safetensors.torch

    return safetensors.torch


def _filled_names():
    return [f"t{value:02}" for value in range(TENSORS)]


def _digest(name):
    with open(name, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


@in_child
def test_a_file_larger_than_the_budget_is_saved():
    """The same bytes as without a budget; tensors that share storage are refused as ever."""
    from tests.faults.training import require_budget_held

    os.mkdir("files")
    _library().save_file(_filled_tensors(), "stock", metadata={"format": "pt"})
    activate(BUDGET="12MiB")
    tensors = _filled_tensors()
    _library().save_file(tensors, "files/managed", metadata={"format": "pt"})
    assert _digest("files/managed") == _digest("stock")
    assert hashlib.sha256(_library().save(tensors, {"format": "pt"})).hexdigest() == _digest(
        "stock"
    )
    assert os.listdir("files") == ["managed"]  # nothing else is left there
    with pytest.raises(RuntimeError, match="share memory"):
        _library().save_file({**tensors, "view": tensors["t00"][:10]}, "refused")
    with pytest.raises(ValueError, match="non contiguous"):
        _library().save_file({**tensors, "t01": tensors["t01"].view(512, 512).t()}, "refused")
    require_budget_held()


@in_child
def test_parts_of_shared_storages_are_saved_as_parts():
    import torch

    activate(BUDGET="12MiB")
    whole = torch.arange(float(8 << 18))
    tensors = {f"part{i}": part for i, part in enumerate(whole.split(1 << 18))}
    tensors |= _filled_tensors() | {"empty": torch.empty(0), "number": torch.tensor(3.5)}
    _library().save_file(tensors, "saved")
    loaded = _library().load_file("saved")
    assert loaded.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(loaded[name], tensor), name


def _by_name(path):
    with _library().safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in _filled_names()}


def _by_slice(path):
    with _library().safe_open(path, framework="pt") as file:
        return {name: file.get_slice(name)[:] for name in _filled_names()}


def _from_bytes(path):
    with open(path, "rb") as file:
        return _library().load(file.read())


@in_child
def test_what_is_loaded_is_managed():
    """By every way; and as mapped memory is not, it does not grow beside the budget."""
    import torch

    import spillway
    from tests.faults.pressure import is_intact
    from tests.faults.training import require_budget_held

    _library().save_file(_filled_tensors(), "stock")
    activate(BUDGET="12MiB")
    for way in (_by_name, _by_slice, _from_bytes, _library().load_file):
        held = way("stock")
        assert sorted(held) == _filled_names()
        for value, name in enumerate(_filled_names()):
            held[name].add_(1)
            assert is_intact(held[name] - 1, value), (way, name)
        stats = spillway.stats()
        assert stats.device_bytes + stats.disk_bytes >= TENSORS << 20, (way, stats)
        del held
    with _library().safe_open("stock", framework="pt") as file:
        assert isinstance(file, _library().safe_open)
        part = file.get_slice("t05")
        assert part.get_shape() == [1 << 18] and part.get_dtype() == "F32"
        assert torch.equal(part[3:9], file.get_tensor("t05")[3:9])
    require_budget_held()


@in_child
def test_programs_that_ask_whether_it_is_there():
    """As transformers does, before it imports it: to be found is not to be imported."""
    import importlib.util
    import sys

    import spillway

    activate(BUDGET="12MiB")
    for module in ("safetensors", "safetensors.torch"):
        assert importlib.util.find_spec(module) is not None
    assert "safetensors.torch" not in sys.modules
    _library().save_file(_filled_tensors(), "saved")
    loaded = _library().load_file("saved")
    assert spillway.stats().device_bytes + spillway.stats().disk_bytes >= TENSORS << 20
    assert len(loaded) == TENSORS


@in_child
def test_programs_that_imported_it_before():
    import sys
    import types

    import torch

    import spillway

    _library().save_file(_filled_tensors(), "stock")
    importer = types.ModuleType("importer")
    importer.save_it = _library().save_file
    sys.modules["importer"] = importer
    spillway.enable("12MiB")
    tensors = _filled_tensors()
    importer.save_it(tensors, "managed")
    assert _digest("managed") == _digest("stock")
    loaded = _library().load_file("managed")
    assert all(torch.equal(loaded[name], tensor) for name, tensor in tensors.items())
    assert spillway.stats().disk_bytes > 2 * TENSORS << 19
    spillway.disable()
    _library().save_file(loaded, "stopped")
    assert _digest("stopped") == _digest("stock")


@in_child
def test_a_full_disk_is_an_error_and_nothing_is_lost():
    import torch

    from spillway._shims import safetensors

    activate(BUDGET="12MiB")
    tensors = _filled_tensors()

    def full(*_):
        raise OSError(28, "No space left on device")

    safetensors.os.posix_fallocate, kept = full, os.posix_fallocate
    with pytest.raises(OSError, match="No space left"):
        _library().save_file(tensors, "failed")
    os.posix_fallocate = kept
    assert "failed" not in os.listdir()
    assert all(torch.equal(tensors[name], value) for name, value in _filled_tensors().items())
