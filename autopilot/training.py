"""Trainings that save when autopilot asks, resume from their newest whole checkpoint, and report their progress.

    from autopilot import training

    training.train(trainer)                        # Hugging Face's Trainer, and what is built on it
    training.fit(trainer, module, data)            # Lightning
    for step in training.steps(1000, model=model, optimizer=optimizer):   # PyTorch
        ...

Optional, as ``autopilot.checkpoint`` is, on which it stands. Python 3.8 or newer; of the frameworks only the one that
is asked for is imported. The agent brings this same file to every machine, and it does the same at home.
"""

from __future__ import annotations

import glob
import json
import os
import random
import sys
from importlib import import_module
from typing import Any, Iterator  # noqa: UP035 -- Python 3.8 cannot subscript collections.abc.Iterator

from autopilot import checkpoint

PATTERN = "*?["
"""What makes a job's checkpoint path a pattern."""


def train(trainer: Any, **arguments: Any) -> Any:
    """``trainer.train(...)`` of Hugging Face's Trainer, from the newest whole checkpoint in its output directory.

    Returns what that returns. It saves whole directories itself; a save that was cut off in the middle is passed over.
    """
    trainer.add_callback(_make_trainer_callback())
    arguments.setdefault("resume_from_checkpoint", find_newest(trainer.args.output_dir))
    return trainer.train(**arguments)


def find_newest(directory: str) -> str | None:
    """The newest whole ``checkpoint-N`` there. The Trainer writes ``trainer_state.json`` last of all its files."""
    found = {}
    for place in glob.glob(os.path.join(glob.escape(directory), "checkpoint-*")):
        number = place.rpartition("-")[2]
        if number.isdigit() and _read_step(place) == int(number):
            found[int(number)] = place
    return found[max(found)] if found else None


def _read_step(place: str) -> Any:
    try:
        with open(os.path.join(place, "trainer_state.json")) as file:
            return json.load(file).get("global_step")
    except (OSError, ValueError, AttributeError):
        return None


def _make_trainer_callback() -> Any:
    parent: Any = import_module("transformers").TrainerCallback

    class SaveWhenAsked(parent):  # type: ignore[misc] # the framework's class is known only when it is asked for
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if state.is_world_process_zero:
                checkpoint.progress(state.global_step, state.max_steps)
            if agree(checkpoint.should_save()):
                control.should_save = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            report(os.path.join(args.output_dir, f"checkpoint-{state.global_step}"), state.global_step)

    return SaveWhenAsked()


def fit(trainer: Any, module: Any, data: Any = None, **arguments: Any) -> Any:
    """``trainer.fit(module, data, ...)`` of Lightning, from ``last.ckpt`` at the job's checkpoint path.

    Lightning writes that file aside and renames it. A plain ``DataLoader`` starts its epoch over after a resume; one
    with ``state_dict()`` (torchdata's ``StatefulDataLoader``) resumes exactly where it was.
    """
    place = find_file("last.ckpt")
    trainer.callbacks.append(_make_lightning_callback(trainer, place))
    arguments.setdefault("ckpt_path", place if os.path.exists(place) else None)
    return trainer.fit(module, data, **arguments)


def _make_lightning_callback(trainer: Any, place: str) -> Any:
    library = "pytorch_lightning" if type(trainer).__module__.startswith("pytorch_lightning") else "lightning.pytorch"
    parent: Any = import_module(library).Callback

    class SaveWhenAsked(parent):  # type: ignore[misc] # the framework's class is known only when it is asked for
        saved_at = -1

        def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
            if trainer.is_global_zero:
                total = trainer.estimated_stepping_batches
                checkpoint.progress(trainer.global_step, int(total) if 0 < total < float("inf") else None)
            is_due = checkpoint.should_save() or trainer.received_sigterm  # Lightning may handle SIGTERM itself
            if trainer.strategy.reduce_boolean_decision(is_due, all=False):
                self.save(trainer)

        def on_train_end(self, trainer: Any, *_: Any) -> None:
            if self.saved_at != trainer.global_step:
                self.save(trainer)

        def save(self, trainer: Any) -> None:
            trainer.save_checkpoint(place, weights_only=False)  # whole: the optimizer as well
            self.saved_at = trainer.global_step
            report(place, trainer.global_step)

    return SaveWhenAsked()


