# SPDX-License-Identifier: Apache-2.0
"""The programs by name. Reading it needs no TensorFlow.

A row says what a program is, and how it is trained.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Loop:
    """A function of loops.py, of the row's name."""


@dataclass(frozen=True)
class Fit:
    """One Keras model and one `fit`: a function of models.py, its arguments, and the training."""

    model: str
    arguments: tuple = ()
    data: str = "classified"
    shape: tuple = ()
    batch: int = 64
    optimizer: str = "adam"
    loss: str = "cross_entropy"
    options: dict = field(default_factory=dict)
    epochs: int = 3


PROGRAMS = {
    "mlp": Fit("mlp", shape=(2048, 8, 8, 3), batch=1024),
    # The last batch is smaller than the others, so the batch is open in the graph.
    "cnn": Fit("cnn", shape=(200, 24, 24, 3), optimizer="sgd"),
    # Three steps in one call: the step lies in a loop, and in a branch within it.
    "cnn_in_loop": Fit(
        "cnn", (6, 16), shape=(200, 24, 24, 3), optimizer="sgd", options={"steps_per_execution": 3}
    ),
    "lstm": Fit("lstm", (True,), shape=(256, 20, 32), batch=128, optimizer="rmsprop"),
    "dynamic_lstm": Fit("lstm", (False,), shape=(256, 20, 32), batch=128),
    "custom_loop": Loop(),
    "gan": Loop(),
}
