"""``autopilot db`` from the command line: what it prints, and how it refuses."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from autopilot.cli.exits import Exit
from autopilot.cli.main import run
from autopilot.engine.accounts import NOTE
from autopilot.store.care import ledger_without_daemon
from autopilot.store.database import open_store
from autopilot.store.lock import single_writer


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Made, and pointed at by the settings."""
    path = tmp_path / "ledger.db"
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", str(path))

    async def make() -> None:
        store = await open_store(str(path))
        async with store.transaction() as work:
            await work.notes.set("key", "value")
        await store.close()

    asyncio.run(make())
    return path


def test_check(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "check", "--json"]) == 0
    checks = json.loads(capsys.readouterr().out)["checks"]
    assert {check["name"]: check["ok"] for check in checks} == dict.fromkeys(
        ("database", "schema", "objects", "references", "sums"), True
    )
    assert run(["db", "check"]) == 0
    assert "daily sums are those of the entries" in capsys.readouterr().out


def test_a_check_that_fails_gives_exit_code_1(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.write_bytes(b"a letter to a friend" * 100)
    for beside in ("-wal", "-shm"):
        ledger.with_name(ledger.name + beside).unlink(missing_ok=True)
    assert run(["db", "check"]) == 1
    assert "not a SQLite database" in " ".join(capsys.readouterr().out.split())


def test_backup_export_and_move(ledger: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["db", "upgrade"]) == 0
    assert run(["db", "backup", str(tmp_path / "backup.db")]) == 0
    assert run(["db", "export", str(tmp_path / "ledger.jsonl")]) == 0
    assert "1 rows of" in capsys.readouterr().out
    assert run(["db", "move", "--to", str(tmp_path / "moved.db"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]["notes"] == 1
    assert run(["db", "backup", str(tmp_path / "backup.db")]) == 2
    assert "already exists" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["backup"], "db backup takes a file"),
        (["check", "file"], "db check takes no file"),
        (["move"], "db move takes a --to"),
        (["upgrade", "--to", "x"], "db upgrade takes no --to"),
        (["take-account"], "db take-account takes a --market"),
        (["check", "--market", "vastai"], "db check takes no --market"),
        (["take-account", "--market", "vastai"], "the ledger has no account of vastai"),
        (["vacuum"], "vacuum"),
        (["move", "--to", "mysql://host/db"], "not a ledger URL: mysql://host/db"),
    ],
)
def test_wrong_words(ledger: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert run(["db", *words]) == 2
    assert says in capsys.readouterr().err


def test_a_running_daemon_is_in_the_way_of_a_move(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with single_writer(ledger):
        assert run(["db", "move", "--to", str(ledger.with_name("other.db"))]) == Exit.OTHER_DAEMON
        assert run(["db", "check"]) == 0
    assert "another autopilot daemon" in capsys.readouterr().err


def test_the_account_of_a_market_is_forgotten_on_the_user_s_word(
    ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def note() -> str | None:
        async with ledger_without_daemon(str(ledger)) as store, store.transaction() as work:
            kept = await work.notes.get(NOTE)
            await work.notes.set(NOTE, json.dumps({"vastai": "a", "runpod": "b"}))
        return kept

    asyncio.run(note())
    assert run(["db", "take-account", "--market", "vastai"]) == 0
    assert "the account that answers next is taken as that of vastai" in capsys.readouterr().out
    assert json.loads(asyncio.run(note()) or "") == {"runpod": "b"}


def test_no_ledger_is_made_to_forget_an_account(ledger: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ledger.unlink()
    assert run(["db", "take-account", "--market", "vastai"]) == 2
    assert not ledger.exists()
