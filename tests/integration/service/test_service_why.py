"""``autopilot why`` of a daemon on the sandbox: what it waits for is said at once, with numbers."""

from __future__ import annotations

import asyncio

import pytest

from autopilot.cli.main import run
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import BELOW_ALL, Served

UNRENTED = job_text(300) + BELOW_ALL


@pytest.mark.slow
async def test_only_offers_above_max_price(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, body = await served.call("POST", "/v1/jobs", {"toml": UNRENTED, "min_probability": 0})
    assert status == 201, body
    await served.daemon.engine.tick()
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(served.daemon.settings.socket_path))
    monkeypatch.setenv("COLUMNS", "200")
    codes = [await asyncio.to_thread(run, [command, "train"]) for command in ("why", "show")]
    codes.append(await asyncio.to_thread(run, ["ps"]))
    assert codes == [0, 0, 0]
    out = capsys.readouterr().out
    assert out.count("looked for 1×RTX 4090, 20 GB of disk, verified hosts, spot only: ") == 3, out
    assert out.count("above your max_price: cheapest floor $0.") == 4, out
    assert out.count("your max_price $0.05/h") == 4, out
    assert "decided yet" not in out


async def test_offers_says_what_a_condition_on_the_machine_left_out(
    served: Served, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(served.daemon.settings.socket_path))
    monkeypatch.setenv("COLUMNS", "200")
    await served.daemon.engine.tick()
    asked = ["offers", "--gpu", "RTX 4090", "--country", "TV", "--shm", "8GB"]
    assert await asyncio.to_thread(run, asked) == 0
    out = capsys.readouterr().out
    assert "no offers" in out
    assert "not known to be in the country: the nearest has " in out
    assert "the job needs TV" in out
    assert await asyncio.to_thread(run, ["offers", "--gpu", "RTX 4090", "--shm", "8GB"]) == 0
    assert "vastai does not state shm: its offers are not left out for that" in capsys.readouterr().out
