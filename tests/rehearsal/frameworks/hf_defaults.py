"""Hugging Face's Trainer with its own bar and logs, the newest save alone kept, resumed as its guide says: sound."""

import os
import time

from hf_parts import Model
from parts import STEP_S, make_rows
from transformers import Trainer, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class HalfSecondTrainer(Trainer):
    def training_step(self, *args: object, **kwargs: object) -> object:
        time.sleep(STEP_S)
        return super().training_step(*args, **kwargs)


settings = TrainingArguments(
    "out", per_device_train_batch_size=256, num_train_epochs=60, save_steps=8, logging_steps=2, save_total_limit=1,
    learning_rate=1e-3, report_to=[], use_cpu=True,
)  # fmt: skip
trainer = HalfSecondTrainer(Model(), settings, train_dataset=[{"inputs": row} for row in make_rows()])
trainer.train(resume_from_checkpoint=get_last_checkpoint("out") if os.path.isdir("out") else None)
