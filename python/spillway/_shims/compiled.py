# SPDX-License-Identifier: Apache-2.0
"""Graphs that inductor compiled, whose loops read and write tensors without any event."""

import functools
from collections.abc import Iterable

import torch

from spillway import _imports
from spillway._storages import in_frame, is_tensor


def install() -> None:
    """Wraps the calls of such graphs. To be called once."""
    _imports.when_imported("torch._inductor.output_code", _wrap_output_code)
    _wrap_packaged_models()


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
        with in_frame(b"compiled graph", _own_tensors(self), filter(is_tensor, inputs)):
            return original(self, inputs, *arguments, **keywords)

    owner.__call__ = call


def _own_tensors(graph) -> Iterable[torch.Tensor]:
    """Constants and frozen parameters, which the generated module holds by these names."""
    held = getattr(getattr(graph, "current_callable", None), "__globals__", {})
    for names in ("constants", "frozen_param_names"):
        for name in getattr(graph, names, None) or ():
            if is_tensor(held.get(name)):
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
        with in_frame(b"AOTInductor model", writes=filter(is_tensor, inputs)):
            return original(self, inputs, *arguments, **keywords)

    setattr(owner, name, run)
