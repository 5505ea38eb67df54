"""Progress is recognised in what trainers print, and nowhere else.

``tests/trainers/outputs`` holds what real packages printed (``tests/trainers/record.py``), with the truth beside it.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped.trainers import LINE_CHARS, MAX_TRACKS, Recognised, Trainers
from tests.trainers.without_progress import OUTPUTS, make_outputs

RECORDED = sorted(Path(__file__).parents[2].joinpath("trainers", "outputs").glob("*.jsonl.gz"))
SAID_NOWHERE = ("lightning_epochs",)
"""How much there is to do is not in their output."""
NEAR = 0.03


def read_all(*lines: str) -> Recognised | None:
    trainers = Trainers()
    for line in lines:
        trainers.feed(line)
    return trainers.read()


def score(path: Path) -> float:
    """In which share of the steps after a tenth of them what is recognised is near the truth."""
    trainers, rest = Trainers(), ""
    near: list[bool] = []
    for row in gzip.decompress(path.read_bytes()).decode().splitlines():
        _, said = json.loads(row)
        if isinstance(said, str):
            *lines, rest = re.split(r"[\r\n]", rest + said)
            for line in lines:
                trainers.feed(line)
        elif said >= 0.1:
            found = trainers.read()
            near.append(found is not None and found.fraction is not None and abs(found.fraction - said) <= NEAR)
    return sum(near) / len(near)


def name_of(path: Path) -> str:
    return path.name.removesuffix(".jsonl.gz")


def is_scored_only(path: Path) -> bool:
    """The half by which nothing was chosen."""
    return hashlib.sha256(name_of(path).encode()).digest()[0] % 2 == 1


@pytest.mark.parametrize("path", RECORDED, ids=name_of)
def test_what_a_real_trainer_printed_tells_how_far_it_was(path: Path) -> None:
    if name_of(path) in SAID_NOWHERE:
        assert score(path) == 0
    else:
        assert score(path) >= 0.95


def test_both_halves_have_cases() -> None:
    assert min(sum(map(is_scored_only, RECORDED)), sum(not is_scored_only(path) for path in RECORDED)) >= 5


def test_outputs_without_progress_tell_none() -> None:
    outputs = dict(make_outputs())
    assert len(outputs) == OUTPUTS
    found = {name: read_all(*lines) for name, lines in outputs.items()}
    assert {name: told for name, told in found.items() if told is not None} == {}


# Forms of packages that are not run here, as their sources print them.
YOLO = (
    "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size",
    "      3/10      2.31G      1.216      2.431      1.304         12        640:  50%|█████     | 4/8 [00:01<00:01,"
    "  3.5it/s]",
    "                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100%|██████████| 2/2 "
    "[00:00<00:00,  4.5it/s]",
)
SOURCES = (
    ("ultralytics/engine/trainer.py", YOLO, 0.25),
    (
        "ultralytics/utils/tqdm.py",
        (
            "\x1b[K       3/10      2.31G      1.216      2.431      1.304         12        640: 50% ━━━━━━────── 4/8 "
            "3.5it/s 1.2s<1.2s",
            "\x1b[K                 Class     Images  Instances      Box(P          R      mAP50  mAP50-95): 100% "
            "━━━━━━━━━━━━ 2/2 4.5it/s 0.4s",
        ),
        0.25,
    ),
    (
        "axolotl, as transformers/trainer_callback.py prints for it",
        (
            "{'loss': '1.2', 'ppl': '3.3', 'learning_rate': '2e-05', 'epoch': '0.3'}",
            " 10%|█         | 30/300 [00:10<01:30,  3.00it/s]",
        ),
        0.1,
    ),
    ("diffusers/examples", ("Steps:  30%|███       | 90/300 [00:10<00:20,  9.00it/s, lr=1e-5, step_loss=0.1]",), 0.3),
    (
        "mmengine/hooks/logger_hook.py",
        ("mmengine - INFO - Iter(train) [ 90/300]  lr: 1e-4  eta: 0:10  loss: 0.3",),
        0.3,
    ),
    (
        "llama.cpp ggml-opt.cpp",
        ("train: [=====>     ] data=000050/000100 loss=2.1 acc=40.1% t=00:00:05 ETA=00:00:05",),
        0.5,
    ),
    (
        "torchtune/recipes/full_finetune_single_device.py",
        ("1|10|Loss: 1.23:  50%|█████     | 10/20 [00:10<00:10,  1.00s/it]",),
        0.5,
    ),
    (
        "megatron/training/training.py",
        (" iteration       10/     100 | consumed samples:          80 | lm loss: 5.1E+00 |",),
        0.1,
    ),
    ("keras/src/utils/progbar.py", ("Epoch 2/4", " 50/100 ━━━━━━━━━━━━━━━━━━━━ 1s 10ms/step - loss: 0.5"), 0.375),
    ("rich, as lightning uses it", ("Epoch 1/3 ━━━━━━━━━━━━━━━━━ 30/60 0:00:03 • 0:00:03 18.9it/s loss: 0.3",), 0.375),
)


@pytest.mark.parametrize(("source", "lines", "fraction"), SOURCES)
def test_forms_of_other_packages(source: str, lines: tuple[str, ...], fraction: float) -> None:
    found = read_all(*lines)
    assert found is not None, source
    assert found.fraction == pytest.approx(fraction)


def test_epochs_that_begin_again_are_not_the_whole() -> None:
    """Five folds: how many there are is said nowhere, or it is said before."""
    epochs = [f"Epoch {n}/10 - loss: 0.5" for n in range(1, 11)]
    assert read_all(*epochs) is not None
    assert read_all(*epochs, *epochs[:3]) is None
    assert read_all("Fold 1/5", *epochs[:3]) is None
    ranks = [line for line in epochs for _ in range(2)]
    ranks[4], ranks[3] = ranks[3], ranks[4]
    told = read_all(*ranks[:-2])
    assert told is not None
    assert told.fraction == pytest.approx(0.9)


def test_of_steps_that_end_within_an_epoch_the_last_epoch_counts_in_part() -> None:
    """60 steps an epoch, 100 in all: the Trainer says two epochs."""
    begin = ["  Num examples = 240", "  Num Epochs = 2", "  Total train batch size (w. parallel, distributed) = 4"]
    found = read_all(*begin, "  Total optimization steps = 100", "{'loss': 0.5, 'grad_norm': 1.0, 'epoch': 1.25}")
    assert found is not None
    assert found.step == 75
    assert found.fraction == pytest.approx(0.75)


def test_an_epoch_whose_number_is_not_told_of_how_many_says_nothing_of_the_whole() -> None:
    first = [f"Epoch 0: {n:3}%|███       | {n}/100 [00:01<00:02, 40.00it/s, v_num=0]" for n in range(0, 101, 10)]
    second = [f"Epoch 1: {n:3}%|███       | {n}/100 [00:01<00:02, 40.00it/s, v_num=0]" for n in range(0, 31, 10)]
    assert read_all(*first, *second) is None


def test_a_bar_of_a_validation_does_not_take_the_place_of_the_training() -> None:
    train = " 45%|████▌     | 450/1000 [01:00<01:13,  7.5it/s]"
    val = [f"{n * 10:3}%|███       | {n}/10 [00:00<00:01, 12.0it/s]" for n in range(11)]
    found = read_all(train, *val)
    assert found is not None
    assert found.fraction == pytest.approx(0.45)


def test_few_words_are_not_believed_much() -> None:
    few = read_all("  1%|          | 1/100 [00:01<01:39,  1.0it/s]")
    many = read_all(*[f" {n:2}%|█         | {n}/100 [00:01<01:39,  1.0it/s]" for n in range(1, 30)])
    named = read_all(*[f"Training: {n:2}%|█         | {n}/100 [00:01<01:39,  1.0it/s, loss=0.2]" for n in range(1, 30)])
    assert few is not None
    assert many is not None
    assert named is not None
    assert few.confidence < 0.1 < many.confidence < named.confidence < 1


@given(st.lists(st.text(alphabet="0123456789%|/[]<:,. epochstluainr\u0663", max_size=2 * LINE_CHARS), max_size=30))
def test_a_hostile_output_does_no_harm(lines: list[str]) -> None:
    trainers = Trainers()
    for line in lines:
        trainers.feed(line)
        found = trainers.read()
        if found is not None and found.fraction is not None:
            assert 0 <= found.fraction <= 1
            assert 0 <= found.confidence <= 1
    assert len(trainers.tracks) <= MAX_TRACKS
