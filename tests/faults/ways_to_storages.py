# SPDX-License-Identifier: Apache-2.0
"""The public ways to a CPU storage besides an operator that computes: each makes 1 MiB of one byte.

What they return may be a storage of either kind, a tensor or a module.
"""

import copy
import ctypes
import io
import os
import pickle

import numpy
import torch
from torch.distributed._serialization import _streaming_load, _streaming_save
from torch.package import PackageExporter, PackageImporter

from tests.faults.pressure import MIB


def _tensor(value):
    return torch.full((MIB,), value, dtype=torch.uint8)


def _file(value, **options):
    file = io.BytesIO()
    torch.save(_tensor(value), file, **options)
    file.seek(0)
    return file


def _path(value, **options):
    name = f"storage{value}.pt"  # it may stay mapped
    torch.save(_tensor(value), name, **options)
    return name


def _numbers(value):
    return bytearray([value]) * MIB


def _array(value):
    return numpy.full(MIB, value, dtype=numpy.uint8)


def _raw(value):
    name = f"numbers{value}.bin"
    _array(value).tofile(name)
    return name


def _with_file(value):
    with open("storage.bin", "wb") as file:
        _tensor(value).untyped_storage()._write_file(file, True, True, 1)
    with open("storage.bin", "rb") as file:
        return torch.UntypedStorage._new_with_file(file, 1)


def _resized(value):
    storage = torch.ByteStorage()
    storage.resize_(MIB)
    return storage.fill_(value)


def _copied(value):
    return torch.UntypedStorage(MIB).copy_(_tensor(value).untyped_storage())


