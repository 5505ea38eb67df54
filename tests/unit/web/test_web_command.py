"""``autopilot web`` as a process over a ledger on the disk: a link, the pages behind it, and nothing changed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from http.cookiejar import CookieJar
from pathlib import Path
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from autopilot.cli.main import run
from autopilot.store.database import open_store
from tests.patience import PATIENCE_S
from tests.unit.web.page_reader import PageReader
from tests.unit.web.web_ledger import JOB, fill


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.db"

    async def make() -> None:
        store = await open_store(str(path))
        await fill(store)
        await store.close()

    asyncio.run(make())
    return path


@pytest.mark.slow
def test_the_link_leads_to_the_pages_and_nothing_is_changed(ledger: Path, tmp_path: Path) -> None:
    before = hashlib.sha256(ledger.read_bytes()).hexdigest()
    # Away from the settings of the user who runs the tests.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AUTOPILOT_")}
    environment |= {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    environment |= {"AUTOPILOT_API__SOCKET": "/run/none.sock"}
    command = [sys.executable, "-m", "autopilot.cli.main", "web", "--ledger", str(ledger)]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    ) as process:
        try:
            assert process.stdout is not None
            link = process.stdout.readline().strip()
            assert link.startswith("http://127.0.0.1:"), process.communicate(timeout=PATIENCE_S)
            assert str(ledger) in process.stdout.readline()
            browser = build_opener(HTTPCookieProcessor(CookieJar()))
            with browser.open(link, timeout=PATIENCE_S) as answer:
                base = answer.url
                assert "/s/" in base
                now = PageReader(answer.read().decode()).text
            with browser.open(f"{base}jobs/{JOB}", timeout=PATIENCE_S) as answer:
                job = PageReader(answer.read().decode()).text
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=PATIENCE_S) == 0
    assert "research-2 is parked: user stopped." in now
    assert "outbid" in job
    assert hashlib.sha256(ledger.read_bytes()).hexdigest() == before


def test_a_ledger_that_is_not_there_is_not_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["web", "--ledger", str(tmp_path / "none.db")]) == 2
    assert f"there is no ledger at {tmp_path / 'none.db'}" in capsys.readouterr().err
    assert not (tmp_path / "none.db").exists()


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_a_port_that_is_none_is_refused(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["web", "--ledger", "none.db", f"--port={port}"]) == 2
    assert f"not a port: {port}" in capsys.readouterr().err


def test_a_port_without_a_ledger_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["web", "--port=8931"]) == 2
    assert "--port and --config go with --ledger" in capsys.readouterr().err


def test_without_a_daemon_it_says_how_a_ledger_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(tmp_path / "none.sock"))
    assert run(["web"]) == 3
    assert "autopilot web --ledger own shows what the ledger has" in capsys.readouterr().err