def steps(total: int, **parts: Any) -> Iterator[int]:
    """The numbers of the steps that are left of ``total``, for a loop over PyTorch.

    ``parts``: what has a ``state_dict()``, by name: model, optimizer, scheduler, scaler, sampler. They are loaded
    before the first step, with the seeds of Python, NumPy and PyTorch. They are saved after a step when a save is due,
    and after the last. Of several processes the first one saves, and all of them load what it saved; each keeps its own
    seeds.

    Raises ``TypeError`` for a part without a state, and ``KeyError`` for one that the checkpoint lacks.
    """
    for name, part in parts.items():
        if not hasattr(part, "state_dict") or not hasattr(part, "load_state_dict"):
            raise TypeError(f"{name} has no state_dict() and load_state_dict(): it cannot be saved")
    torch: Any = import_module("torch")
    place = find_file("steps.pt")
    for step in range(_load(torch, place, parts), total):
        yield step
        if is_first():
            checkpoint.progress(step + 1, total)
        if agree(checkpoint.should_save()) or step + 1 == total:
            if is_first():
                _save(torch, place, parts, step + 1)
            report(place, step + 1)


def find_file(name: str) -> str:
    """The file of that name at the job's checkpoint path, which may be a file, a directory or a pattern."""
    place = checkpoint.path("ckpt")
    if os.path.splitext(place)[1] == os.path.splitext(name)[1] and not set(PATTERN) & set(place):
        return place
    while set(PATTERN) & set(place):
        place = os.path.dirname(place)
    return os.path.join(place, name)


def _load(torch: Any, place: str, parts: dict[str, Any]) -> int:
    if not os.path.exists(place):
        return 0
    saved = torch.load(place, map_location="cpu", weights_only=True)  # what it holds never runs as code
    for name, part in parts.items():
        part.load_state_dict(saved["parts"][name])
    if not _has_others():
        _load_seeds(torch, saved["seeds"])
    return int(saved["step"])


def _save(torch: Any, place: str, parts: dict[str, Any], step: int) -> None:
    """Whole or not at all."""
    os.makedirs(os.path.dirname(place) or ".", exist_ok=True)
    body = {
        "step": step,
        "parts": {name: part.state_dict() for name, part in parts.items()},
        "seeds": _read_seeds(torch),
    }
    with open(place + ".tmp", "wb") as file:
        torch.save(body, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(place + ".tmp", place)


def _read_seeds(torch: Any) -> dict[str, Any]:
    seeds = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        seeds["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        kind, keys, *rest = numpy.random.get_state()
        seeds["numpy"] = [kind, keys.tolist(), *rest]
    return seeds


def _load_seeds(torch: Any, seeds: dict[str, Any]) -> None:
    random.setstate(seeds["python"])
    torch.set_rng_state(seeds["torch"])
    if "cuda" in seeds and len(seeds["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(seeds["cuda"])
    numpy = sys.modules.get("numpy")
    if "numpy" in seeds and numpy is not None:
        numpy.random.set_state(tuple(seeds["numpy"]))


def agree(is_due: bool) -> bool:
    """Whether any process of the training was told: they save together or not at all."""
    if not _has_others():
        return is_due
    torch = sys.modules["torch"]
    device = "cuda" if torch.distributed.get_backend() == "nccl" else "cpu"
    told = torch.tensor(int(is_due), device=device)
    torch.distributed.all_reduce(told, op=torch.distributed.ReduceOp.MAX)
    return bool(told.item())


def report(place: str, step: int) -> None:
    """Report a save once all processes have made their part of it. Each of them has answered the agent then."""
    agree(False)
    checkpoint.saved(place, step=step)


def is_first() -> bool:
    return not _has_others() or sys.modules["torch"].distributed.get_rank() == 0


def _has_others() -> bool:
    torch: Any = sys.modules.get("torch")
    return torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
