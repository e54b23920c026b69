# SPDX-License-Identifier: Apache-2.0
"""The programs by name. Reading it needs no TensorFlow.

A row says what a program is, and how it is trained.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class Row:
    swaps: bool = True  # False: only its variables can leave, as docs/tensorflow.md says
    package: str = "keras"  # which it is left out without


@dataclass(frozen=True)
class Loop(Row):
    """A function of loops.py, of the row's name."""


@dataclass(frozen=True)
class Fit(Row):
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
    policy: str = "float32"


PROGRAMS = {
    "mlp": Fit("mlp", shape=(2048, 8, 8, 3), batch=1024),
    # The last batch is smaller than the others, so the batch is open in the graph.
    "cnn": Fit("cnn", shape=(200, 24, 24, 3), optimizer="sgd"),
    # Three steps in one call: the step lies in a loop, and in a branch within it.
    "cnn_in_loop": Fit(
        "cnn", (6, 16), shape=(200, 24, 24, 3), optimizer="sgd", options={"steps_per_execution": 3}
    ),
    "resnet": Fit("resnet", shape=(160, 16, 16, 3), optimizer="adamw"),
    "unet_2d": Fit("unet", (2, 32), data="segmented", shape=(40, 32, 32), batch=16),
    "unet_3d": Fit(
        "unet", (3, 16), data="segmented", shape=(10, 16, 16, 16), batch=4, optimizer="adamw"
    ),
    "lstm": Fit("lstm", (True,), shape=(256, 20, 32), batch=128, optimizer="rmsprop"),
    "dynamic_lstm": Fit("lstm", (False,), shape=(256, 20, 32), batch=128),
    "conv_lstm": Fit("conv_lstm", shape=(40, 6, 16, 16, 2), batch=16, optimizer="rmsprop"),
    "translation": Fit("translation", data="translated", shape=(320, 12), batch=128),
    "mixture_of_experts": Fit("mixture_of_experts", data="continued", shape=(72, 32), batch=32),
    "transformer": Fit(
        "transformer", data="continued", shape=(72, 32), batch=32, optimizer="adamw"
    ),
    "vae": Fit("vae", data="reproduced", shape=(200, 16, 16, 1), loss="mse"),
    "half_precision": Fit("resnet", shape=(96, 16, 16, 3), policy="mixed_bfloat16"),
    # Products in half precision are slow on a processor.
    "scaled_half_precision": Fit(
        "mlp", shape=(200, 8, 8, 3), batch=96, policy="mixed_float16", optimizer="sgd", epochs=2
    ),
    "custom_loop": Loop(),
    "gan": Loop(),
    "graph_network": Loop(),
    "custom_train_step": Loop(),
    "until_no_data": Loop(),
    "mixed_batches": Loop(),
    "recomputed": Loop(),
    "saved_and_resumed": Loop(),
    "session": Loop(),
    "mirrored": Loop(),
    "keras_2": Loop(package="tf_keras"),
    "eager": Loop(swaps=False),
}
