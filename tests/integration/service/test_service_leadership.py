"""Two daemons, each a process of its own, on one PostgreSQL server: one acts, the other waits for its turn."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from autopilot.blobs.place import MailboxPlace
from autopilot.client.answer import Json
from autopilot.client.errors import DaemonError
from autopilot.client.json_client import JsonClient
from autopilot.config.daemon_address import DaemonAddress
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import (
    first_tick,
    is_settled,
    job_text,
    market_events,
    show,
    submit,
    until,
    without_settings,
)
from tests.integration.service.service_world import WITHOUT_LISTENER, PatientTheatre, a_patient_theatre
from tests.mailboxes import put
from tests.patience import PATIENCE_S
from tests.pg import PostgresServer
from tests.processes import ForkedProcess


@dataclass
class Ledger:
    server: PostgresServer
    url: str

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        return self.server.execute(statement, self.url.partition("@/")[2].partition("?")[0])

    def epoch(self) -> int:
        found = self.rows("SELECT epoch FROM leader")
        return int(found[0][0]) if found else 0


class ADaemon:
    """``autopilot serve`` on the theatre's market and a ledger that it shares.

    ``is_patient``: none falls silent because the machine is busy. Else the others unseat it after the product's time.
    """

    def __init__(
        self,
        theatre: Theatre,
        name: str,
        ledger: Ledger,
        environment: Mapping[str, str] | None = None,
        *,
        is_patient: bool = True,
    ) -> None:
        self.notify_path = theatre.root / f"{name}.notify"
        self._notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._notify.bind(str(self.notify_path))
        self._notify.setblocking(False)
        self.log_path = theatre.root / f"{name}.log"
        self.log_path.touch()
        self.client = JsonClient(DaemonAddress(theatre.root / name), timeout_s=PATIENCE_S)
        given = theatre.daemon_environment() | {
            "AUTOPILOT_LEDGER__URL": ledger.url,
            "AUTOPILOT_API__SOCKET": str(theatre.root / name),
            "NOTIFY_SOCKET": str(self.notify_path),
        }
        given |= environment or {}
        start = PatientTheatre.start_process if is_patient else ForkedProcess
        self.process = start("autopilot.cli.main", ["serve"], without_settings() | given, self.log_path)

    @property
    def pid(self) -> int:
        return self.process.pid

    def is_standby(self) -> bool:
        return any("READY=1" in said and "STATUS=standby" in said for said in self._heard())

    def leads(self) -> bool:
        assert self.process.poll() is None, self.log_path.read_text(errors="replace")[-2000:]
        return any(line["event"] == "leadership.taken" for line in self.log())

    def log(self) -> list[dict[str, Any]]:
        lines = self.log_path.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]

    def end(self) -> None:
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        self._notify.close()

    def _heard(self) -> Iterator[str]:
        while True:
            try:
                yield self._notify.recv(4096).decode()
            except BlockingIOError:
                return


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    with a_patient_theatre() as made:
        made.start_market()
        yield made


@pytest.fixture
def ledger(postgres_server: PostgresServer, postgres_url: str) -> Ledger:
    return Ledger(postgres_server, postgres_url)


@pytest.fixture
def daemons(theatre: Theatre) -> Iterator[list[ADaemon]]:
    made: list[ADaemon] = []
    yield made
    for daemon in made:
        daemon.end()


@pytest.mark.slow
def test_when_the_leader_is_killed_the_standby_takes_over_its_machines(
    theatre: Theatre, ledger: Ledger, daemons: list[ADaemon]
) -> None:
    first = ADaemon(theatre, "one", ledger)
    daemons.append(first)
    until(first.leads, "the first daemon leads")
    second = ADaemon(theatre, "two", ledger)
    daemons.append(second)
    until(second.is_standby, "the second is a standby")

    theatre.client = first.client
    first_tick(first.client)
    job_id = submit(theatre, job_text(200))
    until(lambda: show(theatre, job_id)["job"]["status"] == "running", "the job runs")
    assert not second.client.socket_path.exists()
    assert not second.leads()

    first.process.kill()
    until(second.leads, "the standby leads")
    theatre.client = second.client
    first_tick(second.client)
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the end of the job and its bill", every_s=0.2)
    assert show(theatre, job_id)["job"]["status"] == "succeeded"
    assert len(market_events(theatre, "instance.created")) == 1
    assert ledger.rows("SELECT epoch FROM leader") == [(2,)]
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait() == 0
    assert ledger.rows("SELECT renewed_at FROM leader") == [(None,)]


def a_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.slow
def test_standbys_with_the_same_directory_port_and_socket_wait_quietly_and_take_all_of_them(
    theatre: Theatre, ledger: Ledger, daemons: list[ADaemon]
) -> None:
    """As under a supervisor, which restarts the one that was killed: one death is one epoch."""
    port = a_free_port()
    same: dict[str, Any] = {
        "AUTOPILOT_BLOBS__LISTEN": f"127.0.0.1:{port}",
        "AUTOPILOT_API__SOCKET": str(theatre.root / "same"),
    }
    place, key = MailboxPlace(theatre.root / "daemon"), "probe/heartbeat"
    client = JsonClient(DaemonAddress(theatre.root / "same"), timeout_s=PATIENCE_S)

    def answers_as(daemon: ADaemon) -> bool:
        with contextlib.suppress(DaemonError):
            body = client.get("/v1/status")
            return body["pid"] == daemon.pid and body["last_tick_at"] is not None
        return False

    leader = ADaemon(theatre, "one", ledger, same)
    daemons.append(leader)
    until(lambda: answers_as(leader), "the first daemon leads")
    for epoch, name in enumerate(("two", "three"), start=2):
        standby = ADaemon(theatre, name, ledger, same)
        daemons.append(standby)
        until(standby.is_standby, "the next is a standby")
        assert answers_as(leader)
        leader.process.kill()
        until(partial(answers_as, standby), "it has the socket, and ticks")
        until(partial(serves, standby), "its listener has the port")
        place.keep_port(port)  # no daemon notes one that is set; the next line looks there
        assert put(place, key, b"{}", PATIENCE_S) == 201
        assert ledger.epoch() == epoch
        assert standby.log()[0]["event"] == "leadership.awaited"
        leader = standby
    assert leader.process.poll() is None


@pytest.mark.slow
def test_a_leader_that_was_stopped_for_long_writes_nothing_when_it_goes_on(
    theatre: Theatre, ledger: Ledger, daemons: list[ADaemon]
) -> None:
    first = ADaemon(theatre, "one", ledger, is_patient=False)
    daemons.append(first)
    until(first.leads, "the first daemon leads")
    first_tick(first.client)
    theatre.client = first.client
    job_id = submit(theatre, job_text(4000))
    until(lambda: show(theatre, job_id)["job"]["status"] == "running", "the job runs")
    second = ADaemon(theatre, "two", ledger, {"AUTOPILOT_STATE_DIR": str(theatre.root / "other")}, is_patient=False)
    daemons.append(second)
    until(second.is_standby, "the second is a standby")
    watch_writes(ledger)

    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: ledger.epoch() == 2, "the standby leads")
    first_tick(second.client)
    calls_before = stale_calls(first)
    os.kill(first.pid, signal.SIGCONT)

    assert first.process.wait() == 1
    written = ledger.rows("SELECT who, count(*) FROM writes WHERE epoch = 2 GROUP BY who")
    assert [who for who, _ in written if f":{first.pid}:" in who] == []
    assert [who for who, _ in written if f":{second.pid}:" in who] != []
    assert "daemon.superseded" in [line["event"] for line in first.log()]
    assert stale_calls(first) == calls_before
    assert len(market_events(theatre, "instance.created")) == 1
    assert second.process.poll() is None


@pytest.mark.slow
def test_a_standby_on_the_same_machine_takes_the_mailbox_and_the_socket_of_a_leader_that_hangs(
    theatre: Theatre, ledger: Ledger, daemons: list[ADaemon]
) -> None:
    """Neither an address in use nor a socket that accepts and does not answer ends it: one takeover is one epoch."""
    first = ADaemon(theatre, "one", ledger, is_patient=False)
    daemons.append(first)
    until(first.leads, "the first daemon leads")
    first_tick(first.client)
    place, key = MailboxPlace(theatre.root / "daemon"), "probe/heartbeat"
    assert put(place, key, b"{}", PATIENCE_S) == 201
    second = ADaemon(theatre, "two", ledger, {"AUTOPILOT_API__SOCKET": str(theatre.root / "one")}, is_patient=False)
    daemons.append(second)
    until(second.is_standby, "the second is a standby")

    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: ledger.epoch() == 2, "the standby leads")

    def status() -> Json | None:
        with contextlib.suppress(DaemonError):
            body = theatre.client.get("/v1/status")
            return body if body["pid"] == second.pid and body["last_tick_at"] else None
        return None

    theatre.client = JsonClient(DaemonAddress(theatre.root / "one"), timeout_s=10)
    ticked_at = until(status, "its first tick, on the same socket")["last_tick_at"]
    until(lambda: serves(second), "its listener has the port")
    assert put(place, key, b"{}", PATIENCE_S) == 201
    until(lambda: (status() or {}).get("last_tick_at", ticked_at) != ticked_at, "another tick")
    assert second.process.poll() is None
    assert ledger.epoch() == 2
    os.kill(first.pid, signal.SIGCONT)
    assert first.process.wait() == 1
    until(status, "the second still has the socket")
    assert put(place, key, b"{}", PATIENCE_S) == 201


def serves(daemon: ADaemon) -> bool:
    """Whether its listener has taken the port."""
    return "listener.serves" in [line["event"] for line in daemon.log()]


def test_a_standby_ends_when_it_is_told_to(theatre: Theatre, ledger: Ledger, daemons: list[ADaemon]) -> None:
    first = ADaemon(theatre, "one", ledger, WITHOUT_LISTENER)
    daemons.append(first)
    until(first.leads, "the first daemon leads")
    second = ADaemon(theatre, "two", ledger, WITHOUT_LISTENER)
    daemons.append(second)
    until(second.is_standby, "the second is a standby")
    second.process.send_signal(signal.SIGTERM)
    assert second.process.wait() == 0
    assert [line["event"] for line in second.log()] == ["leadership.awaited"]
    assert first.leads()


def watch_writes(ledger: Ledger) -> None:
    """From now on each row that is written says by which session, and under which epoch."""
    ledger.rows("CREATE TABLE writes (who text, epoch bigint)")
    ledger.rows(
        "CREATE FUNCTION watch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " INSERT INTO writes SELECT current_setting('application_name'), epoch FROM leader; RETURN NULL; END $$"
    )
    for table in ("jobs", "leases", "lease_spans", "ledger_entries", "bids", "events", "decisions", "notes"):
        ledger.rows(
            f"CREATE TRIGGER watch AFTER INSERT OR UPDATE OR DELETE ON {table} FOR EACH ROW EXECUTE FUNCTION watch()"
        )


def stale_calls(daemon: ADaemon) -> int:
    """How often its log tells of an outcome that it could not record: a call that it made without the right to."""
    return sum(line["event"] == "outcome.unrecorded" for line in daemon.log())
