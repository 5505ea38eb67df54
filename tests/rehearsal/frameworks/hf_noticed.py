"""Hugging Face's Trainer that saves when the agent asks and never else: python hf_noticed.py WITNESS.

Where it starts and which steps it does is written to WITNESS, where no machine's end reaches it.
"""

import sys

from hf_parts import make_trainer
from transformers import TrainerCallback

from autopilot import training


def tell(word: str, step: int) -> None:
    with open(sys.argv[1], "a") as file:
        file.write(f"{word} {step}\n")


class Witness(TrainerCallback):
    def on_train_begin(self, args: object, state: object, control: object, **_: object) -> None:
        tell("start", state.global_step)

    def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
        tell("step", state.global_step)


trainer = make_trainer(save_strategy="no")
trainer.add_callback(Witness())
training.train(trainer)
