"""Small trainings over real packages, for their output. Run by ``record.py`` with the Python that has the packages.

Each tells the truth beside it: ``TRUTH`` names a file to which it writes how many of its steps are done. Sleeps stand
in for the work: nothing here is measured.
"""

from __future__ import annotations

import logging
import os
import sys
import time
from collections.abc import Callable
from typing import Any

STEP_S = float(os.environ.get("STEP_S", "0.04"))
PROGRAMS: dict[str, Callable[[], None]] = {}


def program(function: Callable[[], None]) -> Callable[[], None]:
    PROGRAMS[function.__name__] = function
    return function


class Truth:
    def __init__(self, total: int) -> None:
        self.done, self.total = 0, total
        self.file = open(os.environ["TRUTH"], "w")  # noqa: SIM115

    def step(self) -> None:
        time.sleep(STEP_S)
        self.done += 1
        self.file.write(f"{time.time():.3f} {self.done / self.total:.5f}\n")
        self.file.flush()


def rest(steps: int) -> None:
    time.sleep(STEP_S * steps)


# tqdm


@program
def tqdm_plain() -> None:
    from tqdm import tqdm

    truth = Truth(300)
    for _ in tqdm(range(300)):
        truth.step()


@program
def tqdm_loss() -> None:
    from tqdm.auto import tqdm

    truth = Truth(300)
    bar = tqdm(range(300), desc="Steps")
    for n in bar:
        truth.step()
        bar.set_postfix(loss=1 / (n + 1), lr=0.001)


@program
def tqdm_nested() -> None:
    from tqdm import tqdm

    truth = Truth(300)
    for _ in tqdm(range(10), desc="epochs"):
        for _ in tqdm(range(30), desc="batches", leave=False):
            truth.step()


@program
def tqdm_epoch_of() -> None:
    from tqdm import tqdm

    truth = Truth(300)
    for epoch in range(1, 7):
        bar = tqdm(range(50), desc=f"Epoch {epoch}/6", unit="batch")
        for n in bar:
            truth.step()
            bar.set_postfix(loss=1 / (n + 1))


@program
def tqdm_with_validation() -> None:
    from tqdm import tqdm

    truth = Truth(300)
    for epoch in range(6):
        for _ in tqdm(range(50), desc=f"Epoch {epoch + 1}/6 [train]"):
            truth.step()
        for _ in tqdm(range(20), desc="Validation"):
            rest(1)


@program
def tqdm_after_map() -> None:
    from tqdm import tqdm

    for _ in tqdm(range(2000), desc="Map", unit=" examples"):
        time.sleep(0.001)
    truth = Truth(300)
    with tqdm(total=300, desc="Training") as bar:
        for n in range(300):
            truth.step()
            bar.update(1)
            if n % 100 == 99:
                bar.write(f"step {n + 1}: loss 0.5")


@program
def tqdm_ascii_scaled() -> None:
    from tqdm import tqdm

    truth = Truth(300)
    for _ in tqdm(range(3000), ascii=True, unit_scale=True, mininterval=0.1):
        if _ % 10 == 0:
            truth.step()


@program
def tqdm_unlabelled_before() -> None:
    from tqdm import tqdm

    for _ in tqdm(range(100)):
        time.sleep(0.02)
    truth = Truth(300)
    for _ in tqdm(range(300)):
        truth.step()


# Hugging Face


def tiny_trainer(**arguments: Any) -> Any:
    import torch
    from transformers import Trainer, TrainerCallback, TrainingArguments

    class Rows(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 240

        def __getitem__(self, n: int) -> dict[str, Any]:
            return {"x": torch.randn(4), "labels": torch.randn(1)}

    class Tiny(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            out = self.layer(x)
            return {"loss": ((out - labels) ** 2).mean(), "logits": out}

    class Tells(TrainerCallback):
        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.truth = Truth(state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.truth.step()

    defaults = {"output_dir": "/tmp/out", "report_to": [], "per_device_train_batch_size": 4, "use_cpu": True}
    settings = TrainingArguments(**(defaults | {"save_strategy": "no", "logging_steps": 20} | arguments))
    return Trainer(model=Tiny(), args=settings, train_dataset=Rows(), eval_dataset=Rows(), callbacks=[Tells()])


@program
def trainer_epochs() -> None:
    tiny_trainer(num_train_epochs=5, eval_strategy="epoch").train()


@program
def trainer_steps() -> None:
    tiny_trainer(max_steps=300, eval_strategy="steps", eval_steps=75).train()


@program
def trainer_no_bar() -> None:
    from transformers.utils import logging as words

    words.set_verbosity_info()
    tiny_trainer(num_train_epochs=5, disable_tqdm=True, logging_steps=5).train()


@program
def trainer_long_steps() -> None:
    tiny_trainer(max_steps=400, logging_steps=1).train()


@program
def accelerate_loop() -> None:
    import torch
    from accelerate import Accelerator
    from accelerate.logging import get_logger
    from tqdm.auto import tqdm

    logging.basicConfig(format="%(asctime)s - %(levelname)s - %(name)s - %(message)s", level=logging.INFO)
    accelerator = Accelerator(cpu=True)
    said = get_logger(__name__)
    model = torch.nn.Linear(4, 1)
    model = accelerator.prepare(model)
    said.info("***** Running training *****")
    said.info("  Num examples = 1200")
    said.info("  Num Epochs = 5")
    said.info("  Total optimization steps = 300")
    truth = Truth(300)
    bar = tqdm(range(300), disable=not accelerator.is_local_main_process)
    for _ in range(5):
        for _ in range(60):
            model(torch.randn(2, 4)).sum().backward()
            truth.step()
            bar.update(1)


# Lightning


def fit_lightning(**arguments: Any) -> None:
    import lightning
    import torch

    class Tiny(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(4, 1)

        def on_train_start(self) -> None:
            self.truth = Truth(int(self.trainer.estimated_stepping_batches))

        def training_step(self, batch: Any, _: int) -> Any:
            self.truth.step()
            loss = self.layer(batch[0]).pow(2).mean()
            self.log("train_loss", loss, prog_bar=True)
            return loss

        def validation_step(self, batch: Any, _: int) -> None:
            rest(1)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.01)

    rows = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(60, 4)), batch_size=1)
    few = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(10, 4)), batch_size=1)
    from lightning.pytorch.callbacks import TQDMProgressBar

    trainer = lightning.Trainer(
        callbacks=[TQDMProgressBar()],
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        log_every_n_steps=1,
        **arguments,
    )
    trainer.fit(Tiny(), rows, few)


