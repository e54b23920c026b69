# SPDX-License-Identifier: Apache-2.0
"""Turns what a program returned into text that can be compared: losses as hexadecimal floats,
tensors as sha256 over their bytes, dtype and shape. Two results are equal exactly if every bit is.
"""

import hashlib
import math

import torch

_CHUNK_ELEMENTS = 1 << 20  # bounds the copy that hashing a strided tensor needs


def _update_dense(digest, tensor):
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if torch._is_zerotensor(tensor):  # zeros without memory, as tangents are
        tensor = tensor.clone()
    if tensor.numel() == 1:
        tensor = tensor.clone(memory_format=torch.contiguous_format).view(()).reshape(1)
    if tensor.is_contiguous():
        flat = tensor.reshape(-1)
        for start in range(0, flat.numel(), _CHUNK_ELEMENTS):
            digest.update(flat[start : start + _CHUNK_ELEMENTS].view(torch.uint8).numpy())
    elif tensor.dim() > 1 and tensor.numel() > _CHUNK_ELEMENTS:
        for row in tensor:
            _update_dense(digest, row)
    else:
        _update_dense(digest, tensor.contiguous())


def digest_tensor(tensor):
    """sha256 of dtype, shape and bytes, whatever the layout."""
    digest = hashlib.sha256()
    digest.update(f"{tensor.dtype} {tensor.layout} {_shape(tensor)}".encode())
    for part in _dense_parts(tensor.detach().cpu()):
        digest.update(f"{part.dtype} {tuple(part.shape)}".encode())
        _update_dense(digest, part)
    return digest.hexdigest()


def _shape(tensor):
    return "nested" if tensor.is_nested else tuple(tensor.shape)


def _dense_parts(tensor):
    if tensor.is_nested:
        return list(tensor.unbind())
    if tensor.is_quantized:
        return [tensor.int_repr()]
    if tensor.layout is torch.sparse_coo:
        tensor = tensor.coalesce()
        return [tensor.indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csr, torch.sparse_bsr):
        return [tensor.crow_indices(), tensor.col_indices(), tensor.values()]
    if tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        return [tensor.ccol_indices(), tensor.row_indices(), tensor.values()]
    if tensor.layout is torch._mkldnn:
        return [tensor.to_dense()]
    return [tensor]


def digest_result(result):
    """Losses in order and `group/name -> sha256`. Raises ValueError if nothing was trained."""
    losses = [float(loss) for loss in result["losses"]]
    if not losses or not result["weights"]:
        raise ValueError("the program returned no losses or no weights; nothing to compare")
    if not all(math.isfinite(loss) for loss in losses):
        raise ValueError(f"losses must be finite to be worth comparing, got {losses}")
    digests = {
        f"{group}/{name}": digest_tensor(tensor)
        for group, tensors in result.items()
        if group != "losses"
        for name, tensor in tensors.items()
    }
    return {"losses": [loss.hex() for loss in losses], "digests": digests}
