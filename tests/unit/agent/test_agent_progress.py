"""How far a job says it is: by file, by a pattern in its output, by JSON lines; and when it says nothing any more."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped.progress import Progress
from autopilot.agent.shipped.room import Room
from tests.unit.agent.test_agent_machine import orders, running


@pytest.mark.parametrize(
    ("pattern", "output", "expected"),
    [
        (r"step (?P<step>\d+)/(?P<total>\d+)", "step 5/20 loss 1\n", (5, 0.25)),
        (r"step (?P<step>[\d,]+)", "step 12,000\nno\n", (12_000, None)),
        (r"(?P<percent>\d+)%\|", " 40%|####    | 4/10\r 50%|#####   | 5/10\r", (None, 0.5)),
        (r"done (?P<fraction>[\d.]+)", "done 1.7\n", (None, 1.0)),
        ("json", '{"step": 3, "total": 4, "loss": 0.1}\nnot json\n', (3, 0.75)),
        ("json", '{"progress": 0.5}\n{"other": 1}\n[1]\n', (None, 0.5)),
        ("json", '{"step": true, "progress": "nan"}\n', (None, None)),
        ("", "step 5/20\n", (None, None)),
        (r"step (?P<step>\d+)", "step 1\nstep 2", (1, None)),
    ],
)
def test_progress_is_found_in_the_output(
    tmp_path: Path, pattern: str, output: str, expected: tuple[int | None, float | None]
) -> None:
    for block in (1, 7, 1000):
        progress = Progress(str(tmp_path / "progress.json"), pattern)
        for at in range(0, len(output), block):
            progress.feed(output[at : at + block].encode())
        assert progress.read() == expected


def test_a_pipe_in_place_of_a_file_stops_no_agent(tmp_path: Path) -> None:
    """An agent that waits for it counts no permit: its machine would never end by itself."""
    room = Room(str(tmp_path / "agent"))
    progress = Progress(room.progress)
    os.mkfifo(room.progress)
    os.mkfifo(room.run_named)
    assert progress.read() == (None, None)
    assert room.mlflow_run() == ""
    writer = os.open(room.progress, os.O_RDWR)
    assert progress.read() == (None, None), "somebody writes to it, and has not yet"
    os.write(writer, b'{"step": 3}')
    assert progress.read() == (3, None)
    os.close(writer)


def test_the_file_s_word_comes_first(tmp_path: Path) -> None:
    path = tmp_path / "progress.json"
    progress = Progress(str(path), r"step (?P<step>\d+)")
    progress.feed(b"step 1\n")
    path.write_text('{"step": 7, "progress": 0.5}')
    assert progress.read() == (7, 0.5)
    progress.forget()
    assert progress.read() == (None, None)
    progress.forget()


def test_a_directory_in_place_of_a_file_is_no_word_and_goes_with_its_task(tmp_path: Path) -> None:
    room = Room(str(tmp_path / "agent"))
    progress = Progress(room.progress)
    for path in (room.progress, room.run_named):
        os.makedirs(path + "/deep")
    assert (progress.read(), room.mlflow_run()) == ((None, None), "")
    progress.forget()
    room.forget_task()
    assert os.listdir(room.home) == []


@given(st.binary(max_size=400), st.sampled_from(["json", r"(?P<step>\S+) (?P<total>\S+)"]))
def test_no_output_can_do_harm(data: bytes, pattern: str) -> None:
    progress = Progress("/nonexistent/progress.json", pattern)
    progress.feed(data + b"\n")
    step, fraction = progress.read()
    assert step is None or 0 <= step < 2**53
    assert fraction is None or 0 <= fraction <= 1


def test_a_job_that_says_nothing_new_has_stalled_and_is_ended_if_that_is_wished() -> None:
    for fails in (False, True):
        m = running()
        order = orders(seq=2)
        order["work"].update(stall_s=100, stall_fails=fails)
        m.take_orders(order, 1)
        m.take_progress((1, None), 50)
        m.take_progress((1, None), 149)
        assert (m.has_stalled(149), m.decide(149)) == (False, None)
        assert m.has_stalled(150)
        assert m.decide(150) == ("term" if fails else None)
    assert m.decide(209) is None
    assert m.decide(210) == "kill"
    m.end_process(-9, 211, "")
    assert m.exit is not None
    assert (m.exit.reason, m.exit.signal) == ("stalled", 9)


def test_a_job_that_says_when_its_files_are_whole_is_not_read_at_other_times() -> None:
    m = running()
    m.mark = 7
    assert m.decide(300) == "checkpoint"
    assert (m.upload.is_fresh, m.upload.whole_at) == (True, 7)
    m.finish_task("checkpoint", True, 301)
    assert m.is_due(601)
    assert m.decide(900 - 1) is None
    m.mark = 8
    assert m.decide(899) == "checkpoint"
    m.finish_task("checkpoint", False, 899)
    assert m.decide(899.5) is None
    assert m.mark != m.mark_taken


@pytest.mark.parametrize(("code", "is_taken"), [(0, True), (1, False)])
def test_at_its_end_such_a_job_is_read_again_only_if_it_ended_well(code: int, is_taken: bool) -> None:
    m = running()
    m.mark = 7
    assert m.decide(300) == "checkpoint"
    m.finish_task("checkpoint", True, 301)
    m.end_process(code, 302, "")
    assert m.decide(302) == "checkpoint"
    assert (m.upload.is_fresh, m.upload.whole_at) == (is_taken, 0 if is_taken else 7)


def test_of_a_job_that_says_nothing_of_its_progress_the_gpus_tell() -> None:
    m = running()
    assert not m.is_judged_by_gpus(), "it was not asked for"
    order = orders(seq=2)
    order["work"]["stall_s"] = 100
    m.take_orders(order, 1)
    m.take_progress((None, None), 1)
    assert m.is_judged_by_gpus()
    m.take_sign_of_life(90)
    assert not m.has_stalled(189)
    assert m.has_stalled(190)
    m.take_progress((1, None), 195)
    assert not m.is_judged_by_gpus()
    assert m.has_stalled(295), "busy GPUs do not excuse a job that used to say how far it is"


def bar(n: int, label: str = "Training") -> bytes:
    return f"{label} {n}%|###   | {n}/100 [00:10<00:10,  1.00it/s, loss=0.5]\n".encode()


def test_the_pace_of_what_is_recognised_is_measured_from_its_first_change(tmp_path: Path) -> None:
    """An hour passes until the first step is done: a compile, a cold cache."""
    progress = Progress(str(tmp_path / "progress.json"))
    assert progress.recognise(0) is None
    for n, at in ((0, 0), (1, 3600), (2, 3610), (21, 3800)):
        progress.feed(bar(n), at)
    found = progress.recognise(3800)
    assert found is not None
    assert (found["left_s"], found["seen"]) == (pytest.approx(79 * 10), pytest.approx(0.2))
    later = progress.recognise(4000)
    assert later is not None
    assert later["left_s"] == pytest.approx(79 * 20), "a bar that does not move is not nearly done"


def test_a_bar_that_begins_again_has_shown_no_pace(tmp_path: Path) -> None:
    progress = Progress(str(tmp_path / "progress.json"))
    for n in range(0, 60, 10):
        progress.feed(bar(n), n)
    progress.feed(b"Epoch 1/10\n", 60)
    progress.feed(b"Epoch 2/10\n", 70)
    found = progress.recognise(70)
    assert found is not None
    assert (found["form"], found["left_s"], found["seen"]) == ("epochs", None, 0.0)
