"""The control socket of a daemon with everything joined: who may open it, and what it says to mistakes."""

from __future__ import annotations

import os
import stat
import tempfile
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from autopilot.config.settings import ApiSettings, BlobsSettings, ProviderSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.ports.store import EventRecord
from autopilot.service.leadership import INSTALL_ID_NOTE
from autopilot.service.wiring import daemon
from autopilot.store.database import open_store
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import CLOSED_ADDRESS, Served, a_key

GOOD = job_text(300)


async def test_the_socket_is_for_its_owner_and_group_alone(shared: Served) -> None:
    path = shared.daemon.settings.socket_path
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o750
    assert stat.S_IMODE(shared.daemon.settings.state_dir.stat().st_mode) == 0o700


async def test_a_second_daemon_does_not_take_the_socket_of_one_that_answers(shared: Served, tmp_path: Path) -> None:
    settings = shared.daemon.settings
    other = settings.model_copy(update={"state_dir": tmp_path / "another"})
    with pytest.raises(UserError, match="another daemon answers at"):
        async with daemon(other):
            pass
    assert (await shared.call("GET", "/v1/status"))[0] == 200


@pytest.mark.parametrize("noted", ["fromxpgs", None])
async def test_a_ledger_that_was_on_a_server_keeps_the_id_of_its_machines_labels(noted: str | None) -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        root = Path(name)
        settings = Settings(
            state_dir=root / "state",
            api=ApiSettings(socket=root / "run" / "s"),
            blobs=BlobsSettings(own_listener=False, listen=CLOSED_ADDRESS),
            providers={"vastai": ProviderSettings(base_url=f"http://{CLOSED_ADDRESS}", api_key_file=a_key(root))},
        )
        store = await open_store(settings.ledger_url)
        if noted is not None:
            async with store.transaction() as work:
                await work.notes.set(INSTALL_ID_NOTE, noted)
        await store.close()
        async with daemon(settings) as joined:
            found = joined.engine.config.install_id
        own = (root / "state/install-id").read_text().strip()
    assert found == (noted or own)
    assert own != noted


