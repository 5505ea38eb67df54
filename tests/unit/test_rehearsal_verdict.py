"""The verdict of a rehearsal, over recorded observations: each planted fault is named by its kind, and no other."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from autopilot.blobs.local import LocalBlobStore
from autopilot.domain.errors import UserError
from autopilot.rehearsal.advice import recognise
from autopilot.rehearsal.course import CourseNotes, RehearsalBounds, RehearsalCourse
from autopilot.rehearsal.handlers import counts_on_term
from autopilot.rehearsal.lines import PrintedLine, PrintedStep, StepScale, read_claims, read_name
from autopilot.rehearsal.observed import Loss, LossKind, RehearsalSeen, Said, SeenCheckpoint, SeenRun, TermSave
from autopilot.rehearsal.placing import FollowedRun, measure_interval, place
from autopilot.rehearsal.program import CopiedCode, read_command
from autopilot.rehearsal.report import as_json, in_words
from autopilot.rehearsal.tables import count_most, is_doubled, is_overwritten, read_array
from autopilot.rehearsal.verdict import FaultKind, judge
from autopilot.rehearsal.watching import OVERWRITTEN, REMOVED, SaveWatch

KILL = Loss(LossKind.KILL, keeps_disk=False)
TERM = Loss(LossKind.TERM, keeps_disk=False)


def steps(first: int, last: int, apart: float = 0.0) -> tuple[Said, ...]:
    return tuple(Said(step, 100 / step + apart, step / 10) for step in range(first, last + 1))


MID_SAVE = Loss(LossKind.MID_SAVE, keeps_disk=True)
WHOLE = SeenRun(steps(1, 100), 10.0, exit_code=0)
LOST = SeenRun(steps(1, 52), 5.2, lost_by=KILL, saves=10)
RESUMED = SeenRun(steps(51, 100), 5.0, exit_code=0, restored=True, saved_step=50)
COARSE = SeenRun(steps(101, 120), 2.0, lost_by=KILL, restored=True, saved_step=100)
"""It went on from the end of its second epoch."""
SOUND = RehearsalSeen((WHOLE, WHOLE), (LOST, RESUMED), SeenCheckpoint(1000, 0.1, 0.5, 5.0), verified=10)


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
        (resumed(steps(41, 100)), FaultKind.WORK_DONE_TWICE),
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


@pytest.mark.parametrize(
    ("promised", "missed"),
    [
        ((KILL,), ()),
        ((KILL, TERM), ("a resume after SIGTERM",)),
        ((KILL, MID_SAVE), ("a resume after SIGKILL in the middle of a save", "a resume on the disk that was kept")),
    ],
)
def test_each_kind_of_loss_that_was_promised_must_be_followed_by_a_resume(
    promised: tuple[Loss, ...], missed: tuple[str, ...]
) -> None:
    verdict = judge(replace(SOUND, promised=promised))
    assert verdict.unproven == missed
    assert verdict.is_sound == (not missed)


def test_a_run_that_goes_on_from_epochs_alone_does_resume() -> None:
    """The first epoch was not over when it began again: the same program goes on from the second later."""
    again = SeenRun(steps(1, 110), 11.0, lost_by=KILL, restored=True, saved_step=50)
    assert [each.kind for each in judge(replace(SOUND, course=(LOST, again))).findings] == [FaultKind.DOES_NOT_RESUME]
    verdict = judge(replace(SOUND, course=(LOST, again, COARSE)))
    assert [each.kind for each in verdict.findings] == [FaultKind.WORK_DONE_TWICE]


@pytest.mark.parametrize(
    ("term", "kind"),
    [
        (TermSave(has_saved=True, took_s=1.0, was_killed=False), FaultKind.DOES_NOT_RESUME),
        (TermSave(has_saved=False, took_s=1.0, was_killed=False), FaultKind.SIGTERM_SAVE),
        (TermSave(has_saved=False, took_s=5.0, was_killed=True), FaultKind.SIGTERM_SAVE),
    ],
)
def test_what_saves_at_sigterm_alone_is_named_by_what_it_does_then(term: TermSave, kind: FaultKind) -> None:
    whole = SeenRun(steps(1, 100), 10.0, saves=int(term.has_saved), term=term)
    seen = RehearsalSeen((whole,), (), counts_on_term=True)
    assert [each.kind for each in judge(seen).findings] == [kind]


def test_a_resume_is_compared_with_the_longer_of_two_runs() -> None:
    short = replace(LOST, said=steps(1, 52))
    seen = replace(SOUND, whole=(WHOLE, short), course=(short, replace(RESUMED, said=steps(51, 60, apart=9.0))))
    assert [each.kind for each in judge(seen).findings] == [FaultKind.JUMP_AT_THE_SEAM]
    assert judge(replace(seen, course=(short, replace(RESUMED, said=steps(51, 60))))).is_sound


def test_steps_that_begin_again_in_a_later_run_alone_are_counted_with_their_epochs() -> None:
    first = claims_of("epoch 1\n" + "".join(f"step {n} loss {9 - n}\n" for n in range(1, 6)))
    text = "".join(f"epoch {e}\n" + "".join(f"step {n} loss 1\n" for n in range(1, 9)) for e in (1, 2))
    runs = place([FollowedRun(WHOLE, (first,)), FollowedRun(LOST, (claims_of(text),))]).runs
    assert [run.last_step for run in runs] == [13, 24]


def test_a_resume_after_a_loss_in_the_middle_of_a_save_is_compared_as_well() -> None:
    """Which step is in what it began with is not known then: that of the loss is taken for it."""
    jumped = replace(RESUMED, said=steps(53, 100, apart=9.0), saved_step=None)
    assert [each.kind for each in judge(replace(SOUND, course=(LOST, jumped))).findings] == [FaultKind.JUMP_AT_THE_SEAM]
    again = replace(jumped, said=steps(41, 100, apart=9.0))
    assert judge(replace(SOUND, course=(LOST, again))).is_sound


def test_steps_that_are_done_again_with_later_weights_are_no_jump_of_their_own() -> None:
    verdict = judge(resumed(steps(41, 100, apart=9.0)))
    assert [each.kind for each in verdict.findings] == [FaultKind.WORK_DONE_TWICE]


def test_where_nothing_is_told_the_names_of_saves_tell_the_steps() -> None:
    saves = ("epoch=0-step=6.ckpt", "out/checkpoint-12/model.safetensors", "last.ckpt")
    assert [read_name(save) for save in saves] == [6, 12, None]
    named = [PrintedStep(float(step), step, None, None) for step in (6, 12)]
    at_its_end = claims_of("step 1\nstep 2\n")
    runs = place([FollowedRun(WHOLE, ([], named)), FollowedRun(LOST, (at_its_end, named[1:]))]).runs
    assert [run.last_step for run in runs] == [12, 12]


def test_a_resume_from_the_save_before_is_no_fault() -> None:
    """A save that was being written when the machine was lost, or was not uploaded yet, costs the one before it too."""
    assert judge(resumed(steps(46, 100))).is_sound


def test_a_loss_that_goes_up_and_down_is_no_jump_where_another_batch_comes_after_a_resume() -> None:
    def noisy(first: int, salt: int) -> tuple[Said, ...]:
        return tuple(Said(step, 5 + (step * salt) % 7, step / 10) for step in range(first, 101))

    whole = replace(WHOLE, said=noisy(1, 3))
    seen = replace(SOUND, whole=(whole, whole), course=(replace(LOST, said=noisy(1, 3)[:52]), RESUMED))
    other_batches = replace(RESUMED, said=noisy(51, 5))
    assert judge(replace(seen, course=(seen.course[0], other_batches))).is_sound
    far_off = replace(RESUMED, said=tuple(replace(said, loss=40.0) for said in noisy(51, 5)))
    (found,) = judge(replace(seen, course=(seen.course[0], far_off))).findings
    assert found.kind is FaultKind.JUMP_AT_THE_SEAM


def test_a_loss_costs_its_work_at_the_price() -> None:
    verdict = judge(SOUND)
    assert verdict.redone_steps == (2,)
    body = as_json(SOUND, verdict, price=3600.0)
    assert body["sound"] is True
    assert body["loss_costs_usd"] == pytest.approx(0.2)


def claims_of(text: str, pattern: str = "") -> list[PrintedStep]:
    return read_claims([PrintedLine(n / 10, line) for n, line in enumerate(text.splitlines())], pattern)


def numbers(whole: str, resumed_text: str) -> list[int]:
    """Of the resumed run, by how the whole one counts."""
    return [said.step for said in StepScale.of(claims_of(whole)).place(claims_of(resumed_text))]


def epochs(first: int, last: int) -> str:
    return "".join(
        f"Epoch {e}\n" + "".join(f"  step {s}/4 loss {9 - e}.{s}\n" for s in range(4)) for e in range(first, last)
    )


def bar(first: int, total: int, of: int) -> str:
    return "".join(f" {n}%|##   | {n}/{total} [00:01<00:02, 1.0it/s]\n" for n in range(first, of + 1))


def dictionaries(first: int, last: int) -> str:
    return "".join(f"{{'loss': '0.{n}', 'grad_norm': '1', 'epoch': '{n / 20:.2f}'}}\n" for n in range(first, last + 1))


@pytest.mark.parametrize(
    ("whole", "again", "first", "last"),
    [
        ("step 1 loss 3\nstep 2 loss 2\nstep 3 loss 1\n", "resumed at step 2\nstep 3 loss 1\n", 3, 3),
        (epochs(0, 5), epochs(2, 5), 8, 19),
        (bar(0, 40, 40), bar(0, 40, 0) + bar(21, 40, 30), 21, 30),
        (bar(0, 40, 40), bar(0, 20, 20), 21, 40),
        (bar(0, 40, 40) + bar(0, 3, 3), bar(0, 3, 3) + bar(31, 40, 40), 31, 40),
        (dictionaries(1, 19), dictionaries(11, 19), 11, 19),
    ],
)
def test_the_same_work_has_the_same_number_in_each_run(whole: str, again: str, first: int, last: int) -> None:
    found = numbers(whole, again)
    assert (found[0], found[-1]) == (first, last)


def test_steps_that_begin_again_are_no_measure_where_no_epoch_is_told() -> None:
    text = "step 1\nstep 2\nstep 1\nstep 2\n"
    assert StepScale.of(claims_of(text)).is_unclear
    assert numbers(text, text) == []


def test_losses_of_validations_and_steps_of_settings_are_not_those_of_the_training() -> None:
    text = "Total steps: 400\nwarmup_steps: 20\nstep 3 loss: 0.5 val loss: 0.9\nval loss 0.8\n"
    assert [(claim.step, claim.loss) for claim in claims_of(text)] == [(3, 0.5)]
    assert [claim.step for claim in claims_of("at 7 of it\n", r"at (?P<step>\d+)")] == [7]


CSV = "step,loss\n" + "".join(f"{n},1\n" for n in range(1, 20))
ROWS = "".join(f'{{"loss": 0.5, "step": {n}}}\n{{"eval_loss": 0.5, "step": {n}}}\n' for n in range(1, 20))


def test_a_table_that_was_begun_afresh_is_told_from_one_that_was_cut_off() -> None:
    assert is_overwritten(CSV, "step,loss\n18,1\n19,1\n20,1\n")
    assert not is_overwritten(CSV, CSV[:-10] + "20,1\n")
    assert not is_overwritten('{"best": 1,\n "at": 7,\n "of": 3}', '{"best": 2,\n "at": 9,\n "of": 3}')


@pytest.mark.parametrize(("table", "again"), [(CSV, "19,1\n20,1\n"), (ROWS, '{"step": 19, "loss": 0.5}\n')])
def test_rows_that_are_there_more_often_than_without_a_loss_are_doubled(table: str, again: str) -> None:
    assert is_doubled(table + again, count_most(table))
    assert not is_doubled(table, count_most(table))


def test_an_array_of_objects_is_a_table() -> None:
    rows = [{"loss": 0.5, "step": n} for n in range(1, 9)]
    assert read_array(json.dumps(rows)).splitlines()[0] == '{"loss": 0.5, "step": 1}'
    assert is_overwritten(read_array(json.dumps(rows)), read_array(json.dumps(rows[6:])))
    assert read_array('{"step": 4}') == read_array("[1, 2") == ""


def write(path: Path, data: bytes) -> None:
    with path.open("r+b" if path.exists() else "wb") as file:
        file.truncate(0)
        file.write(data)


def watch(directory: Path, *files: str) -> str:
    """What is named as written in place, of whole files that are written one after another, a second apart."""
    saves = SaveWatch(str(directory))
    saves.look(0.0)
    for n, name in enumerate(files):
        write(directory / name, bytes([n]) * 1000)
        saves.look(float(n + 1))
    return saves.in_place


@pytest.mark.parametrize(
    ("files", "found"),
    [
        (("a.pt", "a.pt"), f"a.pt {OVERWRITTEN}"),
        (("a.pt", "b.pt", "a.pt", "b.pt"), ""),
        (("1.pt", "2.pt", "3.pt"), ""),
    ],
)
def test_one_file_written_over_is_in_place_and_two_in_turn_are_not(
    tmp_path: Path, files: tuple[str, ...], found: str
) -> None:
    assert watch(tmp_path, *files) == found


@pytest.mark.parametrize(
    ("shown", "found"),
    [
        ((("1.pt",), (), ("2.pt",)), f"1.pt {REMOVED}"),
        ((("1.pt",), ("2.pt.half",), ("2.pt",)), f"1.pt {REMOVED}"),
        ((("1.pt",), ("1.pt", "2.pt"), ("2.pt",)), ""),
        ((("1.pt",), ("2.pt",), ("3.pt",)), ""),
        ((("1.pt",), ("1.pt", "2.pt.half"), ("2.pt",)), ""),
        ((("1.pt",), (), ()), ""),
    ],
    ids=["none-between", "half-between", "removed-after", "at-one-look", "renamed", "cleared-at-the-end"],
)
def test_the_only_save_that_goes_before_the_next_is_whole_is_seen(
    tmp_path: Path, shown: tuple[tuple[str, ...], ...], found: str
) -> None:
    saves = SaveWatch(str(tmp_path))
    saves.look(0.0)
    for n, names in enumerate(shown, start=1):
        for old in tmp_path.iterdir():
            if old.name not in names:
                old.unlink()
        for name in names:
            if not (tmp_path / name).exists():
                write(tmp_path / name, bytes([n]) * (400 if name.endswith(".half") else 1000))
        saves.look(float(n))
    assert saves.in_place == found


def test_what_a_run_finds_half_written_it_may_write_again(tmp_path: Path) -> None:
    write(tmp_path / "1.pt", b"half")
    assert watch(tmp_path, "1.pt", "2.pt") == ""


@pytest.mark.parametrize(
    ("source", "framework"),
    [
        ("from lightning.pytorch import Trainer\nTrainer(max_steps=9)", "lightning"),
        ("from transformers import Trainer\nTrainer(model)", "trainer"),
        ("import torch", "pytorch"),
    ],
)
def test_the_trainer_of_lightning_is_not_taken_for_that_of_transformers(source: str, framework: str) -> None:
    assert recognise([source]) == framework


def test_a_file_that_is_written_once_has_no_interval() -> None:
    assert measure_interval({"config.pt": []}) == 0.0
    assert measure_interval({"config.pt": [], "model.pt": [4.0, 6.0]}) == 5.0


def test_each_machine_has_a_later_run_than_the_one_before(tmp_path: Path) -> None:
    """Else the agent would restore the first checkpoint again and again: that of the later run has the greater rank."""
    (tmp_path / "train.py").write_text("")
    program = read_command(("python", "train.py"), tmp_path, "ckpt")
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "")
    course = RehearsalCourse(tmp_path, program, RehearsalBounds(60.0, 6), print, {}, store)
    epochs = [course.lease("job", None).run_epoch for _ in range(3)]
    assert epochs == sorted(set(epochs))


def test_a_first_start_that_takes_long_is_no_measure_for_the_others() -> None:
    assert CourseNotes(starts_s=[60.0]).start_s == 60.0
    notes = CourseNotes(starts_s=[60.0, 8.0, 10.0])
    assert (notes.start_s, notes.least_start_s) == (9.0, 8.0)


@pytest.mark.parametrize("place", ["/data/ckpt", "../ckpt", "runs/../../ckpt"])
def test_a_checkpoint_outside_of_the_copy_is_refused_before_anything_runs(place: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="would write over it"):
        read_command(("python", "train.py"), tmp_path, place)


HANDLER = "import signal, sys\ndef stop(*_):\n    {}\nsignal.signal(signal.SIGTERM, stop)\n"


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        (HANDLER.format("save()"), True),
        (HANDLER.format("global stopping; stopping = True"), True),
        (HANDLER.format("stopping.append(1)"), True),
        (HANDLER.format("print('told to end'); sys.exit(0)"), False),
        (HANDLER.format("raise SystemExit(143)"), False),
        ("signal.signal(signal.SIGTERM, signal.SIG_IGN)", False),
        ("signal.signal(signal.SIGTERM, trainer.stop)", True),
        ("# what comes after SIGTERM", False),
        ("if checkpoint.should_save(): save()", True),
        ("control.should_save = True", False),
        ("from autopilot import training", True),
    ],
)
def test_a_handler_that_only_ends_the_program_counts_on_no_save(source: str, counts: bool) -> None:
    assert counts_on_term([source]) == counts


def test_what_a_program_starts_or_imports_is_read_as_well(tmp_path: Path) -> None:
    files = {
        "run.sh": "python train.py",
        "train.py": "from parts import saving\n",
        "parts/saving.py": "a",
        "other.py": "b",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    code = CopiedCode(tmp_path, tuple(files))
    assert code.read_sources("sh run.sh") == [files["run.sh"], files["train.py"], "a"]
    assert len(code.read_sources("python -m other")) == len(files)
