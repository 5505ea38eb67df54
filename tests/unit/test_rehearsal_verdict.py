"""The verdict of a rehearsal, over recorded observations: each planted fault is named by its kind, and no other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from autopilot.domain.errors import UserError
from autopilot.rehearsal.lines import has_steps_twice, read_output
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, Said, SeenCheckpoint, SeenRun, TermSave
from autopilot.rehearsal.program import read_command
from autopilot.rehearsal.report import as_json, in_words
from autopilot.rehearsal.verdict import FaultKind, judge
from autopilot.rehearsal.watching import is_overwritten

KILL = Loss(LossKind.KILL, keeps_disk=False)
TERM = Loss(LossKind.TERM, keeps_disk=False)


def steps(first: int, last: int, apart: float = 0.0) -> tuple[Said, ...]:
    return tuple(Said(step, 100 / step + apart) for step in range(first, last + 1))


WHOLE = SeenRun(steps(1, 100), 10.0, exit_code=0)
LOST = SeenRun(steps(1, 52), 5.2, lost_by=KILL, saves=10, unsent_s=1.0)
RESUMED = SeenRun(steps(51, 100), 5.0, exit_code=0, restored=True)
SOUND = RehearsalSeen((WHOLE, WHOLE), (LOST, RESUMED), SeenCheckpoint(1000, 0.1, 0.5), verified=10)


def resumed(said: tuple[Said, ...]) -> RehearsalSeen:
    return replace(SOUND, course=(LOST, replace(RESUMED, said=said)))


def termed(has_saved: bool, was_killed: bool) -> RehearsalSeen:
    lost = replace(LOST, lost_by=TERM, term=TermSave(has_saved, 1.0, was_killed))
    return replace(SOUND, course=(lost, RESUMED), counts_on_term=True)


@pytest.mark.parametrize(
    ("seen", "kind"),
    [
        (resumed(steps(1, 100)), FaultKind.DOES_NOT_RESUME),
        (replace(SOUND, course=(), verified=0), FaultKind.DOES_NOT_RESUME),
        (resumed(steps(15, 100)), FaultKind.WORK_DONE_TWICE),
        (replace(SOUND, course=(LOST, SeenRun((), 1.0, exit_code=1, restored=True))), FaultKind.TORN),
        (replace(SOUND, in_place="model.pt"), FaultKind.TORN),
        (termed(has_saved=False, was_killed=False), FaultKind.SIGTERM_SAVE),
        (termed(has_saved=True, was_killed=True), FaultKind.SIGTERM_SAVE),
        (replace(SOUND, overwritten=("table.csv",)), FaultKind.OUTPUTS_OVERWRITTEN),
        (replace(SOUND, doubled=("table.csv",)), FaultKind.OUTPUTS_OVERWRITTEN),
        (resumed(steps(51, 100, apart=9.0)), FaultKind.JUMP_AT_THE_SEAM),
        (replace(SOUND, whole=(replace(WHOLE, exit_code=3),), course=()), FaultKind.FAILS),
    ],
)
def test_a_fault_is_named_by_its_kind_alone(seen: RehearsalSeen, kind: FaultKind) -> None:
    verdict = judge(seen)
    assert [each.kind for each in verdict.findings] == [kind]
    assert not verdict.is_sound
    assert verdict.findings[0].advice


@pytest.mark.parametrize(
    "seen",
    [
        SOUND,
        termed(has_saved=True, was_killed=False),
        replace(SOUND, in_place="model.pt", reports_saves=True),
        resumed(steps(51, 100, apart=0.5)),
    ],
)
def test_a_sound_program_has_no_finding(seen: RehearsalSeen) -> None:
    assert judge(seen).is_sound


def test_nothing_is_sound_that_was_not_resumed() -> None:
    verdict = judge(replace(SOUND, course=(LOST,)))
    assert not verdict.findings
    assert not verdict.is_sound
    assert next(in_words(SOUND, verdict, None)).startswith("not proven")


def test_a_loss_costs_its_work_at_the_price() -> None:
    verdict = judge(SOUND)
    assert verdict.redone_steps == (2,)
    body = as_json(SOUND, verdict, price=3600.0)
    assert body["sound"] is True
    assert body["loss_costs_usd"] == pytest.approx(0.2)


def test_steps_and_losses_are_read_as_trainers_and_people_print_them() -> None:
    text = "step 3 loss: 0.5\nEpoch 1\n{'loss': 0.25, 'epoch': 1.0}\nstep 4/10 train_loss=1e-3\nloading 3 files\n"
    assert read_output(text) == (Said(3, 0.5), Said(1, None), Said(1, 0.25), Said(4, 0.001))
    assert read_output("at 7 of it\n", r"at (?P<step>\d+)") == (Said(7, None),)


def test_a_table_that_was_begun_afresh_is_told_from_one_that_was_cut_off() -> None:
    before = "step,loss\n" + "".join(f"{n},1\n" for n in range(1, 20))
    assert is_overwritten(before, "step,loss\n18,1\n19,1\n20,1\n")
    assert not is_overwritten(before, before[:-10] + "20,1\n")
    assert not is_overwritten('{"best": 1,\n "at": 7,\n "of": 3}', '{"best": 2,\n "at": 9,\n "of": 3}')
    assert has_steps_twice(before + "19,1\n20,1\n")
    assert not has_steps_twice(before)


@pytest.mark.parametrize("place", ["/data/ckpt", "../ckpt", "runs/../../ckpt"])
def test_a_checkpoint_outside_of_the_copy_is_refused_before_anything_runs(place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="would write over it"):
        read_command(("python", "train.py"), tmp_path, place)