async def test_a_market_that_goes_dark_keeps_the_instant_of_its_last_good_read(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    (market,) = (await served.call("GET", "/v1/status"))[1]["providers"]
    assert market["known"]
    read_at, watch = market["read_at"], served.daemon.engine.watches["vastai"]
    assert watch.known_at is not None
    assert read_at == watch.known_at.isoformat()
    monkeypatch.setattr("autopilot.engine.observe.READ_WAIT_REAL_S", 0.0)
    await served.daemon.engine.tick()
    (market,) = (await served.call("GET", "/v1/status"))[1]["providers"]
    assert (market["known"], market["read_at"]) == (False, read_at)


async def test_who_changes_something_is_logged_by_uid(shared: Served) -> None:
    with capture_logs() as logs:
        await shared.call("POST", "/v1/jobs/nothing/cancel")
        await shared.call("GET", "/v1/status")
    called = [entry for entry in logs if entry["event"] == "api.called"]
    assert [(entry["method"], entry["path"], entry["uid"]) for entry in called] == [
        ("POST", "/v1/jobs/nothing/cancel", os.getuid())
    ]


BAD_CALLS = [
    pytest.param("POST", "/v1/jobs", b"{not json", 422, "not JSON", id="not-json"),
    pytest.param("POST", "/v1/jobs", b"\xff\xfe{}", 422, "not JSON", id="not-utf-8"),
    pytest.param("POST", "/v1/jobs", b"[1]", 422, "not a JSON object", id="not-an-object"),
    pytest.param("POST", "/v1/jobs", b'{"toml": 1}', 422, "toml must be a string", id="wrong-type"),
    pytest.param("POST", "/v1/jobs", b'{"toml": "", "source": "", "dry_run": 1}', 422, "dry_run", id="wrong-flag"),
    pytest.param("POST", "/v1/jobs", b"{}", 422, "missing", id="nothing-asked"),
    pytest.param("POST", "/v1/jobs", b'{"toml": "%s"}' % (b"x" * 2_000_000), 413, "", id="too-large"),
    pytest.param("POST", "/v1/jobs", b'{"toml": "%s"}' % (b"x" * 300_000), 422, "toml", id="too-long-a-file"),
    pytest.param("POST", "/v1/offers", b'{"gpu": "RTX 4090:many"}', 422, "gpu", id="gpu-count"),
    pytest.param("POST", "/v1/offers", b'{"gpu": "4090 | 3090:0"}', 422, "gpu", id="gpu-none"),
    pytest.param("POST", "/v1/offers", b'{"gpu": "A:1", "disk_gb": "much"}', 422, "disk_gb", id="disk"),
    pytest.param("GET", "/v1/jobs/nothing", None, 404, "no job 'nothing'", id="no-such-job"),
    pytest.param("GET", "/v1/jobs/nothing/logs", None, 404, "no job 'nothing'", id="no-such-logs"),
    pytest.param("GET", "/v1/jobs/nothing/why?limit=-1", None, 422, "limit", id="limit"),
    pytest.param("POST", "/v1/jobs/nothing/resume", b"", 404, "no job 'nothing'", id="resume-nothing"),
    pytest.param("GET", "/v1/spend?by=colour", None, 422, "by: input should be 'month'", id="spend-key"),
    pytest.param("GET", "/v1/spend?month=yesterday", None, 422, "yesterday", id="spend-month"),
    pytest.param("GET", "/v1/spend?since=2026-13-01", None, 422, "since: not a day", id="spend-since"),
    pytest.param("GET", "/v1/spend?since=2026-02-01&until=2026-01-01", None, 422, "before it starts", id="spend-order"),
    pytest.param("GET", "/v1/spend?month=2026-01&since=2026-01-01", None, 422, "exclude", id="spend-both"),
    pytest.param("GET", "/v1/spend?zone=../../etc/passwd", None, 422, "no such time zone", id="spend-zone"),
    pytest.param("GET", "/v1/spend?zone=Europe", None, 422, "no such time zone", id="spend-zone-directory"),
    pytest.param("GET", "/v1/reconcile?month=x", None, 422, "not a month", id="reconcile-month"),
    pytest.param("GET", "/v1/instances/nothing", None, 404, "no instance 'nothing'", id="no-such-instance"),
    pytest.param("GET", "/v1/prices", None, 422, "which GPU", id="prices-of-nothing"),
    pytest.param("GET", "/v1/prices?gpu=A&since=2026-01-01", None, 422, "without its zone", id="prices-zone"),
    pytest.param("GET", "/v1/prices?gpu=A&since=soon", None, 422, "not a duration", id="prices-since"),
    pytest.param("GET", "/v1/prices?gpu=A&since=9999999d", None, 422, "too long ago", id="prices-long-ago"),
    pytest.param("GET", "/v1/prices?gpu=A&since=1d&until=2d", None, 422, "before it starts", id="prices-order"),
    pytest.param("GET", "/v1/prices?gpu=A&steps=0", None, 422, "steps", id="prices-steps"),
    pytest.param("GET", "/v1/events?after=x", None, 422, "after", id="events-after"),
    pytest.param("GET", "/v1/nowhere", None, 404, "", id="no-such-route"),
    pytest.param("DELETE", "/v1/jobs", None, 405, "", id="no-such-method"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "message"), BAD_CALLS)
async def test_a_mistake_is_answered_with_a_problem_document(
    shared: Served, method: str, path: str, body: bytes | None, status: int, message: str
) -> None:
    got, answer = await shared.call(method, path, raw=body)
    assert got == status, answer
    assert set(answer) == {"title", "status", "reason", "detail", "hint"}
    assert (answer["status"], bool(answer["title"]), bool(answer["reason"])) == (status, True, True)
    assert message in answer["detail"]
    assert answer["detail"]


async def test_a_problem_document_says_its_type_and_keeps_the_methods_that_are_allowed(shared: Served) -> None:
    async with shared.http.delete("http://localhost/v1/jobs") as answer:
        assert (answer.status, answer.content_type) == (405, "application/problem+json")
        assert answer.headers["Allow"] == "GET,HEAD,POST"
        assert (await answer.json(content_type=None))["reason"] == "method_not_allowed"


@pytest.mark.slow
async def test_money_and_states_that_forbid_something(served: Served) -> None:
    poor = {"toml": job_text(300, total='total = "$0.05"'), "source": "job.toml"}
    status, answer = await served.call("POST", "/v1/jobs", poor)
    assert (status, "one hour" in answer["detail"]) == (402, True)
    status, answer = await served.call("POST", "/v1/jobs", {"toml": GOOD, "source": "job.toml", "dry_run": True})
    assert (status, answer["job"]) == (200, None)
    assert (await served.call("GET", "/v1/jobs?all=1"))[1] == {"jobs": [], "next": None}
    status, answer = await served.call("POST", "/v1/jobs", {"toml": GOOD, "source": "job.toml"})
    assert status == 201
    path = f"/v1/jobs/{answer['job']['id']}"
    status, answer = await served.call("POST", f"{path}/resume")
    assert (status, "not parked" in answer["detail"]) == (422, True)
    assert (await served.call("POST", f"{path}/cancel"))[0] == 200
    await served.daemon.engine.tick()
    assert (await served.call("GET", path))[1]["job"]["status"] == "cancelled"
    status, answer = await served.call("POST", f"{path}/cancel")
    assert (status, "is over" in answer["detail"]) == (422, True)


async def test_work_that_cannot_fit_before_its_deadline_is_refused_as_such(shared: Served) -> None:
    body = {"toml": job_text(300) + '[deadline]\nwithin = "2m"\n', "source": "job.toml", "dry_run": True}
    status, answer = await shared.call("POST", "/v1/jobs", body)
    assert (status, "does not fit before the deadline" in answer["detail"]) == (402, True)


async def test_a_plan_says_what_the_account_s_own_limits_forbid(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = shared.daemon.engine
    limits = replace(engine.config.limits, max_hourly=Decimal("0.01"))
    monkeypatch.setattr(engine, "config", replace(engine.config, limits=limits))
    for dry_run in (True, False):
        body = {"toml": GOOD, "source": "job.toml", "dry_run": dry_run, "again": True}
        _, answer = await shared.call("POST", "/v1/jobs", body)
        assert any("the account's limit of $0.01/h is lower" in note for note in answer["plan"]["notes"])


async def test_a_defect_is_answered_in_the_form_of_errors_and_logged(
    shared: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(shared.daemon.engine, "market_view", broken)
    with capture_logs() as logs:
        status, answer = await shared.call("POST", "/v1/jobs", {"toml": GOOD, "again": True})
    assert status == 500
    assert (answer["reason"], answer["detail"]) == ("defect", "the daemon failed at this")
    assert answer["hint"] == "its log has the cause: journalctl -u autopilot"
    (failed,) = [entry for entry in logs if entry["event"] == "api.failed"]
    assert (failed["path"], failed["log_level"], failed["exc_info"]) == ("/v1/jobs", "error", True)


async def test_the_newest_events_of_a_long_job_are_shown(shared: Served) -> None:
    _, answer = await shared.call("POST", "/v1/jobs", {"toml": GOOD, "again": True})
    job_id, now = answer["job"]["id"], datetime.now(UTC)
    async with shared.daemon.engine._store.transaction() as uow:
        await uow.events.add(EventRecord(now, "lease.rebid", job_id, None, (("n", n),)) for n in range(1100))
    _, shown = await shared.call("GET", f"/v1/jobs/{job_id}")
    assert [event["fields"]["n"] for event in shown["events"]] == list(range(100, 1100))


async def test_log_positions_that_make_no_sense_show_nothing_of_other_files(shared: Served) -> None:
    _, answer = await shared.call("POST", "/v1/jobs", {"toml": GOOD, "again": True})
    for after in ("../../mailbox.key", "x" * 2000, "jobs/other/lease/log/1-0", "%00"):
        status, answer = await shared.call("GET", f"/v1/jobs/train/logs?after={after}")
        assert (status, answer) == (200, {"chunks": [], "earlier": False, "finished": False})
