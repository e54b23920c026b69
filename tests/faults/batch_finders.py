# SPDX-License-Identifier: Apache-2.0
"""How the batch finders in use tell an error that a smaller batch may mend.

Each is asked where it is installed. Otherwise a copy from its source, which is named, stands in:
our text has to contain the phrases.
"""

# accelerate 1.15.0, accelerate/utils/memory.py, should_reduce_batch_size; 0.21 has no first one.
_OF_ACCELERATE = (
    " out of memory.",
    "MPS backend out of memory",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.",
    "DefaultCPUAllocator: can't allocate memory",
    "FATAL ERROR :: MODULE:PT_DEVMEM Allocation failed",
)


def accelerate(error):
    try:
        from accelerate.utils.memory import should_reduce_batch_size
    except ImportError:
        return _is_plain(error) and any(phrase in error.args[0] for phrase in _OF_ACCELERATE)
    return should_reduce_batch_size(error)


def lightning(error):
    try:
        from pytorch_lightning.utilities.memory import is_oom_error
    except ImportError:
        # lightning 2.6.6, pytorch_lightning/utilities/memory.py, is_out_of_cpu_memory
        return _is_plain(error) and "DefaultCPUAllocator: can't allocate memory" in error.args[0]
    return is_oom_error(error)


def transformers(error):
    """transformers 5.23.0, trainer_utils.py: auto_find_batch_size is accelerate's finder."""
    return accelerate(error)


def _is_plain(error):
    return isinstance(error, RuntimeError) and len(error.args) == 1


FINDERS = {finder.__name__: finder for finder in (accelerate, lightning, transformers)}
