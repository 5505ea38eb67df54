"""What ``doctor`` says of a ledger on a server, of a state that is not the daemon's, and of a refused key."""

from __future__ import annotations

import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from autopilot.clock import SystemClock
from autopilot.config import paths
from autopilot.domain.drift import Drift
from autopilot.domain.instance import AccountQuota
from autopilot.domain.reported_time import ReportedTime
from autopilot.ports.provider import MarketUnknown, Provider, RefusalCode
from autopilot.ports.tunnels import TunnelFault, TunnelState
from autopilot.service import doctor
from autopilot.service.doctor import Check, run
from autopilot.tunnels.board import write_states
from autopilot.tunnels.place import TunnelsPlace
from tests.permissions import kept_out
from tests.pg import PostgresServer


@pytest.fixture(autouse=True)
def settings_of_the_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


def ledger_check(url: str, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("AUTOPILOT_LEDGER__URL", url)
    return next(check for check in run(None) if check.name == "ledger")


@pytest.mark.slow
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


def daemon_check(socket_path: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(socket_path))
    return doctor._daemon()


def test_a_daemon_whose_socket_may_not_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = tmp_path / "run"
    closed.mkdir()
    assert daemon_check(closed / "s", monkeypatch).detail == "not running"
    with kept_out(closed):
        check = daemon_check(closed / "s", monkeypatch)
    assert (check.ok, check.detail) == (None, f"{closed / 's'} may not be looked at")
    assert check.hint == "join its group: sudo usermod -aG autopilot $USER"


def test_only_a_socket_is_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryDirectory(prefix="ap-") as name, socket.socket(socket.AF_UNIX) as listening:
        path = Path(name) / "s"
        path.touch()
        assert daemon_check(path, monkeypatch).detail == "not running"
        path.unlink()
        listening.bind(str(path))
        check = daemon_check(path, monkeypatch)
    assert (check.ok, check.detail) == (True, f"its socket is {path}")


def whose_state() -> list[Check]:
    return [check for check in run(None) if check.name == "whose state"]


def test_a_state_that_is_not_the_system_s_daemon_s(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONFIGURATION_DIRECTORY", str(tmp_path / "etc"))
    monkeypatch.setattr(paths, "SYSTEM_STATE_DIR", tmp_path / "system")
    assert whose_state() == []
    monkeypatch.setattr(doctor, "client_socket", lambda: paths.SYSTEM_SOCKET)
    (check,) = whose_state()
    assert check.ok is None
    assert str(tmp_path / "state") in check.detail
    assert check.hint.endswith(f"sudo env AUTOPILOT_STATE_DIR={tmp_path / 'system'} autopilot doctor")
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path / "system"))
    assert whose_state() == []


def test_the_system_s_settings_say_where_its_state_is(tmp_path: Path) -> None:
    environ = {"CONFIGURATION_DIRECTORY": str(tmp_path)}
    assert paths.system_state_dir(environ) == Path("/var/lib/autopilot")
    (tmp_path / "autopilot.toml").write_text('state_dir = "/srv/autopilot"')
    assert paths.system_state_dir(environ) == Path("/srv/autopilot")
    (tmp_path / "autopilot.toml").write_text("not TOML")
    assert paths.system_state_dir(environ) == Path("/var/lib/autopilot")


