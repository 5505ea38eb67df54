"""What a trainer keeps of itself beside its checkpoint, read from both ends of a file that may hold anything."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped.progress import LOOKS_APART_S, Progress
from autopilot.agent.shipped.state_files import END_BYTES, MOST_ENTRIES, NAME, find_state, read_state
from autopilot.agent.shipped.trainers import State


def a_state(step: int, steps: int = 300, epochs: float = 5.0, log: int = 2, **changes: Any) -> dict[str, Any]:
    """As ``TrainerState`` of transformers 4 and 5 has it."""
    entry = {"epoch": 99.0, "grad_norm": 1.0, "learning_rate": 1e-05, "loss": 0.5, "step": 7, "global_step": 1}
    return {
        "best_global_step": None,
        "best_metric": None,
        "best_model_checkpoint": None,
        "epoch": step * epochs / steps,
        "eval_steps": 500,
        "global_step": step,
        "is_hyper_param_search": False,
        "is_local_process_zero": True,
        "is_world_process_zero": True,
        "log_history": [entry] * log,
        "logging_steps": 20,
        "max_steps": steps,
        "num_input_tokens_seen": 0,
        "num_train_epochs": 5,
        "save_steps": 500,
        "stateful_callbacks": {"TrainerControl": {"args": {"should_log": False}, "attributes": {"max_steps": 1}}},
        "total_flos": 0.0,
        "train_batch_size": 4,
        "trial_name": None,
        "trial_params": None,
    } | changes


def save(directory: Path, state: dict[str, Any], at: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / NAME
    path.write_text(json.dumps(state, indent=2, sort_keys=True) + "\n")
    os.utime(path, ns=(at, at))
    return path


@pytest.mark.parametrize("log", [0, 2, 60, 61, 62, 63, 2000])
def test_steps_and_epochs_are_read_however_long_its_log_is(tmp_path: Path, log: int) -> None:
    path = save(tmp_path, a_state(120, log=log))
    assert (path.stat().st_size > END_BYTES) == (log > 50)
    assert read_state(str(path)) == State(120, 300, 5.0)


def test_steps_that_end_within_an_epoch_are_no_whole_number_of_epochs(tmp_path: Path) -> None:
    """Of 60 steps an epoch, 200 in all: it names 4 epochs."""
    state = read_state(str(save(tmp_path, a_state(60, steps=200, epochs=200 / 60, num_train_epochs=4))))
    assert state is not None
    assert state.epochs == pytest.approx(200 / 60)


def test_the_checkpoint_that_was_written_last_tells_it(tmp_path: Path) -> None:
    save(tmp_path / "checkpoint-9000", a_state(9000, steps=9000), at=1)
    save(tmp_path / "checkpoint-20", a_state(20), at=3)
    save(tmp_path / "checkpoint-10", a_state(10), at=2)
    assert find_state(str(tmp_path)) == State(20, 300, 5.0)
    assert find_state(str(tmp_path / "checkpoint-10")) == State(10, 300, 5.0)
    assert find_state(str(tmp_path / "checkpoint-*")) == State(20, 300, 5.0)


def test_links_pipes_and_directories_in_its_place_are_none(tmp_path: Path) -> None:
    told = save(tmp_path / "elsewhere", a_state(20))
    puts: tuple[Callable[[Path], object], ...] = (lambda at: at.symlink_to(told), os.mkfifo, Path.mkdir)
    for number, put in enumerate(puts):
        place = tmp_path / "out" / f"checkpoint-{number}"
        place.mkdir(parents=True)
        put(place / NAME)
    (tmp_path / "out" / "checkpoint-9").symlink_to(tmp_path / "elsewhere")
    assert find_state(str(tmp_path / "out")) is None
    assert read_state(str(tmp_path / "out" / "checkpoint-0" / NAME)) is None
    assert find_state(str(tmp_path / "nowhere")) is find_state("") is find_state("a\0b") is None


def test_of_a_directory_with_very_many_entries_some_are_looked_at(tmp_path: Path) -> None:
    for number in range(MOST_ENTRIES + 10):
        (tmp_path / f"{number}").touch()
    save(tmp_path, a_state(20))
    assert find_state(str(tmp_path)) == State(20, 300, 5.0)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[" * 100_000,
        '{"global_step": 5, "max_steps": 10}',
        '{\n  "global_step": 5,\n  "max_steps": 0\n}',
        '{\n  "global_step": 50,\n  "max_steps": 10\n}',
        '{\n  "global_step": -5,\n  "max_steps": 10\n}',
        '{\n  "global_step": 1e400,\n  "max_steps": 1e400\n}',
        '{\n  "global_step": 99999999999999999999,\n  "max_steps": 99999999999999999999\n}',
        json.dumps(a_state(120), indent=2).partition('"max_steps"')[0],
    ],
)
def test_what_is_no_state_or_is_being_written_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / NAME
    path.write_text(text)
    assert read_state(str(path)) is None


@given(st.binary(max_size=300), st.integers(0, 40), st.binary(max_size=300))
def test_no_content_can_do_harm(tmp_path_factory: pytest.TempPathFactory, begin: bytes, lines: int, end: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "hostile.json"
    path.write_bytes(begin + b'\n  "max_steps": 3,\n  "global_step": 2,\n' * lines + end)
    state = read_state(str(path))
    assert state is None or 0 <= state.step <= state.steps


def progress_of(tmp_path: Path, pattern: str = "") -> Progress:
    return Progress(str(tmp_path / "progress.json"), pattern)


def test_a_state_counts_once_this_run_has_written_one_and_a_bar_of_something_else_does_not_take_its_place(
    tmp_path: Path,
) -> None:
    progress, place = progress_of(tmp_path), str(tmp_path)
    save(tmp_path / "checkpoint-100", a_state(100), at=1)
    progress.look(place, 0)
    assert progress.recognise(0) is None, "it was there before the run"
    save(tmp_path / "checkpoint-120", a_state(120), at=2)
    progress.look(place, 1)
    assert progress.recognise(1) is None, "not looked at yet"
    progress.look(place, LOOKS_APART_S)
    found = progress.recognise(LOOKS_APART_S)
    assert found is not None
    assert (found["form"], found["step"], found["fraction"]) == ("saved", 120, 0.4)
    for n in range(1, 9):
        progress.feed(f"Training {n}0%|#  | {n}/10 [00:10<00:10,  1.00it/s, loss=0.1]\n".encode(), 50)
    found = progress.recognise(50)
    assert found is not None
    assert found["form"] == "saved"
    progress.feed(b" 45%|####   | 135/300 [00:10<00:10,  1.00it/s]\n", 60)
    found = progress.recognise(60)
    assert found is not None
    assert (found["form"], found["fraction"]) == ("bar", 0.45)
    progress.forget()
    assert progress.recognise(60) is None


@pytest.mark.parametrize("pattern", ["off", "json", r"(?P<step>\d+)"])
def test_no_state_is_looked_for_where_the_job_speaks_for_itself(tmp_path: Path, pattern: str) -> None:
    progress = progress_of(tmp_path, pattern)
    progress.look(str(tmp_path), 0)
    save(tmp_path, a_state(120))
    progress.look(str(tmp_path), LOOKS_APART_S)
    assert progress.recognise(LOOKS_APART_S) is None


def test_a_log_without_a_bar_is_measured_by_the_epochs_that_the_state_implies(tmp_path: Path) -> None:
    progress = progress_of(tmp_path)
    progress.look(str(tmp_path), 0)
    save(tmp_path, a_state(60, steps=200, epochs=200 / 60, num_train_epochs=4))
    progress.look(str(tmp_path), LOOKS_APART_S)
    progress.feed(b"{'loss': 0.5, 'grad_norm': 1.0, 'epoch': 2.5}\n", 40)
    found = progress.recognise(40)
    assert found is not None
    assert (found["form"], found["step"], found["fraction"]) == ("trainer", 150, pytest.approx(0.75))
