# SPDX-License-Identifier: Apache-2.0
"""Changing modules that a program may import later, without importing them for it."""

import sys
from collections.abc import Callable
from types import ModuleType


def when_imported(module: str, action: Callable[[ModuleType], None]) -> None:
    """Calls ``action(module)`` when the module has been imported; now, if it has been already."""
    imported = sys.modules.get(module)
    if imported is not None:
        action(imported)
    else:
        sys.meta_path.insert(0, _Finder(module, action))


class _Finder:
    """Finds its module as whoever comes after it does, and adds the action to its loading.

    It goes when the module is loaded, not when it is found: to be found is often all that is asked
    (``importlib.util.find_spec``).
    """

    def __init__(self, module: str, action: Callable[[ModuleType], None]) -> None:
        self._module = module
        self._action = action

    def find_spec(self, name, path=None, target=None):
        if name != self._module:
            return None
        spec = self._spec_of_others(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                if self in sys.meta_path:
                    sys.meta_path.remove(self)
                    self._action(module)

            spec.loader.exec_module = exec_module
        return spec

    def _spec_of_others(self, name, path, target):
        for finder in sys.meta_path:
            find = getattr(finder, "find_spec", None) if finder is not self else None
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                return spec
        return None
