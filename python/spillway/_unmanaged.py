# SPDX-License-Identifier: Apache-2.0
"""Says on standard error, once for each kind, what of a TensorFlow program stays unmanaged.

Called where TensorFlow is managed, by what opens the plugin. Nothing of TensorFlow is imported for
it. Keras compiles with XLA by itself where there is a graphics card; that is kept off, since
nothing in a compiled function can move.
"""

import functools
import os
import re
import sys
import threading
from types import ModuleType

from spillway import _card
from spillway._imports import when_imported

_COMPILED = (
    "a function with jit_compile=True is compiled by XLA: nothing in it moves. Leave it out "
    "(Keras: compile(jit_compile=False))."
)
_CLUSTERS = (
    "XLA is asked to compile what it finds together in a graph. What that is depends on what "
    "Spillway adds, so last bits may differ from the program's without it, and nothing in there "
    "moves. Leave out --tf_xla_auto_jit of TF_XLA_FLAGS and tf.config.optimizer.set_jit."
)
_LOOP = (
    "what a loop of TensorFlow keeps for its backward pass lies in lists that stay in memory. "
    "Unroll it where memory is short (Keras: unroll=True)."
)
_TAPE = (
    "what a gradient tape outside of every tf.function keeps for gradients stays in memory. Put "
    "the whole step, tape and gradients, into one tf.function."
)
_EAGER = (
    "a Keras model with run_eagerly=True has no graph of its step, so only variables leave. Leave "
    "it out."
)
_NO_REWRITING = (
    "TensorFlow's optimizers of graphs are switched off by disable_meta_optimizer, and so is what "
    "Spillway adds to graphs: only variables leave. Leave it out."
)

_POLYMORPHIC = "tensorflow.python.eager.polymorphic_function."

_lock = threading.Lock()
_said: set[str] = set()
_watching = False


def watch() -> None:
    """Looks out for all of it. Calling it again changes nothing."""
    global _watching
    if _watching:
        return
    _watching = True
    _watch_clusters()
    when_imported(_POLYMORPHIC + "polymorphic_function", _watch_compiled)
    when_imported(_POLYMORPHIC + "concrete_function", _watch_tapes)
    when_imported("tensorflow.python.eager.context", _watch_optimizers)
    when_imported("tensorflow.python.eager.backprop", _watch_eager_tapes)
    when_imported("tensorflow.python.client.session", _watch_sessions)
    when_imported("tensorflow.python.ops.while_v2", _watch_loops)
    when_imported("tensorflow.python.ops.control_flow_state", _watch_loops_of_v1)
    when_imported("keras.src.trainers.trainer", _watch_trainers)
    if _card.is_asked_for():
        _card.watch()
    else:
        _card.watch_for_one()


def _say(text: str) -> None:
    with _lock:
        if text in _said:
            return
        _said.add(text)
    print(f"spillway: {text}", file=sys.stderr, flush=True)


def _watch_compiled(module: ModuleType) -> None:
    initialize = module.Function._initialize

    @functools.wraps(initialize)
    def watched(self, *args, **kwargs):
        if self._jit_compile:
            _say(_COMPILED)
        return initialize(self, *args, **kwargs)

    module.Function._initialize = watched


def _watch_clusters() -> None:
    """Clusters of a graph on a processor have to be asked for by a flag besides."""
    flags = os.environ.get("TF_XLA_FLAGS", "")
    on_processors = re.search(r"tf_xla_cpu_global_jit(?!=false|=0)", flags)
    if not on_processors and not _card.is_asked_for():
        return
    if re.search(r"tf_xla_auto_jit=(?!-1|0|single-gpu)", flags):
        _say(_CLUSTERS)
    when_imported("tensorflow.python.eager.context", _watch_set_jit)


def _watch_set_jit(module: ModuleType) -> None:
    """TensorFlow sets this for tf.config.optimizer.set_jit."""
    jit = module.Context.optimizer_jit

    def watched(self, asked):
        if asked:
            _say(_CLUSTERS)
        jit.fset(self, asked)

    module.Context.optimizer_jit = jit.setter(watched)


def _watch_tapes(module: ModuleType) -> None:
    concrete = module.ConcreteFunction
    select = concrete._select_forward_and_backward_functions

    @functools.wraps(select)
    def watched(self, args, possible_gradient_type, executing_eagerly):
        chosen = select(self, args, possible_gradient_type, executing_eagerly)
        if executing_eagerly and possible_gradient_type:
            _say(_TAPE)
        return chosen

    concrete._select_forward_and_backward_functions = watched


def _watch_eager_tapes(module: ModuleType) -> None:
    """Tapes that saw no function, too."""
    gradient = module.GradientTape.gradient

    @functools.wraps(gradient)
    def watched(self, *args, **kwargs):
        # TensorFlow has tapes of its own, for tf.py_function, which are in a graph.
        asked_by = sys._getframe(1).f_globals.get("__name__", "")
        of_program = not asked_by.startswith("tensorflow.")
        if of_program and module.context.executing_eagerly() and _EAGER not in _said:
            _say(_TAPE)
        return gradient(self, *args, **kwargs)

    module.GradientTape.gradient = watched


def _watch_sessions(module: ModuleType) -> None:
    """Sessions of tf.compat.v1 have a configuration of their own."""
    init = module.BaseSession.__init__

    @functools.wraps(init)
    def watched(self, target="", graph=None, config=None):
        init(self, target, graph, config)
        if config and config.graph_options.rewrite_options.disable_meta_optimizer:
            _say(_NO_REWRITING)

    module.BaseSession.__init__ = watched


def _watch_optimizers(module: ModuleType) -> None:
    """TensorFlow sets these for tf.config.optimizer.set_experimental_options."""
    set_options = module.Context.set_optimizer_experimental_options

    @functools.wraps(set_options)
    def watched(self, options):
        if options.get("disable_meta_optimizer"):
            _say(_NO_REWRITING)
        return set_options(self, options)

    module.Context.set_optimizer_experimental_options = watched


def _watch_loops(module: ModuleType) -> None:
    create = module._create_grad_func

    @functools.wraps(create)
    def watched(*args, **kwargs):
        created = create(*args, **kwargs)
        # True where something of the forward pass is accumulated.
        if created[0].while_op_needs_rewrite:
            _say(_LOOP)
        return created

    module._create_grad_func = watched


def _watch_loops_of_v1(module: ModuleType) -> None:
    """Loops after disable_v2_behavior: what they accumulate lies on stacks."""
    state = module._GradLoopState
    accumulate = state.AddForwardAccumulator

    @functools.wraps(accumulate)
    def watched(self, value, dead_branch=False):
        if value.shape.rank != 0:  # a counter or a predicate
            _say(_LOOP)
        return accumulate(self, value, dead_branch)

    state.AddForwardAccumulator = watched


def _watch_trainers(module: ModuleType) -> None:
    _compile_nothing_unasked(module)
    _watch_eager_models(module)


def _compile_nothing_unasked(module: ModuleType) -> None:
    """Keras asks this for jit_compile="auto", its default."""
    module.Trainer._resolve_auto_jit_compile = lambda model: False


def _watch_eager_models(module: ModuleType) -> None:
    compile_ = module.Trainer.compile

    @functools.wraps(compile_)
    def watched(self, *args, **kwargs):
        compile_(self, *args, **kwargs)
        if self.run_eagerly:
            _say(_EAGER)

    module.Trainer.compile = watched
