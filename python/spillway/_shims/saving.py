# SPDX-License-Identifier: Apache-2.0
"""Tensors written to files in C++, without any event."""

import functools
from collections.abc import Iterable

import torch

from spillway._storages import in_frame, is_tensor, touch


def install() -> None:
    """Wraps the writers. To be called once."""
    _wrap_file_writer()
    _wrap_script_saving()


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
        yield from filter(is_tensor, constants.const_mapping.values())
