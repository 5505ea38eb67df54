"""What ``doctor`` says of a ledger on a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from autopilot.service.doctor import Check, run
from tests.pg import PostgresServer


@pytest.fixture(autouse=True)
def settings_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def ledger_check(url: str, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", url)
    return next(check for check in run(None) if check.name == "ledger")


def test_a_server_that_answers(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ledger_check(postgres_url, monkeypatch)
    # The tests' own server does not wait for its disk.
    assert check.ok is None
    assert "fsync and full_page_writes off" in check.detail


def test_a_server_without_a_schema_yet(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    check = ledger_check(postgres_server.url(postgres_server.new_database()), monkeypatch)
    assert check.ok is None


def test_a_server_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    check = ledger_check("postgresql://me:secret@/ledger?host=/nonexistent", monkeypatch)
    assert check.ok is False
    assert "connection" in check.detail
    assert "secret" not in check.detail + check.hint


def test_a_ledger_of_a_newer_program(
    postgres_server: PostgresServer, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = postgres_url.partition("@/")[2].partition("?")[0]
    postgres_server.execute("UPDATE alembic_version SET version_num = '9999'", database)
    check = ledger_check(postgres_url, monkeypatch)
    assert check.ok is False
    assert "9999 of a newer autopilot" in check.detail
