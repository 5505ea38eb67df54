"""Hugging Face's Trainer with a handler of SIGTERM: python hf_stops.py silent|saves. It stops, and saves or not."""

import os
import signal
import sys

from hf_parts import make_trainer
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint


class Stop(TrainerCallback):
    is_asked = False

    def on_step_end(self, args: object, state: object, control: object, **_: object) -> None:
        if self.is_asked:
            control.should_training_stop = True
            control.should_save = sys.argv[1] == "saves"


def on_sigterm(*_: object) -> None:
    stop.is_asked = True


stop = Stop()
trainer = make_trainer(save_steps=10)
trainer.add_callback(stop)
signal.signal(signal.SIGTERM, on_sigterm)
trainer.train(resume_from_checkpoint=get_last_checkpoint("out") if os.path.isdir("out") else None)
