"""Hugging Face's Trainer: python hf.py WAY.

Sound: ``newest`` (whole, the highest number), ``one_kept`` (the same with save_total_limit=1). At fault: ``anew`` never
resumes, ``by_name`` takes the last by its name, in whose order 5 comes after 45, ``doubled`` appends to a table whose
rows lie beyond the save as well.
"""

import glob
import json
import os
import sys

from hf_parts import make_trainer
from transformers import TrainerCallback

WAY = sys.argv[1]


class Table(TrainerCallback):
    def on_log(self, args: object, state: object, control: object, logs: dict, **_: object) -> None:
        if "loss" in logs:
            with open("metrics.jsonl", "a") as file:
                file.write(json.dumps({"step": state.global_step, "loss": logs["loss"]}) + "\n")


def number_of(place: str) -> int:
    return int(place.rpartition("-")[2])


whole = [place for place in glob.glob("out/checkpoint-*") if os.path.exists(f"{place}/trainer_state.json")]
newest = max(whole, key=None if WAY == "by_name" else number_of, default=None)
trainer = make_trainer(**({"save_total_limit": 1} if WAY == "one_kept" else {}))
if WAY == "doubled":
    trainer.add_callback(Table())
trainer.train(resume_from_checkpoint=None if WAY == "anew" else newest)
