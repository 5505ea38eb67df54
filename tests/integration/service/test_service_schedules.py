"""Schedules over the API: made once, and owned by their maker alone."""

from __future__ import annotations

import pytest

from tests.integration.service.service_world import Served
from tests.integration.service.test_service_access import GOOD, make
from tests.integration.service.test_service_once import KEY, send

NIGHTLY = GOOD + '[schedule]\ncron = "0 2 * * *"\nzone = "Europe/Berlin"\n'
BOUNDED = NIGHTLY.replace("[budget]\n", '[budget]\nall = "$60/month"\n')


@pytest.mark.slow
async def test_a_schedule_is_made_once_and_belongs_to_its_owner(served: Served) -> None:
    assert "[budget]" in GOOD
    asked = {"toml": BOUNDED, "min_probability": 0.0}
    status, planned, _ = await send(served, "POST", "/v1/schedules", asked | {"dry_run": True})
    assert (status, planned["schedule"], len(planned["next"]), planned["zone"]) == (200, None, 3, "Europe/Berlin")
    status, made, _ = await send(served, "POST", "/v1/schedules", asked, KEY)
    assert status == 201, made
    assert await send(served, "POST", "/v1/schedules", asked, KEY) == (201, made, True)
    name, token = made["schedule"]["name"], await make(served)
    assert (await token.call("GET", "/v1/schedules"))[1] == {"schedules": []}
    for ref in (name, made["schedule"]["id"]):
        for act in ("pause", "resume", "end"):
            status, body = await token.call("POST", f"/v1/schedules/{ref}/{act}")
            assert (status, body["reason"]) == (404, "not_found")
    status, body = await token.call("POST", "/v1/schedules", {"toml": NIGHTLY})
    assert (status, body["detail"]) == (403, "the schedule of a token must have a budget over all firings")
    status, own = await token.call("POST", "/v1/schedules", asked)
    assert (status, own["schedule"]["owner"]) == (201, -1)
    listed = (await served.call("GET", "/v1/schedules"))[1]["schedules"]
    assert [each["id"] for each in listed] == [made["schedule"]["id"], own["schedule"]["id"]]
    (row, other) = (await served.call("GET", "/v1/budget"))[1]["schedules"]
    assert (row["id"], row["is_monthly"], row["limit"], row["left"]) == (made["schedule"]["id"], True, "60", "60")
    assert (await token.call("GET", "/v1/budget"))[1]["schedules"] == [other], "its own alone"
    status, ended = await served.call("POST", f"/v1/schedules/{name}/end")
    assert (status, ended["schedule"]["id"], ended["schedule"]["reason"]) == (200, made["schedule"]["id"], "user_ended")
    assert len((await served.call("GET", "/v1/schedules"))[1]["schedules"]) == 1
    assert (await served.call("GET", "/v1/budget"))[1]["schedules"] == [other]
    assert len((await served.call("GET", "/v1/schedules?all=1"))[1]["schedules"]) == 2


async def test_a_file_with_a_schedule_is_no_job(served: Served) -> None:
    status, body = await served.call("POST", "/v1/jobs", {"toml": NIGHTLY})
    assert (status, body["reason"]) == (422, "bad_input")
    assert "[schedule]" in body["detail"]
    status, body = await served.call("POST", "/v1/schedules", {"toml": GOOD})
    assert (status, body["reason"]) == (422, "bad_input")
