"""Tokens over the control socket: every call by every scope, other owners' jobs, secrets, and what ends a token."""

from __future__ import annotations

import hashlib
import json
import os
import pwd
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from structlog.testing import capture_logs

from autopilot.api import requests
from autopilot.api.access import RULES, Others, Rule
from autopilot.api.app import Api
from autopilot.books.spend import SPEND_KEYS
from autopilot.config import secret_files
from autopilot.domain.job import JobStatus
from autopilot.domain.token import Scope
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import BELOW_ALL, Served, own_name

GOOD = job_text(300, total='total = "$2"')
UNRENTED = GOOD + BELOW_ALL
NO_CODE = "0" * 64
DENIED, HIDDEN = 403, 404


@dataclass
class Client:
    """Calls with a token."""

    served: Served
    secret: str
    name: str

    async def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        headers = {"Authorization": f"Bearer {self.secret}"}
        data = None if body is None else json.dumps(body).encode()
        url = f"http://localhost{path}"
        async with self.served.http.request(method, url, data=data, headers=headers) as answer:
            is_json = answer.content_type.endswith("json")
            return answer.status, await answer.json(content_type=None) if is_json else {"text": await answer.text()}


async def make(served: Served, name: str = "", scope: str = "submit", **others: Any) -> Client:
    """With a token, of a name of its own unless one is given."""
    name = name or own_name("ci")
    status, body = await served.call("POST", "/v1/tokens", {"name": name, "scope": scope, **others})
    assert status == 201, body
    return Client(served, body["secret"], name)


async def submit(caller: Served | Client, toml: str = GOOD, **others: Any) -> Any:
    status, body = await caller.call("POST", "/v1/jobs", {"toml": toml, "again": True, **others})
    assert status == 201, body
    return body["job"]


def expected(rule: Rule, scope: Scope, *, sees_all: bool, of_job: bool, own: bool) -> int | None:
    """The status of a refusal; None: the call is allowed. Restated here from the page's words."""
    order = ["read", "operate", "submit", "admin"]
    if order.index(scope) < order.index(rule.scope):
        return DENIED
    if rule.others is Others.ALL and not (sees_all or scope is Scope.ADMIN):
        return DENIED
    if of_job and not own and scope is not Scope.ADMIN and not (sees_all and rule.others is Others.SEEN):
        return HIDDEN
    return None


async def submit_for(served: Served, owner: int) -> str:
    """The id of a job that is handed to that owner."""
    made = await submit(served)
    async with served.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(made["id"])
        assert job is not None
        object.__setattr__(job, "owner", owner)
        await uow.jobs.save(job)
    return str(made["id"])


@pytest.mark.parametrize("sees_all", [False, True])
@pytest.mark.parametrize("scope", list(Scope))
async def test_every_call_by_every_scope_for_own_and_other_jobs(shared: Served, scope: Scope, sees_all: bool) -> None:
    token = await make(shared, scope=scope, sees_all=sees_all)
    maker = await make(shared)
    others = await submit(maker)
    async with shared.daemon.engine._store.transaction() as uow:
        (mine,) = [each for each in await uow.tokens.list_all() if each.name == token.name]
    own = await submit_for(shared, mine.owner)
    for call, rule in RULES.items():
        method, _, address = call.partition(" ")
        of_job = address.startswith("/v1/jobs/{ref}")
        for is_own in (True, False) if of_job else (True,):
            names = {
                "sha256": NO_CODE,
                "number": "1",
                "market": "none",
                "machine": "m",
                "name": "none",
                "plan": "none",
                "schedule": "none",
            }
            path = address.replace("{ref}", (own if is_own else others["id"]) if of_job else "none")
            path = path.format(**names)
            status, body = await token.call(method, path, {} if method in ("POST", "PATCH") else None)
            refused = expected(rule, scope, sees_all=sees_all, of_job=of_job, own=is_own)
            reason = body.get("reason")
            if refused is None:
                assert status not in (401, DENIED), (call, is_own, body)
                assert not (of_job and status == HIDDEN), (call, is_own, body)
            else:
                wanted = {DENIED: "not_allowed", HIDDEN: "not_found"}[refused]
                assert (status, reason) == (refused, wanted), (call, is_own, body)
            if of_job and is_own and method != "GET" and status < 300:
                own = await submit_for(shared, mine.owner)  # the call has changed the one before
    assert (await shared.call("GET", f"/v1/jobs/{others['id']}"))[0] == 200


