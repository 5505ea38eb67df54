"""What a token may only do once a person has said so: a plan, who confirms it, and what it is good for."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served, own_name

DEAR, CHEAP = job_text(300, total='total = "$2"'), job_text(300, "cheap", total='total = "$1"')


class Program:
    """Calls with a token."""

    def __init__(self, served: Served, secret: str, owner: int) -> None:
        self.served, self.secret, self.owner = served, secret, owner

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.secret}"}
        data = None if body is None else json.dumps(body).encode()
        async with self.served.http.request(method, f"http://localhost{path}", data=data, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)

    async def submit(self, toml: str = DEAR, **more: Any) -> tuple[int, Any]:
        return await self.call("POST", "/v1/jobs", {"toml": toml, **more})

    async def ask(self, toml: str = DEAR, **more: Any) -> str:
        """The plan that is to be confirmed."""
        status, body = await self.submit(toml, **more)
        assert (status, body["reason"]) == (409, "confirm_first"), body
        return str(body["plan"])


async def make(served: Served, scope: str = "submit", ask_above: str = "$1") -> Program:
    wish = {"name": own_name("agent"), "scope": scope, "ask_above": ask_above}
    status, body = await served.call("POST", "/v1/tokens", wish)
    assert (status, body["token"]["ask_above"]) == (201, ask_above.removeprefix("$")), body
    return Program(served, body["secret"], -body["token"]["number"])


async def confirm(served: Served | Program, plan: str) -> tuple[int, Any]:
    return await served.call("POST", f"/v1/plans/{plan}/confirm")


async def waiting_of(served: Served, program: Program) -> list[Any]:
    plans = (await served.call("GET", "/v1/plans"))[1]["plans"]
    return [plan for plan in plans if plan["owner"] == program.owner]


async def test_a_person_confirms_and_the_plan_is_good_once(shared: Served) -> None:
    program = await make(shared)
    plan = await program.ask()
    assert await program.ask() == plan, "the same request waits under the same id"
    assert (await program.call("GET", "/v1/jobs?all=1"))[1]["jobs"] == []
    (waiting,) = await waiting_of(shared, program)
    assert (waiting["id"], waiting["budget"], waiting["is_confirmed"]) == (plan, "2", False)
    status, body = await program.submit(plan=plan)
    assert (status, "is not confirmed yet" in body["detail"]) == (403, True)
    status, body = await confirm(shared, plan)
    assert (status, body["plan"]["is_confirmed"]) == (200, True)
    assert (await program.submit(plan=plan))[0] == 201
    status, body = await program.submit(plan=plan, again=True)
    assert (status, "no plan" in body["detail"]) == (403, True)
    assert await program.ask(again=True) != plan


async def test_an_amount_within_the_limit_needs_no_confirmation(shared: Served) -> None:
    program = await make(shared)
    assert (await program.submit(CHEAP))[0] == 201
    assert (await program.call("POST", "/v1/jobs", {"toml": DEAR, "dry_run": True}))[0] == 200
    assert await waiting_of(shared, program) == []
    status, _ = await shared.call("POST", "/v1/jobs", {"toml": DEAR, "again": True})
    assert status == 201, "a user of the socket is the person"


async def test_a_plan_is_about_what_was_asked_and_nothing_else(shared: Served) -> None:
    program = await make(shared)
    plan = await program.ask()
    await confirm(shared, plan)
    dearer, longer = DEAR.replace("$2", "$3"), DEAR.replace("--steps 300", "--steps 301")
    for other in (dearer, longer, DEAR + "[retry]\nmax_attempts = 9"):
        status, body = await program.submit(other, plan=plan)
        assert (status, "another change" in body["detail"]) == (403, True), body
    stranger = await make(shared)
    assert (await stranger.submit(plan=plan))[0] == 403
    assert (await program.submit(plan=plan))[0] == 201, "who has failed with it has not used it up"


async def test_the_maker_of_a_plan_cannot_confirm_it(shared: Served) -> None:
    program, admin = await make(shared), await make(shared, "admin")
    other = await make(shared, "admin", "$2")
    plan, own = await program.ask(), await admin.ask()
    assert (await confirm(program, plan))[0] == 403
    status, body = await confirm(admin, own)
    assert (status, body["reason"]) == (403, "not_allowed")
    assert (await confirm(other, own))[0] == 200
    assert (await confirm(shared, "nothing"))[0] == 422


async def test_a_plan_is_good_for_ten_minutes(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    program = await make(shared)
    plan = await program.ask()
    await confirm(shared, plan)
    later = shared.daemon.clock.now() + timedelta(minutes=10)
    monkeypatch.setattr(type(shared.daemon.clock), "now", lambda self: later)
    assert (await program.submit(plan=plan))[0] == 403
    assert (await confirm(shared, plan))[0] == 422
    assert await waiting_of(shared, program) == []


async def test_a_submit_that_fails_leaves_its_plan(shared: Served) -> None:
    program = await make(shared)
    first = await program.ask()
    await confirm(shared, first)
    assert (await program.submit(plan=first))[0] == 201
    second = await program.ask()
    await confirm(shared, second)
    status, body = await program.submit(plan=second)
    assert (status, body["reason"]) == (409, "same_job_open")
    assert (await program.submit(plan=second, again=True))[0] == 201


async def test_raising_a_limit_asks_and_lowering_one_does_not(shared: Served) -> None:
    program = await make(shared)
    status, body = await program.submit(CHEAP)
    path = f"/v1/jobs/{body['job']['id']}"
    status, body = await program.call("PATCH", path, {"budget": "$5"})
    assert (status, body["reason"]) == (409, "confirm_first")
    plan = body["plan"]
    (waiting,) = await waiting_of(shared, program)
    assert (waiting["what"], waiting["budget"]) == ("change budget=$5", "5")
    await confirm(shared, plan)
    assert (await program.call("PATCH", path, {"budget": "$6", "plan": plan}))[0] == 403
    assert (await program.call("PATCH", path, {"budget": "$5", "plan": plan}))[0] == 200
    assert (await program.call("PATCH", path, {"budget": "$4"}))[0] == 200
    assert (await program.call("PATCH", path, {"max_rate": "$3"}))[0] == 200, "a new limit leaves it less"
    assert (await program.call("PATCH", path, {"max_rate": "none"}))[0] == 409


async def test_so_many_plans_of_an_owner_wait(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.api.confirmations.PLANS_OF_AN_OWNER", 2)
    program = await make(shared)
    plans = [await program.ask(DEAR.replace("$2", f"${total}")) for total in (2, 3, 4)]
    assert [plan["id"] for plan in await waiting_of(shared, program)] == plans[1:]


@pytest.mark.parametrize("amount", ["$0", "-1", "lots"])
async def test_an_amount_that_cannot_be_is_refused(shared: Served, amount: str) -> None:
    wish = {"name": "ci", "scope": "submit", "ask_above": amount}
    assert (await shared.call("POST", "/v1/tokens", wish))[0] == 422
