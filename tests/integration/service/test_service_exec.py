"""The route of ``exec``: what a wrong call, a busy job and a silent machine are answered."""

from __future__ import annotations

from typing import Any

import pytest

from autopilot.engine.execs import ExecBusy, NoAnswer
from autopilot.mailbox.exec_answers import ExecAnswer, parse_exec_answer
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served


@pytest.mark.parametrize(
    "body", [[], {"command": 3}, {"command": "x", "timeout_s": "soon"}, {"command": "x", "timeout_s": True}]
)
async def test_a_call_that_makes_no_sense_is_refused(shared: Served, body: Any) -> None:
    assert (await shared.call("POST", "/v1/jobs/any/exec", body))[0] == 422


async def test_jobs_that_cannot_be_entered(shared: Served) -> None:
    assert (await shared.call("POST", "/v1/jobs/none/exec", {"command": "true"}))[0] == 404
    status, job = await shared.call("POST", "/v1/jobs", {"toml": job_text(300), "source": "job.toml", "again": True})
    assert status == 201
    status, answer = await shared.call("POST", f"/v1/jobs/{job['job']['id']}/exec", {"command": "true"})
    assert (status, "no running machine" in answer["detail"]) == (422, True)


@pytest.mark.parametrize(("problem", "status"), [(ExecBusy("busy"), 409), (NoAnswer("silent"), 504)])
async def test_busy_jobs_and_silent_machines_have_statuses_of_their_own(
    shared: Served, monkeypatch: pytest.MonkeyPatch, problem: Exception, status: int
) -> None:
    async def fail(*_: object) -> None:
        raise problem

    monkeypatch.setattr("autopilot.api.exec.ExecService.call", fail)
    assert (await shared.call("POST", "/v1/jobs/any/exec", {"command": "true"}))[0] == status


WHOLE = ExecAnswer(0, b"said", False, "timed_out")


def test_an_answer_is_of_its_call_and_exactly_of_its_shape() -> None:
    data = WHOLE.to_json("c1")
    assert parse_exec_answer(data, "c1") == WHOLE
    assert parse_exec_answer(data, "c2") is None
    for good, bad in [
        (b'"exit_code": 0', b'"exit_code": 256'),
        (b'"exit_code": 0', b'"exit_code": -1'),
        (b'"exit_code": 0', b'"exit_code": true'),
        (b'"exit_code": 0', b'"exit_code": 0.0'),
        (b'"is_cut": false', b'"is_cut": 0'),
        (b'"timed_out"', b'"\\u001b[2J"'),
        (b'"timed_out"', b'["exited"]'),
        (b'"c2FpZA=="', b'"c2FpZA"'),
        (b'"c2FpZA=="', b'"c2Fp\\u001bZA=="'),
        (b'"c2FpZA=="', b"7"),
        (b'"v": 1', b'"v": 2'),
    ]:
        assert good in data
        assert parse_exec_answer(data.replace(good, bad), "c1") is None, bad
