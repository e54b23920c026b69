# SPDX-License-Identifier: Apache-2.0
"""Which programs of the oracle's catalog train on the stand-in card. The others were not tried yet,
but for those that cannot.
"""

CASES = [
    ("causal_gpt", "sgd"),
    ("clip_grad_norm", "sgd"),
    ("complex_fft", "adam_foreach"),
    ("conv_bn_dropout", "sgd"),
]
CANNOT = {
    "compiled": "Triton looks for libcuda.so where the loader's cache has it",
    "ctc_loss": "PyTorch asks cuDNN for it, which is no kernel of PyTorch's",
}
