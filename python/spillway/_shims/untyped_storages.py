# SPDX-License-Identifier: Apache-2.0
"""Accesses to an UntypedStorage, by programs and torch itself, past every operator.

Made in Python, a storage has memory of torch's default allocator, which nothing that is set in its
place serves: ``copy.deepcopy``, ``pickle.loads`` and files in the old format make theirs so. They
are given managed memory before anybody else knows them. And the methods that read or write a
storage directly bring it back first.
"""

import functools

import torch

from spillway import _native
from spillway._storages import exported_whole, in_frame, touch

# Methods that are done with the memory when they return, and whether they write it: ops of their
# own.
_WHOLE_ACCESSES = {
    "__setitem__": True,
    "_byteswap": True,
    "_set_from_file": True,
    "_write_file": False,
    "copy_": True,
    "fill_": True,
}

# Methods after which the memory is another, or known elsewhere. The value says whether it may be
# written from then on.
_OTHER_ACCESSES = {
    "_share_fd_cpu_": True,
    "_share_filename_cpu_": True,
    "_swap_data_ptr_": True,
    "is_pinned": False,
    "is_shared": False,
}

# Functions of the class that make a storage with contents.
_FACTORIES = ("from_buffer", "_new_with_file")


def install() -> None:
    """Wraps constructor and methods. To be called once."""
    _wrap_constructor()
    for name in _FACTORIES:
        _wrap_factory(name)
    for name, writes in _WHOLE_ACCESSES.items():
        _wrap_whole_access(name, writes)
    for name, writes in _OTHER_ACCESSES.items():
        _wrap_other_access(name, writes)
    _wrap_resizing()
    _wrap_items()


def manage(storage: torch.UntypedStorage, keep_contents: bool) -> torch.UntypedStorage:
    """The same storage over managed memory. Only its maker may know it yet.

    Raises:
        torch.OutOfMemoryError: it does not fit.
    """
    library = _native.loaded()
    if library is not None:
        library.manage_made(storage, keep_contents)
    return storage


def _wrap_constructor() -> None:
    original = torch.UntypedStorage.__new__

    @functools.wraps(original)
    def make(cls, *arguments, **keywords):
        size = arguments[0] if arguments else keywords.get("size")
        # A sequence is contents; a size leaves them undefined.
        return manage(original(cls, *arguments, **keywords), not isinstance(size, int))

    torch.UntypedStorage.__new__ = staticmethod(make)


def _wrap_factory(name: str) -> None:
    original = getattr(torch.UntypedStorage, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def make(*arguments, **keywords):
        return manage(original(*arguments, **keywords), True)

    setattr(torch.UntypedStorage, name, staticmethod(make))


def _wrap_whole_access(name: str, writes: bool) -> None:
    original = getattr(torch.UntypedStorage, name, None)
    if original is None:
        return
    frame = f"UntypedStorage.{name}".encode()

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        values = (*arguments, *keywords.values())
        others = [value for value in values if isinstance(value, torch.UntypedStorage)]
        reads, changed = (others, [self]) if writes else ([self, *others], [])
        with in_frame(frame, reads=reads, writes=changed):
            return original(self, *arguments, **keywords)

    setattr(torch.UntypedStorage, name, wrapper)


def _wrap_other_access(name: str, writes: bool) -> None:
    original = getattr(torch.UntypedStorage, name, None)
    if original is None:
        return

    @functools.wraps(original)
    def wrapper(self, *arguments, **keywords):
        touch(self, writes)
        for argument in arguments:
            if isinstance(argument, torch.UntypedStorage):
                touch(argument, writes)
        return original(self, *arguments, **keywords)

    setattr(torch.UntypedStorage, name, wrapper)


def _wrap_resizing() -> None:
    """The new memory is the engine's to move too, though no op shows it."""
    original = torch.UntypedStorage.resize_

    @functools.wraps(original)
    def resize_(self, *arguments, **keywords):
        touch(self, True)
        library = _native.loaded()
        if library is not None:
            library.serve_when_resized(self)
        result = original(self, *arguments, **keywords)
        touch(self, False)
        return result

    torch.UntypedStorage.resize_ = resize_


def _wrap_items() -> None:
    """``storage[3]`` reads a byte; ``storage[3:9]`` is another storage over the same memory."""
    original = torch.UntypedStorage.__getitem__

    @functools.wraps(original)
    def getitem(self, index):
        touch(self, False)
        if isinstance(index, slice) and _native.loaded() is not None and self.device.type == "cpu":
            return original(exported_whole(self).untyped_storage(), index)
        return original(self, index)

    torch.UntypedStorage.__getitem__ = getitem
