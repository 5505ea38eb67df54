"""Recordings: what a decision saw and answered, written, read and taken again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.domain.errors import UserError
from autopilot.domain.job import Job
from autopilot.domain.market import Allowance
from autopilot.domain.outlook import Lives, Outlook, PhaseModel, Shape
from autopilot.domain.params import Params
from autopilot.policy.decide import decide
from autopilot.policy.scene import Scene, scene_from_json, scene_to_json
from autopilot.service.recording import FileRecorder
from autopilot_lab.backtest.replay import replay
from tests.builders import HOUR, START, D, a_checkpoint, a_job, a_lease, a_market, a_paused_lease, a_spec, an_offer, at

PARAMS = Params()
OUTLOOK = Outlook(
    lives={("vastai", "gpu", "RTX 4090"): Lives().with_run(3.0, lost=True), ("vastai", "host", "9"): Lives()},
    shape=Shape(
        PhaseModel((True, False), ((0.9, 0.1), (0.2, 0.8))),
        longest_s=6 * 3600.0,
        most_slack_s=4 * 3600.0,
        restart_s=480.0,
        spot_ratio=0.35,
    ),
    belief=(1.0, 0.0),
)


def a_scene(job: Job, seconds: float = 0) -> Scene:
    market = replace(
        a_market(an_offer(), an_offer("machine-b", floor=D("0.31")), avoid=frozenset({("vastai", "x"), ("a", "b")})),
        outlook=OUTLOOK,
        allowance=Allowance(D(5), None),
    )
    return Scene(job, market, at(seconds), PARAMS, decide(job, market, at(seconds), PARAMS))


def scenes() -> list[Scene]:
    spec = a_spec(work_estimate=2 * HOUR, deadline=START + 6 * HOUR, budget=D(4), env=(("A", "é"),))
    held = a_lease(agent_seen_at=at(1790))
    return [
        a_scene(a_job(spec=spec)),
        a_scene(a_job(held, spec=spec, checkpoint=a_checkpoint(held), progress=D("0.25")), 1800),
        a_scene(a_job(a_paused_lease(), spec=spec), 30),
        a_scene(a_job(spec=a_spec(work_estimate=None)), 60),
    ]


def test_the_scenes_are_worth_replaying() -> None:
    """With and without a machine, priced by a table and without one."""
    actions = [type(action).__name__ for scene in scenes() for action in scene.decision.actions]
    assert {"Acquire", "Release"} <= set(actions)
    topics = [{note.topic for note in scene.decision.notes} for scene in scenes()]
    assert "option" in topics[0]
    assert "option" in topics[1]


def recorded(path: Path, taken: list[Scene]) -> Path:
    recorder = FileRecorder(path)
    for scene in taken:
        recorder.record(scene)
    recorder.close()
    return path


def test_a_scene_is_the_same_after_a_round_trip() -> None:
    for scene in scenes():
        again = scene_from_json(scene_to_json(scene))
        assert again == scene
        assert scene_to_json(again) == scene_to_json(scene)


def test_a_recording_replays_equal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path / "session.gz", scenes())
    done = replay(path)
    assert (done.decisions, done.difference) == (4, None)
    assert run(["backtest", "--replay", str(path)]) == 0
    assert capsys.readouterr().out == "4 decisions, all equal\n"


def test_a_doctored_recording_is_found(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = scenes()
    taken[1] = replace(taken[1], decision=replace(taken[1].decision, notes=()))
    path = recorded(tmp_path / "session.gz", taken)
    found = replay(path).difference
    assert found is not None
    assert (found.number, found.scene, found.recorded != found.today) == (2, taken[1], True)
    assert run(["backtest", "--replay", str(path)]) == 1
    out = capsys.readouterr().out
    assert "decision 2 (job train, 2026-11-20 10:00:00 UTC) is another one today" in out
    assert run(["backtest", "--replay", str(path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["difference"]["number"] == 2


def test_a_doctored_market_is_found(tmp_path: Path) -> None:
    (taken, *_) = scenes()
    dearer = replace(taken.market, offers=tuple(replace(offer, floor=D("0.5")) for offer in taken.market.offers))
    found = replay(recorded(tmp_path / "session.gz", [replace(taken, market=dearer)])).difference
    assert found is not None


def test_nothing_is_lost_when_the_daemon_is_killed(tmp_path: Path) -> None:
    recorder = FileRecorder(tmp_path / "session.gz")
    for scene in scenes()[:3]:
        recorder.record(scene)
    left_behind = (tmp_path / "session.gz").read_bytes()  # never closed
    cut = tmp_path / "cut.gz"
    cut.write_bytes(left_behind)
    assert replay(cut).decisions == 3
    cut.write_bytes(left_behind[:-40])
    assert replay(cut).decisions == 2
    recorder.close()


def test_a_recording_is_never_written_over(tmp_path: Path) -> None:
    path = recorded(tmp_path / "session.gz", scenes())
    before = path.read_bytes()
    with pytest.raises(UserError, match="cannot record to"):
        FileRecorder(path)
    assert path.read_bytes() == before


def test_what_cannot_be_written_ends_the_recording_and_nothing_else(tmp_path: Path) -> None:
    recorder = FileRecorder(tmp_path / "session.gz")
    scene = scenes()[0]
    recorder.record(replace(scene, job=replace(scene.job, step=object())))  # type: ignore[arg-type]  # no number, on purpose
    recorder.record(scene)
    recorder.close()
    assert (tmp_path / "session.gz").stat().st_size < 200


@pytest.mark.parametrize(
    "content",
    [
        b"not gzip",
        gzip.compress(b"not json\n"),
        gzip.compress(b'{"$scene.Scene":[]}\n'),
        gzip.compress(b'{"$Nothing":[]}\n'),
    ],
    ids=["not packed", "not JSON", "fields missing", "of no known kind"],
)
def test_what_is_no_recording(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.gz"
    path.write_bytes(content)
    with pytest.raises(UserError, match="is not a recording of this version"):
        replay(path)
    with pytest.raises(UserError, match="cannot read"):
        replay(tmp_path / "none.gz")


def test_one_market_or_one_recording(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest"]) == 2
    assert "choose a market" in capsys.readouterr().err


def test_durations_are_exact() -> None:
    scene = a_scene(a_job(spec=a_spec(work_estimate=timedelta(days=9, microseconds=1))))
    assert scene_from_json(scene_to_json(scene)) == scene
