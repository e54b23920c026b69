# SPDX-License-Identifier: Apache-2.0
"""Ways to an array over a tensor's memory."""

import numpy
import torch
import torch.utils.dlpack


class Annotated(torch.Tensor):
    """As libraries have them: a tensor with notes."""


def of_a_subclass(tensor):
    return tensor.as_subclass(Annotated).numpy()


def of_what_requires_a_gradient(tensor):
    return tensor.requires_grad_().numpy(force=True)


def of_a_view(tensor):
    return tensor.as_subclass(Annotated)[5:].numpy(force=True)


def of_a_capsule(tensor):
    return Capsule(torch.utils.dlpack.to_dlpack(tensor[5:])).array()


def of_the_protocol(tensor):
    return numpy.from_dlpack(tensor.as_subclass(Annotated)[5:])


class Capsule:
    """An object as numpy takes it, that gives the capsule."""

    def __init__(self, capsule):
        self._capsule = capsule

    def __dlpack__(self, **_):
        return self._capsule

    def __dlpack_device__(self):
        return 1, 0

    def array(self):
        return numpy.from_dlpack(self)
