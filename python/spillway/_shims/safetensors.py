# SPDX-License-Identifier: Apache-2.0
"""The safetensors library: what it loads becomes managed, what it saves need not fit the budget.

Its tensors lie in a private map of the file, which PyTorch did not allocate: weights that are
trained there become memory that no budget counts. And before it writes a file it takes the
addresses of all tensors, none of which may leave until the last is written.
"""

import contextlib
import functools
import mmap
import os
import sys
import tempfile
from collections.abc import Callable, Iterator

import torch

from spillway import _imports, _native
from spillway._storages import in_frame, storage_of

# Stand-ins begin at multiples of it: torch and safetensors expect no less of a tensor.
_ALIGNMENT = 64


def install() -> None:
    """Wraps the library's functions when, and if, the program imports it."""
    _imports.when_imported("safetensors", _wrap_loading)
    _imports.when_imported("safetensors.torch", _wrap_saving)


def _wrap_loading(module) -> None:
    for name in ("safe_open", "_safe_open_handle"):
        original = getattr(module, name, None)
        if original is not None:
            _replace_everywhere(original, _opener(original))


def _wrap_saving(module) -> None:
    _replace_everywhere(module.load, _loader(module.load))
    _replace_everywhere(module.save, _saver(module.save, to_file=False))
    _replace_everywhere(module.save_file, _saver(module.save_file, to_file=True))


def _replace_everywhere(original, wrapper) -> None:
    """In all modules that have imported it, under whatever name."""
    for module in list(sys.modules.values()):
        for name, value in list(getattr(module, "__dict__", {}).items()):
            if value is original:
                setattr(module, name, wrapper)


# Loading


def _managed(value):
    """A copy in memory of torch's allocator; what is no CPU tensor as it is."""
    if type(value) is not torch.Tensor or value.device.type != "cpu" or _native.settings is None:
        return value
    with torch.no_grad():
        return value.clone()


def _opener(original: type) -> type:
    """A class, as the original is one: programs may ask for instances of it."""

    class Opened(_File):
        __doc__ = original.__doc__

        def __init__(self, *arguments, **keywords) -> None:
            super().__init__(original(*arguments, **keywords))

    Opened.__name__ = Opened.__qualname__ = original.__name__
    return Opened


def _loader(original: Callable) -> Callable:
    @functools.wraps(original)
    def load(*arguments, **keywords):
        loaded = original(*arguments, **keywords)
        return {name: _managed(loaded.pop(name)) for name in list(loaded)}

    return load


class _File:
    """An open file whose tensors are managed. Everything else is as the file has it."""

    def __init__(self, file) -> None:
        self._file = file

    def __enter__(self):
        self._file.__enter__()
        return self

    def __exit__(self, *error):
        return self._file.__exit__(*error)

    def __getattr__(self, name: str):
        return getattr(self._file, name)

    def get_tensor(self, *arguments, **keywords):
        return _managed(self._file.get_tensor(*arguments, **keywords))

    def get_tensors(self, *arguments, **keywords):
        loaded = self._file.get_tensors(*arguments, **keywords)
        return {name: _managed(loaded.pop(name)) for name in list(loaded)}

    def get_slice(self, *arguments, **keywords):
        return _Slice(self._file.get_slice(*arguments, **keywords))


class _Slice:
    """A tensor of the file that is not loaded yet."""

    def __init__(self, part) -> None:
        self._part = part

    def __getattr__(self, name: str):
        return getattr(self._part, name)

    def __getitem__(self, index):
        return _managed(self._part[index])


# Saving


def _saver(original: Callable, to_file: bool) -> Callable:
    @functools.wraps(original)
    def save(tensors, *arguments, **keywords):
        if _native.settings is None or not isinstance(tensors, dict):
            return original(tensors, *arguments, **keywords)
        directory = None
        if to_file:
            path = arguments[0] if arguments else keywords.get("filename", "")
            directory = os.path.dirname(os.path.abspath(path))
        with _at_hand(tensors, directory) as readable:
            return original(readable, *arguments, **keywords)

    return save


@contextlib.contextmanager
def _at_hand(tensors: dict[str, torch.Tensor], directory: str | None) -> Iterator[dict]:
    """The tensors, all of which can be read at once until the block ends.

    Where they do not fit into memory together, it gives copies in the map of a nameless file in
    `directory` (None: that of temporary files): in the page cache, which the kernel takes back as
    it likes.
    """
    held = [tensor for tensor in tensors.values() if isinstance(tensor, torch.Tensor)]
    fits = False
    try:
        with in_frame(b"safetensors save", reads=held):
            fits = True
            yield tensors
    except torch.OutOfMemoryError:
        if fits:
            raise
    if not fits:
        yield _stand_ins(tensors, directory)


def _stand_ins(tensors: dict[str, torch.Tensor], directory: str | None) -> dict[str, torch.Tensor]:
    """Copies that share storages as the tensors do, which safetensors looks at."""
    storages = {}
    size = 0
    for tensor in tensors.values():
        storage = storage_of(tensor)
        if storage is not None and storage.nbytes() != 0 and storage._cdata not in storages:
            storages[storage._cdata] = (storage, size)
            size += -(-storage.nbytes() // _ALIGNMENT) * _ALIGNMENT
    with tempfile.TemporaryFile(dir=directory) as file:
        os.posix_fallocate(file.fileno(), 0, size)  # a full disk is an error here, not a signal
        space = mmap.mmap(file.fileno(), size)
    copies = {
        key: _copy(storage, space, begin).untyped_storage()
        for key, (storage, begin) in storages.items()
    }
    with torch.no_grad():
        return {name: _over(copies, tensor) for name, tensor in tensors.items()}


def _copy(storage: torch.UntypedStorage, space: mmap.mmap, begin: int) -> torch.Tensor:
    whole = torch.empty(0, dtype=torch.uint8).set_(storage)
    place = torch.frombuffer(space, dtype=torch.uint8, count=storage.nbytes(), offset=begin)
    return place.copy_(whole)


def _over(copies: dict[int, torch.UntypedStorage], tensor: torch.Tensor) -> torch.Tensor:
    storage = storage_of(tensor)
    copy = copies.get(storage._cdata) if storage is not None else None
    if copy is None:
        return tensor
    return torch.empty(0, dtype=tensor.dtype).set_(
        copy, tensor.storage_offset(), tensor.shape, tensor.stride()
    )