def test_every_route_has_a_rule() -> None:
    nothing: Any = None
    app = Api(*[nothing] * 10).app()  # routes are made without asking anything of them
    routes = {f"{route.method} {route.resource.canonical}" for route in app.router.routes() if route.resource}
    assert {route for route in routes if not route.startswith("HEAD ")} == RULES.keys()


@pytest.mark.slow
async def test_others_jobs_are_found_by_no_name_and_listed_nowhere(shared: Served) -> None:
    theirs = await submit(shared)
    token, other = await make(shared), await make(shared, "other")
    for ref in (theirs["id"], theirs["id"][:12], theirs["name"], theirs["id"].lower()):
        status, body = await token.call("POST", f"/v1/jobs/{ref}/cancel")
        assert (status, body["reason"]) == (404, "not_found")
        assert body == (await token.call("POST", f"/v1/jobs/{ref}/cancel"))[1]
    assert (await token.call("GET", "/v1/jobs?all=1"))[1] == {"jobs": [], "next": None}
    own = await submit(token)
    assert own["owner"] < 0
    assert own["name"] == theirs["name"]
    assert [job["id"] for job in (await token.call("GET", "/v1/jobs"))[1]["jobs"]] == [own["id"]]
    assert (await other.call("GET", "/v1/jobs?all=1"))[1] == {"jobs": [], "next": None}
    assert (await token.call("GET", "/v1/status"))[1]["jobs_open"] == 1
    assert {each["credit"] for each in (await token.call("GET", "/v1/status"))[1]["providers"]} == {None}
    # The newest of that name is the token's, and a user's call still means the user's.
    assert (await shared.call("GET", f"/v1/jobs/{own['name']}"))[1]["job"]["id"] == theirs["id"]
    assert (await token.call("POST", f"/v1/jobs/{own['name']}/cancel"))[1]["job"]["id"] == own["id"]
    assert (await shared.call("GET", f"/v1/jobs/{theirs['id']}"))[1]["job"]["status"] == "pending"


async def test_code_and_keys_of_requests_are_the_token_s_own(shared: Served) -> None:
    token = await make(shared)
    key = {"Idempotency-Key": own_name("k")}
    headers = {"Authorization": f"Bearer {token.secret}"} | key
    body = json.dumps({"toml": GOOD, "again": True}).encode()
    async with shared.http.post("http://localhost/v1/jobs", data=body, headers=key) as first:
        users = (await first.json())["job"]
    async with shared.http.post("http://localhost/v1/jobs", data=body, headers=headers) as second:
        tokens = (await second.json())["job"]
    assert users["owner"] == os.getuid()
    assert tokens["owner"] < 0
    assert users["id"] != tokens["id"]


async def test_a_token_s_job_needs_a_total(shared: Served) -> None:
    token = await make(shared)
    status, body = await token.call("POST", "/v1/jobs", {"toml": job_text(300, total="")})
    assert (status, body["reason"], "total" in body["hint"]) == (403, "not_allowed", True)


