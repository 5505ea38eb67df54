"""Commands beside the job: each once, none that is old, within time and size, and none that outlives its leave."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.shipped import execs as shipped
from autopilot.agent.shipped.execs import Execs, fresh_until
from autopilot.agent.shipped.log import Log
from autopilot.agent.shipped.memory import Memory
from autopilot.agent.shipped.web import Web
from autopilot.mailbox.exec_answers import MAX_OUTPUT_BYTES, ExecAnswer, parse_exec_answer
from tests.patience import until


class Sent(Web):
    """Keeps what would be sent."""

    def __init__(self) -> None:
        super().__init__()
        self.bodies: list[bytes] = []

    def put(self, url: str, data: bytes) -> None:
        self.bodies.append(data)


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.web, self.log = Sent(), Log(1)
        self.memory = Memory(str(root), str(root / "container"))
        surroundings: Callable[[], Any] = lambda: (str(root), {"PATH": os.environ["PATH"], "WHO": "job"}, None)  # noqa: E731
        self.execs = Execs(self.memory, self.web, self.log, surroundings)

    def ask(self, command: str, call_id: str = "c1", timeout_s: int = 600) -> None:
        order = {"id": call_id, "command": command, "timeout_s": timeout_s, "issued_at": 1000, "url": "http://x"}
        self.execs.take(order, 100.0)

    def answer(self, call_id: str = "c1") -> ExecAnswer:
        assert self.execs.thread is not None
        self.execs.thread.join()
        answer = parse_exec_answer(self.web.bodies[-1], call_id)
        assert answer is not None
        return answer

    def run(self, command: str, **more: Any) -> ExecAnswer:
        self.ask(command, **more)
        self.execs.mind(True, 50.0)
        return self.answer(more.get("call_id", "c1"))


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    (tmp_path / "container").mkdir()
    return Bench(tmp_path)


def test_a_command_has_the_jobs_directory_and_environment(bench: Bench) -> None:
    answer = bench.run("pwd; echo $WHO; echo oops >&2; exit 7")
    assert answer == ExecAnswer(7, f"{bench.root}\njob\noops\n".encode(), False, "exited")


def test_what_cannot_be_started_is_answered(bench: Bench) -> None:
    bench.execs.surroundings = lambda: ("/no/such/place", {}, None)
    answer = bench.run("true")
    assert (answer.exit_code, answer.ended) == (127, "exited")
    assert b"/no/such/place" in answer.output


def test_the_same_id_runs_once_also_after_a_restart(bench: Bench) -> None:
    bench.run("echo x >> ran")
    bench.execs.mind(True, 50.0)
    again = Bench(bench.root)
    again.ask("echo x >> ran")
    again.execs.mind(True, 50.0)
    assert again.execs.thread is None
    assert again.run("echo y >> ran", call_id="c2").exit_code == 0
    assert (bench.root / "ran").read_text() == "x\ny\n"


def test_what_is_remembered_is_bounded(bench: Bench) -> None:
    bench.memory.save(execs=[f"o{i}" for i in range(shipped.MOST_REMEMBERED)])
    bench.run("true")
    assert bench.memory["execs"] == [*(f"o{i}" for i in range(1, shipped.MOST_REMEMBERED)), "c1"]


def test_what_cannot_be_written_down_is_not_run(bench: Bench) -> None:
    (bench.root / "memory.json.tmp").mkdir()
    bench.ask("touch ran")
    bench.execs.mind(True, 50.0)
    assert bench.execs.thread is None
    assert not (bench.root / "ran").exists()


@pytest.mark.parametrize("until", [None, 49.9])
def test_a_stale_command_is_not_run(bench: Bench, until: float | None) -> None:
    bench.ask("touch ran")
    bench.execs.take(bench.execs.order, until)
    bench.execs.mind(True, 50.0)
    assert bench.execs.thread is None
    assert "too long ago" in bench.log.error()
    bench.execs.take(None, None)
    assert bench.log.error() == ""


@pytest.mark.parametrize(
    ("answered_at", "until"),
    [
        (1000.0, 170.0),
        (1119.0, 51.0),
        (1120.0, 50.0),
        (1121.0, None),
        (990.0, 160.0),
        (879.0, None),  # a clock that is wrong by so much dates nothing
        (None, None),
    ],
)
def test_how_old_a_command_is_says_the_answer_that_brought_it(answered_at: float | None, until: float | None) -> None:
    assert fresh_until({"issued_at": 1000}, answered_at, 50.0) == until


def test_too_much_output_is_cut_and_the_command_goes_on(bench: Bench) -> None:
    answer = bench.run(f"head -c {MAX_OUTPUT_BYTES * 2} /dev/zero; touch ended")
    assert answer.is_cut
    assert answer.output == bytes(MAX_OUTPUT_BYTES)
    assert (answer.exit_code, answer.ended) == (0, "exited")
    assert (bench.root / "ended").exists()


def test_exactly_as_much_as_an_answer_holds_is_not_cut(bench: Bench) -> None:
    answer = bench.run(f"head -c {MAX_OUTPUT_BYTES} /dev/zero")
    assert (len(answer.output), answer.is_cut) == (MAX_OUTPUT_BYTES, False)


def test_at_its_time_the_whole_group_is_killed(bench: Bench) -> None:
    answer = bench.run("sleep 100 & echo $! > child; echo began; wait", timeout_s=3)
    assert (answer.exit_code, answer.ended, answer.output) == (124, "timed_out", b"began\n")
    assert is_dead(int((bench.root / "child").read_text()))


def test_what_a_command_leaves_in_its_group_goes_with_it(bench: Bench) -> None:
    answer = bench.run("sleep 100 & echo $! > child")
    assert answer.ended == "exited"
    assert is_dead(int((bench.root / "child").read_text()))


def test_once_it_may_not_run_it_is_killed_and_answered(bench: Bench) -> None:
    bench.ask("touch began; sleep 100")
    bench.execs.mind(True, 50.0)
    until((bench.root / "began").exists)
    bench.execs.mind(False, 50.0)
    answer = bench.answer()
    assert (answer.exit_code, answer.ended) == (137, "stopped")
    bench.ask("touch ran", "c2")
    bench.execs.mind(False, 50.0)
    assert not (bench.root / "ran").exists()


def test_with_the_agent_it_ends(bench: Bench) -> None:
    bench.ask("echo $$ > pid; sleep 100")
    bench.execs.mind(True, 50.0)
    until(lambda: (bench.root / "pid").exists() and (bench.root / "pid").read_text())
    bench.execs.end()
    assert is_dead(int((bench.root / "pid").read_text()))


def test_a_second_one_waits_for_the_first(bench: Bench) -> None:
    bench.ask("echo one >> ran; read go < gate; echo end >> ran")
    os.mkfifo(bench.root / "gate")
    bench.execs.mind(True, 50.0)
    until((bench.root / "ran").exists)
    bench.ask("echo two >> ran", "c2")
    bench.execs.mind(True, 50.0)
    (bench.root / "gate").write_text("\n")
    assert bench.answer().exit_code == 0
    bench.execs.mind(True, 50.0)
    assert bench.answer("c2").exit_code == 0
    assert (bench.root / "ran").read_text() == "one\nend\ntwo\n"


def is_dead(pid: int) -> bool:
    def look() -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
        except OSError:
            return True

    return bool(until(look))