def _legacy(name, value):
    kind = getattr(torch, name)
    storage = kind(MIB // kind._dtype.itemsize)
    storage.untyped().fill_(value)
    return storage


def _pickled(value, protocol):
    parameter = torch.nn.Parameter(_tensor(value), requires_grad=False)
    return pickle.loads(pickle.dumps(parameter, protocol))


def _packaged(value):
    file = io.BytesIO()
    with PackageExporter(file) as exporter:
        exporter.save_pickle("numbers", "numbers.pkl", _tensor(value))
    file.seek(0)
    return PackageImporter(file).load_pickle("numbers", "numbers.pkl")


def _streamed(value):
    file = io.BytesIO()
    _streaming_save(_tensor(value), file)
    file.seek(0)
    return _streaming_load(file)


def _choose_sharing(strategy):
    """By name there is a process that keeps its socket as long as it likes: not in TMPDIR."""
    os.environ["TMPDIR"] = os.getcwd()
    torch.multiprocessing.set_sharing_strategy(strategy)


def _queued(value, strategy):
    _choose_sharing(strategy)
    queue = torch.multiprocessing.get_context("fork").SimpleQueue()
    queue.put(_tensor(value))
    return queue.get()


def _shared(value, strategy):
    _choose_sharing(strategy)
    return _tensor(value).share_memory_()


def _packed(value):
    weight = _tensor(value).view(torch.int8).view(1 << 10, 1 << 10)
    return torch.ops.quantized.linear_prepack(
        torch._make_per_tensor_quantized_tensor(weight, 1.0, 0), None
    )


class _OwnStorage(torch._C.StorageBase):
    """As a program may derive one: past torch's own class, whose constructor is wrapped.

    Its memory is what `c10::GetDefaultCPUAllocator()` gives extensions too.
    """


def _own_storage(value):
    storage = _OwnStorage(MIB)
    numbers = (ctypes.c_uint8 * MIB).from_address(storage.data_ptr())
    numbers.storage = storage
    return torch.frombuffer(numbers, dtype=torch.uint8).fill_(value)


class _Module(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.register_buffer("numbers", _tensor(value))

    def forward(self):
        return self.numbers


def _scripted(value):
    torch.jit.script(_Module(value)).save("module.pt")
    return torch.jit.load("module.pt")


def _quantised(value):
    return torch._empty_affine_quantized([MIB], scale=1.0, zero_point=0, dtype=torch.quint8).copy_(
        torch.quantize_per_tensor(_tensor(value).float(), 1.0, 0, torch.quint8)
    )


def _collated(value):
    from torch.utils.data import default_collate

    return default_collate([_tensor(value)[: MIB // 2], _tensor(value)[: MIB // 2]])


def _loaded(value, **options):
    from torch.utils.data import DataLoader

    rows = [numpy.full(MIB // 2, value, dtype=numpy.uint8) for _ in range(2)]
    return next(iter(DataLoader(rows, batch_size=2, **options)))


_OLD = {"_use_new_zipfile_serialization": False}

#: Count against the budget, and leave.
MANAGED = {
    "UntypedStorage(n)": lambda value: torch.UntypedStorage(MIB).fill_(value),
    "UntypedStorage(size=n)": lambda value: torch.UntypedStorage(size=MIB).fill_(value),
    "UntypedStorage(list)": lambda value: torch.UntypedStorage([value] * MIB),
    "UntypedStorage.resize_": lambda value: torch.UntypedStorage().resize_(MIB).fill_(value),
    "UntypedStorage.clone": lambda value: _tensor(value).untyped_storage().clone(),
    "UntypedStorage.from_buffer": lambda value: torch.UntypedStorage.from_buffer(
        _numbers(value), dtype=torch.uint8
    ),
    "UntypedStorage._new_with_file": _with_file,
    "UntypedStorage.byte": lambda value: torch.UntypedStorage(MIB).fill_(value).byte(),
    "UntypedStorage(bytes)": lambda value: torch.UntypedStorage(bytes(_numbers(value))),
    "UntypedStorage.new": lambda value: torch.UntypedStorage().new().resize_(MIB).fill_(value),
    "UntypedStorage.copy_": _copied,
    "Tensor.resize_ of a storage": lambda value: (
        torch.empty(0, dtype=torch.uint8).set_(torch.UntypedStorage()).resize_(MIB).fill_(value)
    ),
    "TypedStorage.clone": lambda value: _tensor(value).storage().clone(),
    "ByteStorage(list)": lambda value: torch.ByteStorage([value] * MIB),
    "TypedStorage(n)": lambda value: torch.TypedStorage(MIB, dtype=torch.uint8).fill_(value),
    "ByteStorage(n)": lambda value: torch.ByteStorage(MIB).fill_(value),
    "ByteStorage.from_buffer": lambda value: torch.ByteStorage.from_buffer(_numbers(value)),
    "TypedStorage.resize_": _resized,
    "copy.copy of a storage": lambda value: copy.copy(_tensor(value).untyped_storage()),
    "copy.deepcopy of a storage": lambda value: copy.deepcopy(_tensor(value).storage()),
    "copy.deepcopy of a tensor": lambda value: copy.deepcopy(_tensor(value)),
    "copy.deepcopy of a module": lambda value: copy.deepcopy(_Module(value)),
    "copy.deepcopy of a state_dict": lambda value: copy.deepcopy(_Module(value).state_dict()),
    "copy.deepcopy of a quantised tensor": lambda value: copy.deepcopy(_quantised(value)),
    "copy.deepcopy of a scripted module": lambda value: copy.deepcopy(
        torch.jit.script(_Module(value))
    ),
    "torch.package": _packaged,
    "torch.from_dlpack(tensor)": lambda value: torch.from_dlpack(_tensor(value)).clone(),
    "pickle of a tensor": lambda value: pickle.loads(pickle.dumps(_tensor(value))),
    "pickle of a storage": lambda value: pickle.loads(pickle.dumps(_tensor(value).storage())),
    "torch.load": lambda value: torch.load(_file(value)),
    "torch.load by pickle": lambda value: torch.load(_path(value), weights_only=False),
    "torch.load of the old format": lambda value: torch.load(_file(value, **_OLD)),
    "torch.load of an old file": lambda value: torch.load(_path(value, **_OLD)),
    "torch.load of an old file by pickle": lambda value: torch.load(
        _path(value, **_OLD), weights_only=False
    ),
    "torch.load to a place": lambda value: torch.load(_path(value), map_location="cpu"),
    "torch.load of an old file to a place": lambda value: torch.load(
        _path(value, **_OLD), map_location=lambda storage, location: storage
    ),
    "torch.jit.load": _scripted,
    "torch.tensor(list)": lambda value: torch.tensor([value] * MIB, dtype=torch.uint8),
    "torch.tensor(array)": lambda value: torch.tensor(_array(value)),
    "torch.asarray(array, copy=True)": lambda value: torch.asarray(_array(value), copy=True),
    "ByteTensor(n)": lambda value: torch.ByteTensor(MIB).fill_(value),
    "Tensor.new": lambda value: torch.empty(0, dtype=torch.uint8).new(MIB).fill_(value),
    "quantised": _quantised,
    "default_collate": _collated,
    "DataLoader": _loaded,
}

MANAGED |= {
    f"pickle, protocol {protocol}": lambda value, protocol=protocol: _pickled(value, protocol)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1)
}
MANAGED |= {
    f"{name}(n)": lambda value, name=name: _legacy(name, value)
    for name in torch.storage._dtype_to_storage_type_map().values()
}

#: Memory of others, which no budget limits.
FOREIGN = {
    "torch.from_numpy": lambda value: torch.from_numpy(_array(value)),
    "torch.asarray(array)": lambda value: torch.asarray(_array(value)),
    "torch.as_tensor(array)": lambda value: torch.as_tensor(_array(value)),
    "torch.frombuffer": lambda value: torch.frombuffer(_numbers(value), dtype=torch.uint8),
    "torch.from_dlpack(array)": lambda value: torch.from_dlpack(_array(value)),
    "torch.from_file": lambda value: torch.from_file(_raw(value), size=MIB, dtype=torch.uint8),
    "UntypedStorage.from_file": lambda value: torch.UntypedStorage.from_file(
        _raw(value), False, MIB
    ),
    "torch.load(mmap=True)": lambda value: torch.load(_path(value), mmap=True),
    "torch.load of a file by its name, mapped": lambda value: torch.load(
        _path(value), mmap=True, weights_only=False
    ),
    "torch.from_numpy(memmap)": lambda value: torch.from_numpy(numpy.memmap(_raw(value), mode="c")),
    "torch.from_file(shared=True)": lambda value: torch.from_file(
        _raw(value), shared=True, size=MIB, dtype=torch.uint8
    ),
    "share_memory_": lambda value: _shared(value, "file_descriptor"),
    "share_memory_ by name": lambda value: _shared(value, "file_system"),
    "a queue": lambda value: _queued(value, "file_descriptor"),
    "a queue by name": lambda value: _queued(value, "file_system"),
    "a class derived from StorageBase": _own_storage,
    "packed weights": _packed,
    "torch.distributed's streams": _streamed,
    "UntypedStorage._new_shared": lambda value: torch.UntypedStorage._new_shared(MIB).fill_(value),
    "DataLoader with workers": lambda value: _loaded(value, num_workers=1),
}


class Held(list):
    """Holds a storage: a failing test prints its variables, and a storage all its bytes."""

    def __repr__(self):
        return f"{len(self)} storages"


def storages_of(made):
    """The untyped storages of what a way returned."""
    if isinstance(made, torch.nn.Module):
        return storages_of(dict(made.named_buffers()))
    if isinstance(made, dict):
        return [storage for value in made.values() for storage in storages_of(value)]
    if isinstance(made, torch.ScriptObject):
        made = torch.ops.quantized.linear_unpack(made)[0].int_repr()
    if isinstance(made, torch.Tensor):
        return [made.untyped_storage()]
    return [getattr(made, "_untyped_storage", made)]


def is_all(made, value):
    """Whether its bytes are all there and all this one."""
    whole = [torch.empty(0, dtype=torch.uint8).set_(storage) for storage in storages_of(made)]
    return sum(part.numel() for part in whole) == MIB and all(
        bool((part == value).all()) for part in whole
    )
