# SPDX-License-Identifier: Apache-2.0
"""Programs that look for the batch that fits find one under a budget."""

import importlib.util

import pytest

from tests.faults.batch_finders import FINDERS
from tests.faults.in_child import in_child
from tests.faults.starter import activate


def needs(*packages):
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


def _train_at(batch):
    import torch

    x = torch.ones(batch, 1024)
    (x @ torch.ones(1024, 1024)).sum()


def _model(module):
    """A layer of 1024 by 1024 whose loss takes the features, 4 KiB per sample, as `x`."""
    import torch

    class Model(module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1024, 1024)

        def forward(self, x):
            return {"loss": self.layer(x).sum()}

    return Model


def _collate(samples):
    import torch

    return {"x": torch.ones(len(samples), 1024)}


@pytest.mark.parametrize("finder", FINDERS)
@in_child
def test_halving_ends_where_it_fits(finder):
    """4 MiB of weights and 4 KiB twice per sample: 512 fit 9 MiB, and 1024 do not."""
    activate(BUDGET="9MiB")
    batch = 4096
    while True:
        try:
            _train_at(batch)
            break
        except RuntimeError as error:
            assert FINDERS[finder](error), error
        batch //= 2
    assert batch == 512


@needs("accelerate")
@in_child
def test_accelerate():
    from accelerate.utils import find_executable_batch_size

    activate(BUDGET="9MiB")
    tried = []

    @find_executable_batch_size(
        starting_batch_size=4096, reduce_batch_size_fn=lambda: tried[-1] // 2
    )
    def train(batch_size):
        tried.append(batch_size)
        _train_at(batch_size)

    train()
    assert tried == [4096, 2048, 1024, 512]


@needs("accelerate", "transformers")
@in_child(timeout=200)
def test_the_trainer_of_transformers():
    """Weights, gradients and two moments are 16 MiB, which one op of fused AdamW uses."""
    import tempfile

    import torch
    from transformers import Trainer, TrainingArguments

    activate(BUDGET="24MiB")
    seen = []

    class Seen(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = _model(torch.nn.Module)()

        def forward(self, x):
            seen.append(len(x))
            return self.model(x)

    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            folder,
            auto_find_batch_size=True,
            per_device_train_batch_size=8192,
            max_steps=1,
            use_cpu=True,
            report_to=[],
            save_strategy="no",
            remove_unused_columns=False,
        )
        Trainer(Seen(), arguments, train_dataset=list(range(8192)), data_collator=_collate).train()
    # x and what becomes of it are 8 KiB per sample, beside 4 MiB of weights.
    assert seen and seen[-1] <= 20 * 128, seen


@needs("pytorch_lightning")
@in_child(timeout=200)
def test_the_batch_finder_of_lightning():
    import tempfile

    import pytorch_lightning as lightning
    import torch
    from pytorch_lightning.tuner.tuning import Tuner

    class Model(_model(lightning.LightningModule)):
        batch_size = 256

        def training_step(self, batch):
            return self(batch["x"])["loss"]

        def train_dataloader(self):
            return torch.utils.data.DataLoader(
                range(1 << 15), batch_size=self.batch_size, collate_fn=_collate
            )

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=1e-3)

    activate(BUDGET="24MiB")
    with tempfile.TemporaryDirectory() as folder:
        trainer = lightning.Trainer(
            max_epochs=1,
            accelerator="cpu",
            default_root_dir=folder,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
        )
        found = Tuner(trainer).scale_batch_size(Model(), init_val=256, steps_per_trial=1)
    assert 256 <= found <= 20 * 128, found
