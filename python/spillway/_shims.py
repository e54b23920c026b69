# SPDX-License-Identifier: Apache-2.0
"""Accesses to tensor memory that no operator event shows, made safe.

Each wrapper brings the storage back before the original runs. On a CPU a storage keeps its address
for life, so ``data_ptr()`` does not pin; only arrays that share memory (numpy, DLPack) do, and only
while they live.
"""

import functools
import sys

import torch

from spillway import _native

_installed = False

# Methods of UntypedStorage that read or write memory directly. The value says whether they write.
_STORAGE_METHODS = {
    "__getitem__": False,
    "__setitem__": True,
    "_set_from_file": True,
    "_share_fd_cpu_": True,
    "_share_filename_cpu_": True,
    "_write_file": False,
    "clone": False,
    "copy_": True,
    "fill_": True,
    "is_pinned": False,
    "is_shared": False,
    "nbytes": None,
    "resize_": True,
    "tolist": False,
}

# Methods of Tensor that do. data_ptr hands out an address: written at any time from then on.
_TENSOR_METHODS = {
    "__deepcopy__": False,
    "__reduce_ex__": False,
    "const_data_ptr": False,
    "data_ptr": True,
    "is_pinned": False,
    "is_shared": False,
    "set_": True,
    "share_memory_": True,
    "tolist": False,
}


def install() -> None:
    """Wraps the methods, once per process."""
    global _installed
    if _installed:
        return
    _installed = True
    for name, writes in _STORAGE_METHODS.items():
        if writes is not None and hasattr(torch.UntypedStorage, name):
            _wrap_storage_method(torch.UntypedStorage, name, writes)
    _wrap_storage_method(torch.UntypedStorage, "data_ptr", True)
    if hasattr(torch.UntypedStorage, "_swap_data_ptr_"):
        _wrap_storage_method(torch.UntypedStorage, "_swap_data_ptr_", True)
    for name, writes in _TENSOR_METHODS.items():
        if hasattr(torch.Tensor, name):
            _wrap_tensor_method(name, writes)
    _wrap_export("numpy")
    _wrap_export("__dlpack__")
    _wrap_file_writer()
    _wrap_generator_state()
    _wrap_distributed()
    _wrap_compiled_graphs()


def storage_of(tensor: torch.Tensor) -> torch.UntypedStorage | None:
    """The tensor's storage, or None for layouts and wrappers that have none."""
    try:
        return torch._C.TensorBase.untyped_storage(tensor)
    except (RuntimeError, NotImplementedError):
        return None


def touch(storage: torch.UntypedStorage, writes: bool) -> None:
    """Brings the storage back until this thread's next op."""
    library = _native.loaded()
    if library is not None:
        _native.check(library.spillway_touch(storage._cdata, int(writes)))


def _wrap_storage_method(owner: type, name: str, writes: bool) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        touch(self, writes)
        for argument in arguments:
            if isinstance(argument, torch.UntypedStorage):
                touch(argument, writes)
        return original(self, *arguments, **keywords)

    setattr(owner, name, wrapper)


def _wrap_tensor_method(name: str, writes: bool) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        storage = storage_of(self)
        if storage is not None:
            touch(storage, writes)
        return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_export(name: str) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        library = _native.loaded()
        storage = storage_of(self)
        plain = type(self) in (torch.Tensor, torch.nn.Parameter) and self.device.type == "cpu"
        if library is None or storage is None or not plain or self.requires_grad:
            if storage is not None:
                touch(storage, True)
            return original(self, *arguments, **keywords)
        # What is exported is an alias whose memory ends the pin when the last holder lets go.
        with torch.no_grad():
            alias = torch.ops.spillway.export_alias(self)
        return original(alias, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_file_writer() -> None:
    writer = torch._C.PyTorchFileWriter
    original = writer.write_record

    @functools.wraps(original)
    def write_record(self, name, data, *arguments):
        storage = getattr(data, "_untyped_storage", data)
        if isinstance(storage, torch.UntypedStorage):
            touch(storage, False)
        return original(self, name, data, *arguments)

    writer.write_record = write_record


def _wrap_generator_state() -> None:
    """Generators read a state tensor directly, and their own methods cannot be replaced."""
    original = torch.random.set_rng_state

    @functools.wraps(original)
    def set_rng_state(new_state):
        storage = storage_of(new_state)
        if storage is not None:
            touch(storage, False)
        original(new_state)

    torch.random.set_rng_state = set_rng_state
    torch.set_rng_state = set_rng_state


def _wrap_distributed() -> None:
    """Buckets and gradients of DistributedDataParallel stay in memory.

    Its reducer compares their storages through accessors that refuse what has been evicted, and the
    collectives read them after their op has returned. Buckets are made when the module is wrapped
    and once more after the first step.
    """
    if not torch.distributed.is_available():
        return
    _keep_what_is_made_in(torch.nn.parallel.DistributedDataParallel, "__init__")
    _keep_what_is_made_in(torch._C._distributed_c10d.Reducer, "_rebuild_buckets")


def _keep_what_is_made_in(owner: type, name: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        library = _native.loaded()
        if library is None:
            return original(self, *arguments, **keywords)
        library.spillway_keep_gradients(1)
        library.spillway_keep_made(1)
        try:
            return original(self, *arguments, **keywords)
        finally:
            library.spillway_keep_made(0)

    setattr(owner, name, wrapper)


class _CompiledGraphFinder:
    """Wraps torch._inductor.output_code when it is imported: doing so here costs seconds."""

    module = "torch._inductor.output_code"

    def find_spec(self, name, path=None, target=None):
        if name != self.module:
            return None
        sys.meta_path.remove(self)
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                _wrap_output_code(module)

            spec.loader.exec_module = exec_module
        return spec


def _wrap_compiled_graphs() -> None:
    module = sys.modules.get(_CompiledGraphFinder.module)
    if module is not None:
        _wrap_output_code(module)
    else:
        sys.meta_path.insert(0, _CompiledGraphFinder())


def _wrap_output_code(module) -> None:
    for name in ("CompiledFxGraph", "CompiledAOTI", "RegionalOutputCode"):
        owner = getattr(module, name, None)
        if owner is not None and "__call__" in vars(owner):
            _wrap_compiled_call(owner)


def _wrap_compiled_call(owner: type) -> None:
    """A compiled graph is one frame: its loops read and write inputs without any event."""
    original = owner.__call__

    @functools.wraps(original)
    def call(self, inputs, *arguments, **keywords):
        library = _native.loaded()
        if library is None:
            return original(self, inputs, *arguments, **keywords)
        library.spillway_begin_frame(b"compiled graph")
        try:
            for tensor in inputs:
                storage = storage_of(tensor) if isinstance(tensor, torch.Tensor) else None
                if storage is not None:
                    _native.check(library.spillway_use(storage._cdata, 1))
            return original(self, inputs, *arguments, **keywords)
        finally:
            library.spillway_end_frame()

    owner.__call__ = call
