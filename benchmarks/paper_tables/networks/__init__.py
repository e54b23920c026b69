# SPDX-License-Identifier: Apache-2.0
"""The networks of the papers, each as a function that makes one training step.

`build(name, **sizes)` returns the step. Called inside `spillway.without_memory()`, or by
`spillway.record_step`, the networks have sizes and no bytes.
"""

from collections.abc import Callable

from . import (
    convolutional,
    inception_v4,
    mixture,
    recurrent,
    segmentation,
    translation,
)

BUILDERS: dict[str, Callable[..., Callable[[], None]]] = {
    "resnet": convolutional.resnet,
    "resnet_layers": convolutional.resnet_layers,
    "inception_v3": convolutional.inception_v3,
    "inception_v4": inception_v4.inception_v4,
    "googlenet": convolutional.googlenet,
    "vgg": convolutional.vgg,
    "alexnet": convolutional.alexnet,
    "wide_resnet": convolutional.wide_resnet,
    "unet3d": segmentation.unet3d,
    "residual_unet3d": segmentation.residual_unet3d,
    "lstm_language_model": recurrent.lstm_language_model,
    "deep_speech": recurrent.deep_speech,
    "translation": translation.attention_translation,
    "mixture_of_experts": mixture.mixture_of_experts,
}


def build(name: str, **sizes: int) -> Callable[[], None]:
    """One training step of the network."""
    return BUILDERS[name](**sizes)
