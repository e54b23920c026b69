# SPDX-License-Identifier: Apache-2.0
"""A budget of a graphics card in a TensorFlow program: the limit, and variables in host memory.

TensorFlow keeps to a limit of its own on a card, which is that of a logical device and has to be
set before the first one is there. So it is set at the last moment, when the program has said what
it wants of its devices.

Variables are made before any graph is, where they stay for good. Those that the program makes
without naming a device are made on the processor.

Called where TensorFlow is managed, by what opens the plugin.
"""

import functools
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from spillway._imports import when_imported
from spillway._native import UserError, names_no_device

#: Where variables lie.
HOST = "/device:CPU:0"

_MIB = 1 << 20
_CONTEXT = "tensorflow.python.eager.context"
_TRACED = "tensorflow.python.eager.polymorphic_function.polymorphic_function"


def is_asked_for() -> bool:
    """Whether SPILLWAY_BUDGET is of a card: ``cuda:8GiB``."""
    device, colon, _ = os.environ.get("SPILLWAY_BUDGET", "").partition(":")
    return bool(colon) and device.strip() == "cuda"


def watch() -> None:
    when_imported(_CONTEXT, lambda module: before_the_first_device(module, _limit_to_budget))
    when_imported("tensorflow.python.ops.variables", place_variables)
    when_imported("tensorflow.python.ops.variable_v1", place_variables)
    when_imported(_TRACED, place_variables_of_functions)


def watch_for_one() -> None:
    """Says, where TensorFlow has a card, that a budget which names none is the processor's."""
    if names_no_device(os.environ.get("SPILLWAY_BUDGET", "")):
        when_imported(_CONTEXT, lambda module: before_the_first_device(module, warn_of_cards))


def warn_of_cards(context: Any) -> None:
    from tensorflow.python.platform import build_info

    # A build for processors is asked nothing, so that its devices are found when they ever were.
    if build_info.build_info.get("is_cuda_build") and context.get_visible_devices("GPU"):
        print(
            "spillway: warning: in TensorFlow a budget that names no device is of the processor's "
            "memory, and the card's memory has no limit. Name one: SPILLWAY_BUDGET=cuda:8GiB, or "
            "cpu:8GiB",
            file=sys.stderr,
            flush=True,
        )


def limit(context: Any, budget: int) -> None:
    """Lets TensorFlow hold ``budget`` bytes on its first visible card.

    Args:
        context: TensorFlow's, which has made no device yet.

    Raises:
        UserError: there is no card, or the program lets it hold more.
    """
    from tensorflow.python.eager.context import LogicalDeviceConfiguration

    cards = context.get_visible_devices("GPU")
    if not cards:
        raise UserError(
            "SPILLWAY_BUDGET is of a card, and TensorFlow sees none: look at what "
            "tf.config.list_physical_devices('GPU') and CUDA_VISIBLE_DEVICES say, or give the "
            "processor's budget, such as 8GiB"
        )
    wanted = context.get_logical_device_configuration(cards[0])
    if not wanted:
        limited = [LogicalDeviceConfiguration(memory_limit=budget // _MIB)]
        context.set_logical_device_configuration(cards[0], limited)
        return
    asked = sum(device.memory_limit for device in wanted)
    if asked * _MIB > budget:
        raise UserError(
            f"the program lets TensorFlow hold {asked} MiB on {cards[0].name}, more than "
            f"SPILLWAY_BUDGET ({budget // _MIB} MiB): leave its set_logical_device_configuration "
            "out, or give a larger budget"
        )


def _limit_to_budget(context: Any) -> None:
    from spillway import tensorflow

    managed = tensorflow.stats()
    if managed is not None:
        limit(context, managed["budget_bytes"])


def before_the_first_device(module: ModuleType, act: Callable[[Any], None]) -> None:
    """Calls ``act`` with TensorFlow's context just before it makes the first device.

    Args:
        module: ``tensorflow.python.eager.context``.
    """
    ensure = module.Context.ensure_initialized

    @functools.wraps(ensure)
    def acting(self: Any) -> None:
        if self._context_handle is None:
            act(self)
        ensure(self)
        module.Context.ensure_initialized = ensure

    module.Context.ensure_initialized = acting


def place_variables(module: ModuleType) -> None:
    """Has the module make variables on HOST unless a device is named.

    ``tensorflow.python.ops.variables`` makes those of ``tf.Variable``, ``variable_v1`` beside it
    those of ``tf.compat.v1.Variable``, which Keras 2 has.
    """
    for name in ("default_variable_creator_v2", "default_variable_creator"):
        if hasattr(module, name):
            setattr(module, name, _placing(getattr(module, name)))


def place_variables_of_functions(module: ModuleType) -> None:
    """The same for variables that a ``tf.function`` makes while it is traced.

    Optimizer state of Keras is among them. A function has a device of its own only where it names
    one inside.
    """
    variable = module.UnliftedInitializerVariable
    make = variable.__init__

    @functools.wraps(make)
    def placed(self: Any, *values: Any, **options: Any) -> None:
        from tensorflow.python.framework import ops

        if _names_a_device():
            make(self, *values, **options)
            return
        with ops.device(HOST):
            make(self, *values, **options)

    variable.__init__ = placed


def _names_a_device() -> bool:
    from tensorflow.python.eager import context
    from tensorflow.python.framework import ops

    if context.executing_eagerly():
        return bool(context.context().device_name)
    return bool(ops.get_default_graph()._device_functions_outer_to_inner)


def _placing(create: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(create)
    def placed(next_creator: Any = None, **options: Any) -> Any:
        from tensorflow.python.eager import context
        from tensorflow.python.framework import ops

        if not context.executing_eagerly() or _names_a_device():
            return create(next_creator, **options)
        with ops.device(HOST):
            return create(next_creator, **options)

    return placed
