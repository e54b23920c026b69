# SPDX-License-Identifier: Apache-2.0
"""The table of programs: what exists, with which optimizers it differs in kind, on how many
threads. Imports nothing heavy, so that test collection costs nothing.
"""

from dataclasses import dataclass

ALL = ("sgd", "adam_foreach", "adamw_fused")
OWN = (None,)  # the program brings its own optimizer


@dataclass(frozen=True)
class Program:
    """One training program. `quick`: among those that the quick selection runs on a budget."""

    name: str
    optimizers: tuple = ("sgd",)
    threads: int = 1
    quick: bool = False
    package: str = "tests.oracle.programs"
    needs: tuple = ()  # importable names without which the program cannot run
    # What PyTorch imports while the program runs: an idle process to compare with imports it, too.
    loads: tuple = ()

    @property
    def module(self):
        return f"{self.package}.{self.name}"


PROGRAMS = (
    Program("attention_nmt", ("adam_foreach",)),
    Program("autocast_bf16", ("sgd",)),
    Program("bidirectional_rnn", ("sgd",)),
    Program("causal_gpt", ("adamw_fused", "sgd", "adam_foreach"), threads=2, quick=True),
    Program("checkpoint_nonreentrant", ("adam_foreach",)),
    Program("checkpoint_reentrant", ("sgd",), quick=True),
    Program("clip_grad_norm", ("sgd", "adam_foreach")),
    Program("compiled", ("sgd", "adam_foreach"), loads=("torch._inductor.compile_fx",)),
    Program("complex_fft", ("adam_foreach",)),
    Program("conv_bn_dropout", ALL, quick=True),
    Program("ctc_loss", ("sgd",)),
    Program("ctypes_pointer", ("sgd",)),
    Program("custom_function", ("sgd",)),
    Program("dataloader_workers", ("adam_foreach",), quick=True),
    Program("deepcopy_midrun", ("adam_foreach", "adamw_fused")),
    Program("dlpack_exchange", ("sgd",)),
    Program("double_backward", ("sgd",)),
    Program("dynamic_int8", ("sgd",)),
    Program("ema_deepcopy", ("adamw_fused",)),
    Program("embedding_bag", ("adam_foreach",)),
    Program("evaluation_between", ("sgd",)),
    Program("exceptions_midstep", ("adam_foreach",), quick=True),
    Program("fake_quant", ("sgd",)),
    Program("from_numpy", ("sgd",)),
    Program("functional_call", OWN),
    Program("functional_in_place", OWN),
    Program("gan", ("adam_foreach", "adamw_fused"), quick=True),
    Program("generators_closures", ("sgd",)),
    Program("gnn_scatter", ("adam_foreach",)),
    Program("gradient_accumulation", ("adamw_fused",)),
    Program("gradient_penalty", ("adam_foreach",)),
    Program("gru_packed", ("sgd",)),
    Program("hooks", ("sgd",)),
    Program("in_place_ops", ("sgd",), quick=True),
    Program("lbfgs", OWN),
    Program("lstm", ALL, quick=True),
    Program("memory_mapped_load", ("sgd",)),
    Program("mixture_of_experts", ("adam_foreach",)),
    Program("nested_strided", ("sgd",)),
    Program("nested_tensors", ("sgd",)),
    Program("numpy_view_held", ("sgd",), quick=True),
    Program("per_sample_grads", OWN),
    Program("pickling", ("adam_foreach",)),
    Program("python_elements", ("sgd",)),
    Program("python_threads", ("sgd", "adam_foreach")),
    Program("quantised_tensors", ("adam_foreach",)),
    Program("residual", ALL, threads=2),
    Program("resize_storage", ("sgd",)),
    Program("save_load", ("adam_foreach", "adamw_fused"), quick=True),
    Program("save_on_cpu", ("sgd",)),
    Program("scripted", ("sgd",)),
    Program("set_storage", ("sgd",)),
    Program("shared_memory", ("sgd",)),
    Program("sparse_adam", OWN),
    Program("state_dict_every_step", ("adam_foreach",)),
    Program("swa_scheduler", ("sgd",)),
    Program("transformer_encoder", ALL),
    Program("unet3d", ("adam_foreach",)),
    Program("views_of_views", ("sgd",), quick=True),
    Program("weight_norm", ("adam_foreach",)),
    Program("weight_tying", ("adamw_fused",)),
    Program("wide_mlp", ALL),
)


# Train on a graphics card, and hold in CPU memory what is named: tests/gpu.
ON_A_CARD = tuple(
    Program(name, optimizers, package="tests.gpu.programs")
    for name, optimizers in (
        ("embedding_on_cpu", ("adam_foreach",)),
        ("graph_replay", OWN),
        ("layers_from_cpu", ("adamw_fused",)),
        ("loader_and_scaler", ("sgd",)),
        ("optimizer_on_cpu", ("sgd", "adam_foreach")),
        ("recurrent_ctc", ("sgd",)),
        ("registered_memory", OWN),
        ("saved_and_loaded", ("adam_foreach",)),
    )
)


def find(name):
    """The program or family of that name. Raises KeyError naming what exists."""
    for program in PROGRAMS + FAMILIES + ON_A_CARD:
        if program.name == name:
            return program
    known = ", ".join(p.name for p in PROGRAMS + FAMILIES + ON_A_CARD)
    raise KeyError(f"no program named {name!r}; there are: {known}")


def _family(name, *needs, optimizers=("sgd",), threads=1):
    return Program(name, optimizers, threads, False, "tests.oracle.families", needs)


FAMILIES = (
    _family("torchvision_resnet18", "torchvision"),
    _family("torchvision_fcn", "torchvision"),
    _family("torchvision_deeplabv3", "torchvision", optimizers=("adam_foreach",)),
    _family("torchvision_ssdlite", "torchvision"),
    _family("transformers_gpt2", "transformers", optimizers=("adamw_fused",)),
    _family("transformers_pretrained", "transformers", optimizers=("adam_foreach",)),
    _family("transformers_bert", "transformers", optimizers=("adam_foreach",)),
    _family("transformers_t5", "transformers", optimizers=("adamw_fused",)),
    _family("transformers_vit", "transformers", optimizers=("sgd",), threads=2),
    _family("monai_unet", "monai", optimizers=("adam_foreach",)),
    _family("monai_basic_unet", "monai", optimizers=("sgd",)),
)