@contextmanager
def a_disk_of(megabytes: int, directory: Path) -> Iterator[None]:
    directory.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(directory)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip("no right to mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(directory)], check=True)


@pytest.mark.parametrize(("megabytes", "is_enough"), [(300, False), (330, True)])
def test_a_disk_with_room_for_heartbeats_and_for_no_checkpoint(
    megabytes: int, is_enough: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AUTOPILOT_BLOBS__DIR", str(tmp_path / "mailbox"))
    with a_disk_of(megabytes, tmp_path / "mailbox"):
        check = next(check for check in run(None) if check.name == "mailbox")
    assert check.ok is is_enough
    assert ("takes heartbeats and no checkpoints, 320 MB must be free" in check.detail) is not is_enough
    assert is_enough or "blobs.dir" in check.hint


class Refusing:
    """A market that answers nothing but that."""

    def __init__(self, code: RefusalCode | None) -> None:
        self._code = code

    async def account(self) -> None:
        raise MarketUnknown("no", self._code)

    def drifts(self) -> tuple[Drift, ...]:
        return ()

    def reported_time(self) -> ReportedTime | None:
        return None

    async def close(self) -> None:
        pass


@pytest.mark.parametrize("code", [RefusalCode.NO_RIGHTS, None])
def test_what_to_do_about_a_market_that_does_not_answer(
    code: RefusalCode | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def found(key_file: Path) -> Check:
        key_file.parent.mkdir(parents=True, exist_ok=True)
        key_file.write_text("key")
        key_file.chmod(0o600)
        monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__API_KEY_FILE", str(key_file))
        return next(check for check in run(None) if check.name == "vastai")

    monkeypatch.setattr(doctor, "connect_markets", lambda *_: {"vastai": cast(Provider, Refusing(code))})
    stored = found(paths.credential_dirs()[-1] / "vastai_api_key")
    own = found(tmp_path / "key")
    assert (stored.ok, own.ok) == (False, False)
    if code is None:
        assert stored.hint == own.hint == "check the network and providers.vastai.base_url"
    else:
        assert "autopilot init --force --vast-key-file FILE" in stored.hint
        assert own.hint == f"put a valid key into {tmp_path / 'key'}: the daemon reads it at its next look"


class Bounded:
    """A market that tells its quotas, or does not."""

    def __init__(self, *quotas: AccountQuota, refuses: bool = False) -> None:
        self._quotas, self._refuses = quotas, refuses

    async def quotas(self) -> tuple[AccountQuota, ...]:
        if self._refuses:
            raise MarketUnknown("no rights to quotas")
        return self._quotas


async def quotas_check(*quotas: AccountQuota, refuses: bool = False) -> Check | None:
    return await doctor.check_quotas("nebius", cast(Provider, Bounded(*quotas, refuses=refuses)))


async def test_quotas_in_words() -> None:
    assert await quotas_check() is None
    machines, disk = AccountQuota("vms", 50, 3, "eu"), AccountQuota("disk", 3 << 40, 1 << 40, "eu", "byte")
    check = await quotas_check(machines, disk, AccountQuota("addresses", 4, None))
    assert check == Check(
        "quotas of nebius", True, "vms 3 of 50 in eu; disk 1024 GiB of 3072 GiB in eu; addresses ? of 4"
    )


async def test_a_quota_that_is_used_up_is_a_warning() -> None:
    check = await quotas_check(
        AccountQuota("vms", 50, 3), AccountQuota("caps", 2, 2, "eu"), AccountQuota("none at all", 0, 0)
    )
    assert check is not None
    assert (check.ok, check.detail) == (None, "used up: caps 2 of 2 in eu; none at all 0 of 0")
    assert "ask the market to raise it" in check.hint


async def test_quotas_that_cannot_be_read_are_no_failure() -> None:
    check = await quotas_check(refuses=True)
    assert check is not None
    assert (check.ok, check.detail) == (None, "no rights to quotas")


def clock_check(*ahead: timedelta) -> tuple[bool | None, str]:
    now = SystemClock().now()
    check = doctor.check_clock([None, *(ReportedTime(each, now) for each in ahead)], now)
    return check.ok, check.detail


def test_the_clock_beside_what_the_markets_say_of_the_time() -> None:
    hour, none = timedelta(hours=1), timedelta(0)
    assert clock_check() == (None, "no market has told the time")
    assert clock_check(none, hour) == (None, "the markets do not agree on the time: no evidence against ours")
    assert clock_check(none) == (True, "right to within a minute, as the markets say")
    assert clock_check(hour, hour) == (False, "1 h slow, as every market says that tells the time")
    assert clock_check(-hour) == (False, "1 h fast, as every market says that tells the time")


def mailbox_check() -> Check:
    return next(check for check in run(None) if check.name == "mailbox")


def test_machines_that_are_dialled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is proved without one; what is wrong with one is said in words."""
    monkeypatch.setenv("AUTOPILOT_BLOBS__OVER_SSH", "true")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__VASTAI__BASE_URL", "http://127.0.0.1:1")
    check = mailbox_check()
    assert check.ok is None
    assert "over SSH, 20 Mbit/s for what is stored here, assumed: set blobs.home_mbps" in check.detail
    assert "autopilot certify" in check.hint
    place = TunnelsPlace(tmp_path / "state" / "tunnels")
    place.root.mkdir(parents=True)
    write_states(place, {"one": TunnelState(is_up=True, fault=None), "two": TunnelState(is_up=True, fault=None)})
    monkeypatch.setenv("AUTOPILOT_BLOBS__HOME_MBPS", "40")
    assert mailbox_check().detail == "over SSH, 40 Mbit/s for what is stored here; 2 of 2 machines are connected"
    refused = TunnelState(is_up=False, fault=TunnelFault.FORWARDING_REFUSED, down_s=9)
    write_states(place, {"one": refused, "two": TunnelState(is_up=True, fault=None)})
    check = mailbox_check()
    assert check.ok is False
    assert check.detail.endswith("1 of 2 machines: its SSH server does not forward")
    assert "a bucket needs no connection" in check.hint


def test_a_market_whose_machines_cannot_be_dialled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOPILOT_BLOBS__OVER_SSH", "true")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__RUNPOD__BASE_URL", "http://127.0.0.1:1")
    check = mailbox_check()
    assert check.ok is False
    assert "machines of RunPod cannot be dialled over SSH" in check.detail
    assert "blobs.url to a bucket" in check.hint