@program
def lightning_one_epoch() -> None:
    fit_lightning(max_epochs=1, limit_val_batches=0)


@program
def lightning_epochs() -> None:
    """How many epochs there are is said nowhere in its output."""
    fit_lightning(max_epochs=5)


# Keras


def fit_keras(verbose: int | str, epochs: int = 5) -> None:
    os.environ["KERAS_BACKEND"] = "torch"
    import keras
    import numpy

    truth = Truth(60 * epochs)

    class Tells(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            truth.step()

    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer="sgd", loss="mse")
    x, y = numpy.random.rand(60, 4), numpy.random.rand(60, 1)
    model.fit(x, y, batch_size=1, epochs=epochs, validation_split=0.0, verbose=verbose, callbacks=[Tells()])


@program
def keras_bar() -> None:
    fit_keras(1)


@program
def keras_lines() -> None:
    fit_keras(2, epochs=12)


# What people print by hand: the forms of the tutorials


def loop(total: int, epochs: int, say: Callable[[int, int, int], str | None], end: str = "\n") -> None:
    truth, each = Truth(total), total // epochs
    for epoch in range(epochs):
        for n in range(each):
            truth.step()
            if line := say(epoch, n, each):
                print(line, end=end, flush=True)


@program
def epoch_and_step_in_brackets() -> None:
    loop(300, 5, lambda e, n, m: f"Epoch [{e + 1}/5], Step [{n + 1}/{m}], Loss: 0.5" if n % 5 == 4 else None)


@program
def step_of() -> None:
    loop(300, 1, lambda e, n, m: f"step {n + 1}/{m} | loss 0.5 | lr 1e-4" if n % 5 == 4 else None)


@program
def iteration_of() -> None:
    loop(300, 1, lambda e, n, m: f"iter {n + 1} of {m}: loss 0.5, time 20ms" if n % 5 == 4 else None)


@program
def steps_over_one_line() -> None:
    loop(300, 1, lambda e, n, m: f"Training step {n + 1}/{m} loss=0.5", end="\r")


@program
def megatron() -> None:
    loop(
        300,
        1,
        lambda e, n, m: (
            f" [2026-11-01 10:00:00] iteration {n + 1:8d}/{m:8d} | consumed samples: {n * 8:12d} | elapsed time per "
            f"iteration (ms): 40.0 | learning rate: 1.0E-04 | lm loss: 5.0E+00 | grad norm: 1.0 |"
            if n % 5 == 4
            else None
        ),
    )


@program
def epochs_counted_from_zero() -> None:
    """As the tutorial on transfer learning prints it."""

    def say(epoch: int, n: int, m: int) -> str | None:
        if n == 0:
            return f"Epoch {epoch}/49\n----------"
        return "train Loss: 0.5 Acc: 0.8\nval Loss: 0.6 Acc: 0.7\n" if n == m - 1 else None

    loop(300, 50, say)


@program
def epochs_at_their_end() -> None:
    loop(320, 40, lambda e, n, m: f"Epoch {e + 1}/40 - loss: 0.5 - val_loss: 0.6" if n == m - 1 else None)


@program
def epochs_in_a_log() -> None:
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    truth = Truth(300)
    for epoch in range(50):
        logging.info("epoch=%d/50 loss=%.3f", epoch + 1, 0.5)
        for _ in range(6):
            truth.step()


if __name__ == "__main__":
    PROGRAMS[sys.argv[1]]()
