# SPDX-License-Identifier: Apache-2.0
"""Accesses to tensor memory that no operator event shows, made safe.

Each wrapper brings the storage back before the original runs. On a CPU a storage keeps its address
for life, so ``data_ptr()`` does not pin; only arrays that share memory (numpy, DLPack) do, and only
while they live.
"""

import functools
from collections.abc import Iterable

import torch

from spillway import _imports, _native, _python_ops, _rest, _safetensors, _untyped_storages
from spillway._storages import (
    exported,
    exported_whole,
    give_address,
    in_frame,
    storage_of,
    touch,
)

_installed = False

# Methods of Tensor that read or write memory directly, and whether they write.
_TENSOR_METHODS = {
    "__deepcopy__": False,
    "__reduce_ex__": False,
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
    _untyped_storages.install()
    for name, writes in _TENSOR_METHODS.items():
        if hasattr(torch.Tensor, name):
            _wrap_tensor_method(name, writes)
    _wrap_addresses()
    for name in ("apply_", "map_", "map2_"):
        _wrap_element_calls(name)
    _wrap_numpy()
    _wrap_dlpack()
    _wrap_file_writer()
    _wrap_swapping()
    _wrap_script_saving()
    _wrap_generator_state()
    _wrap_page_locking()
    _wrap_profiler()
    _wrap_distributed()
    _imports.when_imported("torch._inductor.output_code", _wrap_output_code)
    _wrap_packaged_models()
    _python_ops.install()
    _safetensors.install()
    _rest.install()


def _wrap_tensor_method(name: str, writes: bool) -> None:
    original = getattr(torch.Tensor, name)

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        storage = storage_of(self)
        if storage is not None:
            touch(storage, writes)
        return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_addresses() -> None:
    """Functions that hand out an address: written at any time from then on."""
    for owner, name in (
        (torch.UntypedStorage, "data_ptr"),
        (torch.Tensor, "data_ptr"),
        (torch.Tensor, "const_data_ptr"),
    ):
        original = getattr(owner, name, None)
        if original is not None:
            setattr(owner, name, _wrapped_address(original))


def _wrapped_address(original):
    @functools.wraps(original)
    def data_ptr(self):
        storage = storage_of(self)
        if storage is not None:
            give_address(storage)
        return original(self)

    return data_ptr


def _wrap_element_calls(name: str) -> None:
    """Methods that call Python for every element, through pointers, whatever ops that runs."""
    original = getattr(torch.Tensor, name, None)
    if original is None:
        return
    frame = f"Tensor.{name}".encode()

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        used = filter(_is_tensor, (*arguments, *keywords.values()))
        with in_frame(frame, reads=used, writes=[self]):
            return original(self, *arguments, **keywords)

    setattr(torch.Tensor, name, wrapper)


def _wrap_numpy() -> None:
    original = torch.Tensor.numpy

    @functools.wraps(original)
    def numpy(self, *arguments, **keywords):
        storage = storage_of(self)
        if _native.loaded() is None or storage is None or self.device.type != "cpu":
            return original(self, *arguments, **keywords)
        if type(self) in (torch.Tensor, torch.nn.Parameter) and not self.requires_grad:
            return original(exported(self), *arguments, **keywords)
        # Subclasses answer in their own way, and what requires a gradient says so.
        touch(storage, True)
        return _held_array(original(self, *arguments, **keywords), storage, original)

    torch.Tensor.numpy = numpy


def _held_array(array, storage: torch.UntypedStorage, to_numpy):
    """The array, over an export of the storage where it lies in the storage's memory."""
    import numpy

    if type(array) is not numpy.ndarray:
        return array
    offset = array.__array_interface__["data"][0] - storage.data_ptr()
    if not 0 <= offset < storage.nbytes():
        return array  # a copy
    whole = to_numpy(exported_whole(storage))
    held = numpy.ndarray(array.shape, array.dtype, whole, offset, array.strides)
    held.flags.writeable = array.flags.writeable
    return held


def _wrap_dlpack() -> None:
    """Both ways to a capsule, `Tensor.__dlpack__` among their callers."""
    for name in ("_to_dlpack", "_to_dlpack_versioned"):
        original = getattr(torch._C, name, None)
        if original is not None:
            wrapper = _wrapped_dlpack(original)
            setattr(torch._C, name, wrapper)
            for module in (torch, torch.utils.dlpack):
                if getattr(module, "to_dlpack", None) is original:
                    module.to_dlpack = wrapper
    # Through this table consumers take the memory past every method; without it they call
    # `__dlpack__`.
    for owner in (torch.Tensor, getattr(torch.utils.dlpack, "ReadOnlyTensorWrapper", None)):
        if owner is not None and "__dlpack_c_exchange_api__" in vars(owner):
            del owner.__dlpack_c_exchange_api__


def _wrapped_dlpack(original):
    @functools.wraps(original)
    def to_dlpack(tensor, *arguments, **keywords):
        return original(exported(tensor), *arguments, **keywords)

    return to_dlpack


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


def _wrap_swapping() -> None:
    """``torch.utils.swap_tensors`` wants no weak reference to either tensor, and we hold one to
    the tensor that an op made.
    """
    original = torch._C._swap_tensor_impl

    @functools.wraps(original)
    def swap(first, second):
        library = _native.loaded()
        for tensor in (first, second):
            storage = storage_of(tensor)
            if library is not None and storage is not None:
                library.spillway_forget_tensor(storage._cdata)
        return original(first, second)

    torch._C._swap_tensor_impl = swap


def _wrap_script_saving() -> None:
    """TorchScript writes a module's tensors in C++, one after the other, without any event."""
    for name in ("save", "save_to_buffer", "_save_for_lite_interpreter"):
        _keep_while_saving(torch.jit.RecursiveScriptModule, name)
        _keep_while_saving(torch.jit.ScriptModule, name)  # traced modules; it has copies of them


def _keep_while_saving(owner: type, name: str) -> None:
    original = getattr(owner, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        with in_frame(b"torch.jit.save", reads=_script_tensors(self)):
            return original(self, *arguments, **keywords)

    setattr(owner, name, wrapper)


def _script_tensors(module) -> Iterable[torch.Tensor]:
    yield from module.parameters()
    yield from module.buffers()
    for part in module.modules():
        try:  # what `torch.jit.freeze` has put into the code
            _, constants = part.code_with_constants
        except (AttributeError, RuntimeError):  # it has no forward
            continue
        yield from filter(_is_tensor, constants.const_mapping.values())


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


def _wrap_page_locking() -> None:
    """Memory that a program page-locks itself stays while it is: devices copy from its pages.

    Evicted, it would leave those pages, and a copy would silently take what lies there by then.
    ``pin_memory()`` is not concerned: it copies into memory of the device's own allocator.
    """
    runtime = getattr(torch._C, "_cudart", None)
    if runtime is not None:
        runtime.cudaHostRegister = _kept_while_registered(runtime.cudaHostRegister)
        runtime.cudaHostUnregister = _released_with(runtime.cudaHostUnregister)


def _kept_while_registered(register):
    @functools.wraps(register)
    def wrapper(address, *arguments, **keywords):
        library = _native.load()
        _native.check(library.spillway_keep_address(int(address), 1))
        result = register(address, *arguments, **keywords)
        if int(result) != 0:
            library.spillway_keep_address(int(address), 0)
        return result

    return wrapper


def _released_with(unregister):
    @functools.wraps(unregister)
    def wrapper(address, *arguments, **keywords):
        result = unregister(address, *arguments, **keywords)
        if int(result) == 0:
            _native.load().spillway_keep_address(int(address), 0)
        return result

    return wrapper


def _wrap_profiler() -> None:
    """With shapes or stacks, the profiler notes the addresses of all that it is shown."""
    owner = torch.autograd.profiler.profile
    start, end = owner._start_trace, owner.__exit__

    @functools.wraps(start)
    def start_trace(self):
        _show_addresses(self, True)
        return start(self)

    @functools.wraps(end)
    def leave(self, *error):
        try:
            return end(self, *error)
        finally:
            _show_addresses(self, False)

    owner._start_trace, owner.__exit__ = start_trace, leave


def _show_addresses(profiler, shown: bool) -> None:
    library = _native.loaded()
    if library is not None and (profiler.with_stack or profiler.record_shapes):
        library.spillway_show_addresses(int(shown))


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
        # Not a list of them: the graph lets go of its inputs as it goes.
        with in_frame(b"compiled graph", _own_tensors(self), filter(_is_tensor, inputs)):
            return original(self, inputs, *arguments, **keywords)

    owner.__call__ = call


def _own_tensors(graph) -> Iterable[torch.Tensor]:
    """Constants and frozen parameters, which the generated module holds by these names."""
    held = getattr(getattr(graph, "current_callable", None), "__globals__", {})
    for names in ("constants", "frozen_param_names"):
        for name in getattr(graph, names, None) or ():
            if _is_tensor(held.get(name)):
                yield held[name]


def _wrap_packaged_models() -> None:
    """Models that AOTInductor compiled ahead take the addresses of their inputs, and write some."""
    runners = getattr(torch._C, "_aoti", None)
    for runner in ("AOTIModelPackageLoader", "AOTIModelContainerRunnerCpu"):
        for name in ("run", "boxed_run"):
            if hasattr(getattr(runners, runner, None), name):
                _wrap_packaged_call(getattr(runners, runner), name)


def _wrap_packaged_call(owner: type, name: str) -> None:
    original = getattr(owner, name)

    @functools.wraps(original)
    def run(self, inputs, *arguments, **keywords):
        with in_frame(b"AOTInductor model", writes=filter(_is_tensor, inputs)):
            return original(self, inputs, *arguments, **keywords)

    setattr(owner, name, run)


def _is_tensor(value) -> bool:
    return isinstance(value, torch.Tensor)