@pytest.mark.slow
async def test_a_token_has_so_many_jobs_at_once_and_no_more(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.api.same_job.MOST_OPEN_JOBS", 2)
    token, other = await make(served), await make(served, "other")
    first, _ = await submit(token, UNRENTED, min_probability=0), await submit(token, UNRENTED, min_probability=0)
    status, body = await token.call("POST", "/v1/jobs", {"toml": GOOD, "again": True})
    assert (status, body["reason"]) == (403, "not_allowed")
    assert "2 open jobs" in body["detail"]
    await submit(other, UNRENTED, min_probability=0)
    for _ in range(3):
        await submit(served, UNRENTED, min_probability=0)
    assert (await token.call("POST", f"/v1/jobs/{first['id']}/cancel"))[0] == 200
    await served.daemon.engine.tick()
    await submit(token, UNRENTED, min_probability=0)


REGISTRY = '[registry]\nserver = "ghcr.io"\nuser = "me"\npassword = "pull"\n'


async def test_a_token_uses_the_secrets_that_it_names_and_learns_of_no_other(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.service.wiring.read_secret", lambda name: {"hf": "v", "other": "w"}[name])
    token = await make(shared, secrets=["hf"])
    await submit(token, GOOD + '[secrets]\nHF_TOKEN = "hf"\n')
    answers = []
    for name in ("other", "there-is-none"):
        toml = GOOD + f'[secrets]\nA = "hf"\nB = "{name}"\n'
        for path in ("/v1/jobs", "/v1/offers"):
            status, body = await token.call("POST", path, {"toml": toml})
            assert (status, body["reason"]) == (403, "not_allowed")
            answers.append(body["detail"].replace(name, "NAME"))
    assert len(set(answers)) == 1
    private = GOOD.replace('image = "', 'image = "ghcr.io/me/') + REGISTRY
    monkeypatch.setattr(secret_files, "read_registry", lambda name: ("ghcr.io", "password"))
    status, body = await token.call("POST", "/v1/jobs", {"toml": private})
    assert (status, "'pull'" in body["detail"]) == (403, True), body


@pytest.mark.parametrize(
    "header",
    ["Bearer", "Bearer ", "Bearer aptk_wrong", "Basic cm9vdDpyb290", "aptk", "Bearer " + "a" * 5000, "bearer\t x"],
)
async def test_what_is_no_token_is_answered_by_nothing_of_the_user_at_the_socket(shared: Served, header: str) -> None:
    url = "http://localhost/v1/status"
    async with shared.http.get(url, headers={"Authorization": header}) as answer:
        assert (answer.status, answer.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert (await answer.json(content_type=None))["reason"] == "unauthorised"


async def test_two_tokens_at_once_are_none(shared: Served) -> None:
    token = await make(shared)
    headers = [("Authorization", f"Bearer {token.secret}"), ("Authorization", f"Bearer {token.secret}")]
    async with shared.http.get("http://localhost/v1/status", headers=headers) as answer:
        assert answer.status == 401


async def test_a_token_is_required_where_no_kernel_identifies_the_caller(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requests, "peer_uid", lambda request: None)
    assert (await shared.call("GET", "/v1/status"))[0] == 401
    assert (await shared.call("GET", "/v1/nowhere"))[0] == 401


async def test_a_token_ends_when_it_expires(shared: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    token = await make(shared, expires="1h")
    assert (await token.call("GET", "/v1/status"))[0] == 200
    now = shared.daemon.clock.now()
    monkeypatch.setattr(type(shared.daemon.clock), "now", lambda self: now + timedelta(hours=1))
    assert (await token.call("GET", "/v1/status"))[0] == 401


@pytest.mark.parametrize("park", [False, True])
async def test_a_revoked_token_is_answered_nothing_and_its_jobs_are_parked(shared: Served, park: bool) -> None:
    token = await make(shared)
    begun, waiting, others = await submit(token), await submit(token), await submit(shared)
    async with shared.daemon.engine._store.transaction() as uow:
        job = await uow.jobs.find(begun["id"])
        assert job is not None
        object.__setattr__(job, "launches", 1)
        await uow.jobs.save(job)
    status, body = await shared.call("POST", f"/v1/tokens/{token.name}/revoke", {"park": park})
    assert (status, set(body["parked"])) == (200, {waiting["id"], *([begun["id"]] if park else [])})
    assert (await token.call("GET", "/v1/status"))[0] == 401
    statuses = {job["id"]: job["status"] for job in (await shared.call("GET", "/v1/jobs"))[1]["jobs"]}
    assert (statuses[waiting["id"]], statuses[others["id"]]) == (JobStatus.STOPPING, JobStatus.PENDING)
    assert statuses[begun["id"]] == (JobStatus.STOPPING if park else JobStatus.PENDING)
    assert (await shared.call("POST", f"/v1/tokens/{token.name}/revoke"))[0] == 422
    again = await make(shared, token.name)  # the name is free, and the number is another
    assert (await again.call("GET", "/v1/jobs"))[1] == {"jobs": [], "next": None}
    listed = (await shared.call("GET", "/v1/tokens"))[1]["tokens"]
    first, second = (each["number"] for each in listed if each["name"] == token.name)
    assert first < second


async def test_the_value_of_a_token_is_in_one_answer_and_nowhere_else(shared: Served) -> None:
    with capture_logs() as logs:
        token = await make(shared)
        await token.call("POST", "/v1/jobs", {"toml": "not TOML ["})
        await token.call("GET", f"/v1/jobs/{token.secret}")
    assert len(token.secret) == len("aptk_") + 43
    assert token.secret not in json.dumps((await shared.call("GET", "/v1/tokens"))[1])
    assert token.secret not in repr([entry for entry in logs if entry.get("path") is None])
    async with shared.daemon.engine._store.snapshot() as uow:
        (kept,) = [each for each in await uow.tokens.list_all() if each.name == token.name]
    assert token.secret not in repr(kept)
    assert kept.sha256 == hashlib.sha256(token.secret.encode()).hexdigest()


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        ({"name": "", "scope": "read"}, "name"),
        ({"name": "../x", "scope": "read"}, "name"),
        ({"name": "ci", "scope": "root"}, "scope: input should be"),
        ({"name": "ci", "scope": "read", "expires": "-1h"}, "-1h"),
        ({"name": "ci", "scope": "read", "expires": "99999d"}, "3650d"),
        ({"name": "ci", "scope": "read", "secrets": "hf"}, "secrets: "),
        ({"name": "ci", "scope": "read", "secrets": ["../hf"]}, "names"),
        ({"name": "ci", "scope": "read", "secrets": [7]}, "secrets.0 must be a string"),
        ({"name": "ci", "scope": "read", "sees_all": 1}, "true or false"),
    ],
)
async def test_a_token_that_cannot_be_is_refused(shared: Served, wish: dict[str, Any], message: str) -> None:
    before = await shared.call("GET", "/v1/tokens")
    status, body = await shared.call("POST", "/v1/tokens", wish)
    assert (status, message in body["detail"]) == (422, True), body
    assert await shared.call("GET", "/v1/tokens") == before


@pytest.mark.parametrize("allow", ["$0", "-1", "$5/week", "$5/", "lots", "NaN", "1e99", "$0.0000000001/month"])
async def test_an_allowance_that_cannot_be_is_refused(shared: Served, allow: str) -> None:
    status, body = await shared.call("POST", "/v1/tokens", {"name": "ci", "scope": "submit", "allow": allow})
    assert (status, body["reason"]) == (422, "bad_input")


def stop_clock(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing accrues between two calls."""
    now = served.daemon.clock.now()
    monkeypatch.setattr(type(served.daemon.clock), "now", lambda self: now)


@pytest.mark.slow
async def test_the_allowance_is_shown_with_what_counts_against_it(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await make(served, "ci", allow="$20/month")
    await make(served, "life", allow="$5.50")
    await make(served, "free")
    listed = (await served.call("GET", "/v1/tokens"))[1]["tokens"]
    assert [(each["allowance"], each["is_monthly"]) for each in listed] == [("20", True), ("5.5", False), (None, False)]
    job = await submit(token)
    await served.daemon.engine.tick()
    stop_clock(served, monkeypatch)
    budget = (await served.call("GET", "/v1/budget"))[1]
    month, life = budget["tokens"]
    assert (month["name"], month["limit"], life["left"]) == ("ci", "20", "5.5")
    (of_job,) = [each for each in budget["jobs"] if each["id"] == job["id"]]
    parts = ("posted", "accrued", "held")
    assert Decimal(month["left"]) == 20 - sum(Decimal(month[part]) for part in parts)
    assert month["held"] != "0"
    assert [month[part] for part in parts] == [of_job[part] for part in parts]
    (own,) = (seen := (await token.call("GET", "/v1/budget"))[1])["jobs"]
    assert (seen["account"], own, seen["tokens"]) == (None, of_job, [month])
    other = await make(served, "other", allow="$1")
    seen = (await other.call("GET", "/v1/budget"))[1]
    assert (seen["account"], seen["jobs"], [each["name"] for each in seen["tokens"]]) == (None, [], ["other"])


async def test_a_name_is_in_force_once(shared: Served) -> None:
    token = await make(shared)
    status, body = await shared.call("POST", "/v1/tokens", {"name": token.name, "scope": "read"})
    assert (status, "revoke it first" in body["hint"]) == (422, True)


@pytest.mark.slow
async def test_spend_is_shown_by_owner_and_tag_and_to_a_token_its_own(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = await make(served, "ci")
    theirs, own = await submit(served), await submit(token, 'tags = { project = "x" }\n' + GOOD)
    await served.daemon.engine.tick()
    stop_clock(served, monkeypatch)
    rows = (await served.call("GET", "/v1/spend?by=owner"))[1]["rows"]
    user = pwd.getpwuid(os.getuid()).pw_name
    assert {(row["key"], row["name"]) for row in rows} == {("-1", "token:ci"), (str(os.getuid()), user)}
    assert all(Decimal(row["held"]) > 0 for row in rows)
    by_tag = {row["key"]: row["held"] for row in (await served.call("GET", "/v1/spend?by=tag:project"))[1]["rows"]}
    by_owner = {row["key"]: row["held"] for row in rows}
    assert by_tag == {"": by_owner[str(os.getuid())], "x": by_owner["-1"]}
    seen = (await token.call("GET", "/v1/spend?by=job"))[1]
    assert [row["key"] for row in seen["rows"]] == [own["id"]]
    assert seen["total_row"]["held"] == by_owner["-1"]
    for by in (*SPEND_KEYS, "tag:project"):  # CSV and Parquet files are made of these rows
        seen = (await token.call("GET", f"/v1/spend?by={by}"))[1]
        assert sum(Decimal(row["held"]) for row in seen["rows"]) == Decimal(by_owner["-1"]), by
        assert theirs["id"] not in str(seen)
    assert (await served.call("GET", "/v1/spend?by=tag:"))[0] == 422
    assert (await token.call("GET", "/v1/page/money"))[0] == DENIED
    assert theirs["id"] != own["id"]


async def test_jobs_are_listed_by_their_owner(shared: Served) -> None:
    token = await make(shared)
    theirs, own = await submit(shared), await submit(token)
    user = pwd.getpwuid(os.getuid()).pw_name
    number = str(own["owner"])
    for owner, expected in ((f"token:{token.name}", own), (number, own), (user, theirs), (str(os.getuid()), theirs)):
        for query in ("all=0", "all=1"):
            status, body = await shared.call("GET", f"/v1/jobs?{query}&owner={owner}")
            assert status == 200
            assert expected["id"] in [job["id"] for job in body["jobs"]]
            assert {job["owner"] for job in body["jobs"]} == {expected["owner"]}
    assert (await token.call("GET", f"/v1/jobs?owner={os.getuid()}"))[1]["jobs"] == []
    status, body = await shared.call("GET", "/v1/jobs?owner=no-such-user")
    assert (status, "no owner" in body["detail"]) == (422, True)
