"""Which framework a program is written with, and what to change in it for each kind of finding. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable

FRAMEWORKS = (
    ("lightning", re.compile(r"\b(?:from|import)\s+(?:pytorch_)?lightning\b")),
    ("trainer", re.compile(r"\b(?:from|import)\s+(?:trl|unsloth|axolotl)\b|\bTrainer\s*\(|\bTrainingArguments\b")),
    ("accelerate", re.compile(r"\b(?:from|import)\s+accelerate\b")),
    ("pytorch", re.compile(r"\b(?:from|import)\s+torch\b")),
)
"""The first that is found is meant: Lightning has a ``Trainer`` as well, and each brings PyTorch."""
NAMES = {
    "trainer": "Hugging Face Trainer",
    "lightning": "Lightning",
    "accelerate": "Accelerate",
    "pytorch": "PyTorch",
    "": "no framework that is known",
}

_ALL = {
    "does_not_resume": "read the file at the checkpoint path at the start, and begin at the step after the one in it",
    "work_done_twice": "save more often, and begin at the step of the newest save, not at its epoch",
    "torn": "write to a second file and rename it with os.replace, or report whole saves by autopilot.checkpoint.saved",
    "sigterm_save": "save in the loop, not in the handler, and no more than fits in five seconds; do not count on it",
    "outputs_overwritten": 'open outputs with "a" after a resume, and cut off what lies beyond its first step',
    "jump_at_the_seam": "save and load what is usually left out: optimizer, scheduler, sampler, all seeds",
    "fails": "correct the program first: it ends with an error without any loss",
}
_OF_FRAMEWORK = {
    ("does_not_resume", "trainer"): "autopilot.training.train(trainer) in the place of trainer.train()",
    ("does_not_resume", "lightning"): "autopilot.training.fit(trainer, module, data) in the place of trainer.fit(...)",
    ("does_not_resume", "pytorch"): "for step in autopilot.training.steps(total, model=model, optimizer=optimizer)",
    ("work_done_twice", "trainer"): 'save_strategy="steps" with smaller save_steps, and no ignore_data_skip',
    ("work_done_twice", "lightning"): "ModelCheckpoint(every_n_train_steps=..., save_last=True)",
    ("torn", "trainer"): "leave saving to the Trainer: its directories are whole once they have their name",
    ("jump_at_the_seam", "trainer"): "leave save_only_model off: optimizer, scheduler and generators belong to a save",
    ("jump_at_the_seam", "lightning"): "leave save_weights_only off, and use a loader with state_dict()",
    ("jump_at_the_seam", "accelerate"): "register_for_checkpointing for the scheduler, and skip_first_batches",
}


def recognise(sources: Iterable[str]) -> str:
    """The framework, by its name in ``NAMES``."""
    texts = list(sources)
    return next((name for name, pattern in FRAMEWORKS if any(pattern.search(text) for text in texts)), "")


def advise(kind: str, framework: str) -> str:
    return _OF_FRAMEWORK.get((kind, framework)) or _ALL[kind]
