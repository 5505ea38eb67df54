"""Rights that make rights: what a token makes is never wider than itself, counts in its allowance, and ends with it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.api import requests
from autopilot.clock import SystemClock
from autopilot.config.settings import ApiSettings, ProviderSettings, Settings
from autopilot.domain.token import Scope
from autopilot.service.wiring import daemon
from autopilot_lab.sandbox.server import SandboxConfig, running_sandbox
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served, a_key
from tests.integration.service.test_service_access import Client, make, submit
from tests.integration.service.test_service_owners import UID
from tests.permissions import OTHER_USER

DENIED, UNKNOWN, CREATED = 403, 401, 201
DEAR, CHEAP = job_text(300, total='total = "$2"'), job_text(300, "cheap", total='total = "$1"')


def by(served: Served, secret: str) -> Client:
    """Of a token, a session or a link of which the secret is all that is known."""
    return Client(served, secret, "")


async def make_by(maker: Client, name: str, scope: str = "admin", **wish: Any) -> Client:
    status, body = await maker.call("POST", "/v1/tokens", {"name": name, "scope": scope, **wish})
    assert status == CREATED, body
    return Client(maker.served, body["secret"], name)


async def a_bounded_maker(served: Served, **more: Any) -> Client:
    bounds = {"allow": "$1", "ask_above": "$1", "expires": "1d", "secrets": ["hf"]} | more
    return await make(served, "maker", "admin", **bounds)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("wish", "right", "has"),
    [
        ({"secrets": ["hf", "aws"]}, "the secret 'aws'", "the secrets hf"),
        ({"allow": "$2"}, "an allowance of $2.00 for its whole life", "$1.00 for its whole life"),
        ({"allow": "$0.50/month"}, "an allowance of $0.50/month", "$1.00 for its whole life"),
        ({"ask_above": "$1.01"}, "to ask above $1.01", "to ask above $1.00"),
        ({"expires": "2d"}, "an end on ", "one on "),
    ],
)
async def test_a_wish_that_is_wider_is_refused_and_says_what_the_maker_has(
    served: Served, wish: dict[str, Any], right: str, has: str
) -> None:
    maker = await a_bounded_maker(served)
    status, body = await maker.call("POST", "/v1/tokens", {"name": "wide", "scope": "admin", **wish})
    assert (status, body["reason"]) == (DENIED, "not_allowed")
    wished, _, held = body["detail"].partition(", and its maker has ")
    assert (right in wished, has in held) == (True, True), body
    assert [each["name"] for each in (await served.call("GET", "/v1/tokens"))[1]["tokens"]] == ["maker"]


async def test_a_wish_that_names_nothing_gets_its_maker_s_bounds(served: Served) -> None:
    maker = await a_bounded_maker(served)
    await make_by(maker, "made", "submit")
    by_user, by_token = (await served.call("GET", "/v1/tokens"))[1]["tokens"]
    bounds = ("allowance", "is_monthly", "ask_above", "expires_at")
    assert [by_token[key] for key in bounds] == [by_user[key] for key in bounds]
    assert (by_token["secrets"], by_token["sees_all"]) == ([], False), "rights are there where they are asked for"
    status, body = await served.call("GET", f"/v1/jobs?owner={by_user['made_by']}")
    assert (status, by_token["made_by"]) == (200, "token:maker"), body


async def test_the_whole_attack(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    """A token of a dollar that asks and ends makes a second one, which was to do none of it."""
    monkeypatch.setattr("autopilot.service.wiring.read_secret", lambda name: "value")
    maker = await make(served, "maker", "admin", allow="$1", ask_above="$1", expires="1d")
    status, body = await maker.call("POST", "/v1/tokens", {"name": "second", "scope": "admin", "secrets": ["hf"]})
    assert (status, "'hf'" in body["detail"]) == (DENIED, True), "it names a secret that its maker may not name"
    second = await make_by(maker, "second")
    naming = CHEAP + '[secrets]\nHF_TOKEN = "hf"\n'
    assert (await second.call("POST", "/v1/jobs", {"toml": naming}))[0] == DENIED
    status, body = await maker.call("POST", "/v1/jobs", {"toml": DEAR})
    plan = body["plan"]
    assert (status, body["reason"]) == (409, "confirm_first")
    status, body = await second.call("POST", f"/v1/plans/{plan}/confirm")
    assert (status, "a token of its maker" in body["detail"]) == (DENIED, True), body
    status, body = await second.call("POST", "/v1/jobs", {"toml": DEAR})
    assert (status, body["reason"]) == (409, "confirm_first"), "it asks as its maker does"
    status, body = await maker.call("POST", f"/v1/plans/{body['plan']}/confirm")
    assert (status, "above $1.00 you need a confirmation yourself" in body["detail"]) == (DENIED, True), body
    waiting = await submit(second, CHEAP)
    rows = {row["name"]: row for row in (await served.call("GET", "/v1/budget"))[1]["tokens"]}
    assert (rows["second"]["made_by"], rows["second"]["limit"], rows["maker"]["limit"]) == ("token:maker", "1", "1")
    status, body = await served.call("POST", "/v1/tokens/maker/revoke")
    assert (status, body["ended"], body["parked"]) == (200, ["second"], [waiting["id"]])
    assert (await second.call("GET", "/v1/status"))[0] == UNKNOWN
    assert (await served.call("POST", f"/v1/plans/{plan}/confirm"))[0] == 200, "a person still can"


@pytest.mark.slow
async def test_what_a_token_makes_spends_its_maker_s_allowance(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = await make(served, "maker", "admin", allow="$20/month")
    second = await make_by(maker, "second", allow="$5")
    third = await make_by(second, "third", "submit", allow="$4")
    await submit(third), await submit(maker, CHEAP)
    await served.daemon.engine.tick()
    now = served.daemon.clock.now()
    monkeypatch.setattr(type(served.daemon.clock), "now", lambda self: now)
    budget = (await served.call("GET", "/v1/budget"))[1]
    counted, by_job = (
        {row["name"]: sum(Decimal(row[part]) for part in ("posted", "accrued", "held")) for row in budget[key]}
        for key in ("tokens", "jobs")
    )
    assert counted["third"] == counted["second"] > 0
    assert counted["maker"] == sum(by_job.values()) > counted["second"]
    assert [row["made_by"] for row in budget["tokens"]][1:] == ["token:maker", "token:second"]
    (own,) = (await third.call("GET", "/v1/budget"))[1]["tokens"]
    assert own["name"] == "third", "what its makers have is not its to see"


async def test_jobs_of_all_that_it_made_count_with_a_token_s_own(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.api.same_job.MOST_OPEN_JOBS", 2)
    maker = await make(served, "maker", "admin")
    second = await make_by(maker, "second")
    third = await make_by(second, "third")
    await submit(third), await submit(maker, CHEAP)
    for token in (maker, second, third):
        status, body = await token.call("POST", "/v1/jobs", {"toml": DEAR, "again": True})
        assert (status, "2 open jobs" in body["detail"]) == (DENIED, True), body
    await submit(await make(served, "other"))


@pytest.mark.slow
async def test_all_that_was_made_ends_with_its_maker_however_far_down(served: Served) -> None:
    first = await make(served, "first", "admin")
    second = await make_by(first, "second")
    third, beside = await make_by(second, "third"), await make_by(first, "beside")
    jobs = [await submit(token) for token in (second, third, beside)]
    status, body = await first.call("POST", "/v1/tokens/second/revoke")
    assert (status, body["ended"], set(body["parked"])) == (200, ["third"], {jobs[0]["id"], jobs[1]["id"]})
    asked = [(await token.call("GET", "/v1/status"))[0] for token in (first, second, third, beside)]
    assert asked == [200, UNKNOWN, UNKNOWN, 200]
    in_force = {each["name"]: each["in_force"] for each in (await served.call("GET", "/v1/tokens"))[1]["tokens"]}
    assert in_force == {"first": True, "second": False, "third": False, "beside": True}


async def test_it_ends_when_its_maker_expires(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    maker = await make(served, "maker", "admin", expires="1h")
    made = await make_by(maker, "made", expires="30m")
    longest = await make_by(maker, "longest")
    now = served.daemon.clock.now()
    for later, statuses in ((timedelta(minutes=31), [UNKNOWN, 200]), (timedelta(hours=1), [UNKNOWN, UNKNOWN])):
        monkeypatch.setattr(type(served.daemon.clock), "now", lambda self, at=now + later: at)
        assert [(await token.call("GET", "/v1/status"))[0] for token in (made, longest)] == statuses


async def test_a_row_that_is_wider_than_its_maker_gives_no_more(served: Served) -> None:
    """Each call reads rights along the line of makers, regardless of what the row in the ledger says."""
    maker = await make(served, "maker", "admin", ask_above="$1")
    made = await make_by(maker, "made", "read")
    async with served.daemon.engine._store.transaction() as uow:
        of_maker, of_made = await uow.tokens.list_all()
        await uow.tokens.save(replace(of_made, scope=Scope.ADMIN, secrets=("hf",), sees_all=True, ask_above=None))
        await uow.tokens.save(replace(of_maker, scope=Scope.SUBMIT))
    assert (await made.call("GET", "/v1/tokens"))[0] == DENIED
    status, body = await made.call("POST", "/v1/jobs", {"toml": DEAR})
    assert (status, body["reason"]) == (409, "confirm_first")
    assert (await made.call("POST", "/v1/jobs", {"toml": CHEAP + '[secrets]\nA = "hf"\n'}))[0] == DENIED
    _, told = (await served.call("GET", "/v1/tokens"))[1]["tokens"]
    assert (told["scope"], told["secrets"], told["sees_all"], told["ask_above"]) == ("submit", [], False, "1")
    async with served.daemon.engine._store.transaction() as uow:
        await uow.tokens.save(replace(of_made, made_by=-99))
    assert (await made.call("GET", "/v1/status"))[0] == UNKNOWN, "its maker is unknown"


async def test_a_token_of_a_ledger_of_before_is_bound_by_itself(served: Served) -> None:
    old = await make(served, "old", "admin")
    async with served.daemon.engine._store.transaction() as uow:
        (row,) = await uow.tokens.list_all()
        assert (row.made_by, row.made_under) == (os.getuid(), "")
        await uow.tokens.save(replace(row, made_by=None))
    assert (await old.call("GET", "/v1/status"))[0] == 200
    (told,) = (await old.call("GET", "/v1/tokens"))[1]["tokens"]
    assert (told["made_by"], told["in_force"]) == (None, True)
    await make_by(old, "new", allow="$900")


async def test_who_could_confirm_still_can(served: Served) -> None:
    """A maker is wider than what it made, and another is no descendant."""
    maker = await make(served, "maker", "admin")
    asking = await make_by(maker, "asking", "submit", ask_above="$1")
    other = await make(served, "other", "admin", ask_above="$2")
    poor = await make(served, "poor", "admin", ask_above="$1.99")
    for confirmer, status in ((maker, 200), (other, 200), (poor, DENIED), (served, 200)):
        plan = (await asking.call("POST", "/v1/jobs", {"toml": DEAR}))[1]["plan"]
        assert (await confirmer.call("POST", f"/v1/plans/{plan}/confirm"))[0] == status


# Users of the socket whom the settings limit. Each daemon takes up the ledger of the one before.


@asynccontextmanager
async def serving(root: Path, **settings: Any) -> AsyncIterator[Served]:
    async with AsyncExitStack() as stack:
        market = SandboxConfig(state_dir=root / "market", real_processes=False)
        sandbox = await stack.enter_async_context(running_sandbox(market, SystemClock()))
        made = Settings(
            state_dir=root / "state",
            api=ApiSettings(socket=root / "run" / "s"),
            providers={"vastai": ProviderSettings(base_url=sandbox.url, api_key_file=a_key(root))},
            **settings,
        )
        joined = await stack.enter_async_context(daemon(made))
        await joined.engine.tick()
        connector = aiohttp.UnixConnector(str(made.socket_path))
        yield Served(joined, await stack.enter_async_context(aiohttp.ClientSession(connector=connector)))


def limit(**keys: Any) -> dict[str, Any]:
    return {"owners": {OTHER_USER: keys}}


@pytest.mark.slow
async def test_a_limited_user_makes_nothing_wider_and_it_ends_with_their_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    own = os.getuid()

    def become(uid: int) -> None:
        monkeypatch.setattr(requests, "peer_uid", lambda _: uid)

    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with serving(Path(name), **limit(scope="admin", allow="$3", ask_above="$1", secrets=["hf"])) as served:
            become(UID)
            for wish in ({"allow": "$4"}, {"ask_above": "$2"}, {"secrets": ["aws"]}):
                status, body = await served.call("POST", "/v1/tokens", {"name": "wide", "scope": "admin", **wish})
                assert (status, body["reason"]) == (DENIED, "not_allowed")
            made = await make(served, "made", "admin", secrets=["hf"])
            second = await make_by(made, "second")
            plan = (await served.call("POST", "/v1/jobs", {"toml": DEAR}))[1]["plan"]
            for token in (made, second):
                status, body = await token.call("POST", f"/v1/plans/{plan}/confirm")
                assert (status, "a token of its maker" in body["detail"]) == (DENIED, True), body
            await submit(second, CHEAP), await submit(served, CHEAP.replace('"cheap"', '"mine"'))
            link = (await served.call("POST", "/v1/page/link"))[1]["path"].rpartition("/")[2]
            session = (await by(served, link).call("POST", "/v1/page/enter"))[1]["secret"]
            become(own)
            await served.daemon.engine.tick()
            budget = (await served.call("GET", "/v1/budget"))[1]
            rows = {row["name"]: row for row in budget["tokens"]}
            assert {name: row["made_by"] for name, row in rows.items()} == {
                OTHER_USER: None,
                "made": OTHER_USER,
                "second": "token:made",
            }
            assert Decimal(rows[OTHER_USER]["held"]) > Decimal(rows["made"]["held"]) > 0
        async with serving(Path(name), **limit(scope="submit", allow="$3")) as served:
            assert (await by(served, made.secret).call("GET", "/v1/tokens"))[0] == DENIED, "now their maker may less"
            assert (await by(served, second.secret).call("GET", "/v1/status"))[0] == 200
            assert (await by(served, session).call("GET", "/v1/page"))[1]["scope"] == "submit"
        async with serving(Path(name)) as served:
            for secret in (made.secret, second.secret, session):
                assert (await by(served, secret).call("GET", "/v1/status"))[0] == UNKNOWN
            told = (await served.call("GET", "/v1/tokens"))[1]["tokens"]
            assert [(each["name"], each["in_force"]) for each in told] == [("made", False), ("second", False)]
        async with serving(Path(name), **limit(scope="admin", allow="$3")) as served:
            assert (await by(served, made.secret).call("GET", "/v1/status"))[0] == UNKNOWN, "for good"


@pytest.mark.parametrize("served", [limit(scope="admin", allow="$3")], indirect=True)
async def test_what_a_limited_user_made_is_told_to_prometheus_and_they_are_not(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = os.getuid()
    monkeypatch.setattr(requests, "peer_uid", lambda _: UID)
    await make(served, "made", "admin", allow="$2")
    monkeypatch.setattr(requests, "peer_uid", lambda _: own)
    async with served.http.get("http://localhost/metrics") as answer:
        lines = [line for line in (await answer.text()).splitlines() if "token_allowance_remaining_dollars{" in line]
    assert lines == ['autopilot_token_allowance_remaining_dollars{token="made"} 2.0']


@pytest.mark.slow
async def test_a_user_who_is_limited_later_limits_what_they_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        async with serving(Path(name)) as served:
            monkeypatch.setattr(requests, "peer_uid", lambda _: UID)
            made = await make(served, "made", "admin")
        async with serving(Path(name), **limit(scope="submit", ask_above="$1")) as served:
            assert (await by(served, made.secret).call("GET", "/v1/tokens"))[0] == DENIED
            status, body = await by(served, made.secret).call("POST", "/v1/jobs", {"toml": DEAR})
            assert (status, body["reason"]) == (409, "confirm_first")
        async with serving(Path(name)) as served:
            assert (await by(served, made.secret).call("GET", "/v1/tokens"))[0] == 200
