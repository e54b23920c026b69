# SPDX-License-Identifier: Apache-2.0
"""Tells the recorder what tensors are for and which module is running."""

import threading
import weakref
from collections.abc import Callable

import torch
from torch.optim.optimizer import (
    register_optimizer_step_post_hook,
    register_optimizer_step_pre_hook,
)
from torch.utils.weak import WeakIdKeyDictionary

from spillway._library import Library
from spillway._storages import storage_of


class Watch:
    """Global hooks on modules and optimizers, from `install` to `remove`."""

    def __init__(self, library: Library) -> None:
        self._library = library
        #: Describe tensors with data too.
        self.with_data = False
        # Weak: what the program drops must go, and a step of a GAN has several models.
        self._names: weakref.WeakKeyDictionary[torch.nn.Module, str] = weakref.WeakKeyDictionary()
        self._parameters = WeakIdKeyDictionary()  # names
        self._running = threading.local()
        self._handles: list = []
        #: Called when the outermost step of any optimizer has ended.
        self.after_optimizer: Callable[[torch.optim.Optimizer], None] = lambda optimizer: None

    def install(self) -> None:
        modules = torch.nn.modules.module
        self._handles = [
            modules.register_module_forward_pre_hook(self._enter),
            modules.register_module_forward_hook(self._leave, always_call=True),
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []

    def describe_gradients(self) -> None:
        """Those of every parameter: no other thread may run a backward pass meanwhile."""
        for parameter in list(self._parameters):
            self._describe_gradient(parameter)

    def _describe_gradient(self, parameter: torch.Tensor) -> None:
        if parameter.grad is not None:
            self._describe(parameter.grad, "gradient", f"{self._parameters[parameter]}.grad")

    # Modules

    def _enter(self, module: torch.nn.Module, arguments) -> None:
        if torch.compiler.is_compiling():
            return  # a traced call is one op, and its hooks would break the graph
        stack = self._stack()
        if module not in self._names:
            self._learn(module)
        stack.append(self._names[module])
        self._library.record_module(stack[-1])

    def _leave(self, module: torch.nn.Module, arguments, result) -> None:
        if torch.compiler.is_compiling():
            return
        stack = self._stack()
        if stack:  # else it began before this was installed
            stack.pop()
        self._library.record_module(stack[-1] if stack else "")

    def _stack(self) -> list[str]:
        if not hasattr(self._running, "stack"):
            self._running.stack = []
        return self._running.stack

    def _learn(self, root: torch.nn.Module) -> None:
        for name, module in root.named_modules():
            self._names.setdefault(module, name or type(root).__name__)
        for name, parameter in root.named_parameters():
            self._learn_parameter(parameter, name)
        for name, buffer in root.named_buffers():
            self._describe(buffer, "parameter", name)

    def _learn_parameter(self, parameter: torch.Tensor, name: str) -> None:
        if parameter in self._parameters:
            return
        self._parameters[parameter] = name
        self._describe(parameter, "parameter", name)

    # Optimizers

    def _before_optimizer(self, optimizer: torch.optim.Optimizer, arguments, keywords) -> None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                name = f"parameter {len(self._parameters)}"
                self._learn_parameter(parameter, name)
                self._describe_gradient(parameter)

    def _after_optimizer(self, optimizer: torch.optim.Optimizer, arguments, keywords) -> None:
        for parameter, state in optimizer.state.items():
            name = self._parameters.get(parameter, "parameter")
            for key, value in state.items():
                if isinstance(value, torch.Tensor):
                    self._describe(value, "optimizer_state", f"{name}.{key}")
        self.after_optimizer(optimizer)

    def _describe(self, tensor: torch.Tensor, role: str, name: str) -> None:
        if not (tensor.is_meta or self.with_data) or tensor.layout != torch.strided:
            return
        storage = storage_of(tensor)  # none of a function transform's wrapper
        if storage is None:
            return
        self._library.record_storage(storage, role, name)
