"""Users of the control socket whom the settings limit: every call by every scope, their secrets, plans and pages."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from typing import Any

import pytest

from autopilot.api import requests
from autopilot.api.access import RULES
from autopilot.domain.token import Scope
from tests.integration.service.service_world import Served
from tests.integration.service.test_service_access import DENIED, GOOD, HIDDEN, NO_CODE, expected, submit
from tests.permissions import OTHER_USER

UID = pwd.getpwnam(OTHER_USER).pw_uid


def limits(**keys: Any) -> dict[str, Any]:
    return {"owners": {OTHER_USER: keys}}


@pytest.fixture
def become(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """From now on the caller at the other end of the socket has that uid."""
    return lambda uid: monkeypatch.setattr(requests, "peer_uid", lambda _: uid)


CASES = [(Scope.READ, False), (Scope.SUBMIT, True), (Scope.ADMIN, False)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("served", "scope", "sees_all"),
    [(limits(scope=scope, all=sees_all), scope, sees_all) for scope, sees_all in CASES],
    indirect=["served"],
)
async def test_every_call_of_a_limited_user(
    served: Served, become: Callable[[int], None], scope: Scope, sees_all: bool
) -> None:
    others = await submit(served)
    for call, rule in RULES.items():
        method, _, address = call.partition(" ")
        of_job = address.startswith("/v1/jobs/{ref}")
        become(UID)
        names = {
            "ref": others["id"] if of_job else "none",
            "sha256": NO_CODE,
            "number": "1",
            "market": "none",
            "machine": "m",
        }
        path = address.format(**names, name="none", plan="none", schedule="none")
        data = b"{}" if method in ("POST", "PATCH") else None
        async with served.http.request(method, f"http://localhost{path}", data=data) as answer:
            status, said = answer.status, await answer.text()
        refused = expected(rule, scope, sees_all=sees_all, of_job=of_job, own=False)
        assert status == refused if refused else status not in (401, DENIED), (call, said)
        assert refused != HIDDEN or '"not_found"' in said
        become(os.getuid())
    assert (await served.call("GET", f"/v1/jobs/{others['id']}"))[0] == 200


@pytest.mark.slow
@pytest.mark.parametrize("served", [limits(secrets=["hf"], allow="$3/month", ask_above="$1")], indirect=True)
async def test_a_limited_user_has_secrets_an_allowance_and_plans(
    served: Served, become: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autopilot.service.wiring.read_secret", lambda name: {"hf": "v", "other": "w"}[name])
    become(UID)
    status, body = await served.call("POST", "/v1/jobs", {"toml": GOOD + '[secrets]\nA = "other"\n'})
    assert (status, body["detail"]) == (403, "you may not use the secret 'other'")
    assert "[owners]" in body["hint"]
    status, body = await served.call("POST", "/v1/jobs", {"toml": GOOD + '[secrets]\nA = "hf"\n'})
    assert (status, body["reason"]) == (409, "confirm_first")
    plan = body["plan"]
    assert (await served.call("POST", f"/v1/plans/{plan}/confirm"))[0] == DENIED
    become(os.getuid())
    assert (await served.call("POST", f"/v1/plans/{plan}/confirm"))[0] == 200
    become(UID)
    asked = {"toml": GOOD + '[secrets]\nA = "hf"\n', "plan": plan}
    status, body = await served.call("POST", "/v1/jobs", asked)
    assert (status, body["job"]["owner"]) == (201, UID)
    (row,) = (await served.call("GET", "/v1/budget"))[1]["tokens"]
    assert (row["name"], row["limit"], row["is_monthly"]) == (OTHER_USER, "3", True)
    await served.daemon.engine.tick()


@pytest.mark.parametrize("served", [limits(scope="read")], indirect=True)
async def test_a_page_of_a_limited_user_is_limited(served: Served, become: Callable[[int], None]) -> None:
    theirs = await submit(served)
    become(UID)
    link = (await served.call("POST", "/v1/page/link"))[1]["path"].rpartition("/")[2]
    become(os.getuid())
    for_link = {"Authorization": f"Bearer {link}"}
    async with served.http.post("http://localhost/v1/page/enter", headers=for_link) as answer:
        session = {"Authorization": f"Bearer {(await answer.json())['secret']}"}
    async with served.http.get("http://localhost/v1/page", headers=session) as answer:
        told = await answer.json()
    assert (told["owner"], told["name"], told["scope"], told["sees_all"]) == (UID, OTHER_USER, "read", False)
    async with served.http.post(f"http://localhost/v1/jobs/{theirs['id']}/cancel", headers=session) as answer:
        assert answer.status == DENIED
