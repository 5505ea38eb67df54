"""An upgrade while machines are rented: the daemon of the version before is killed, and this one takes over.

The version before is real: its own wheel (``tests/assets/previous``) rents on a sandbox market. Its ledger is kept as
well, and comes up to the present schema on SQLite and on PostgreSQL.
"""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from autopilot.client.answer import Json
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import FINAL, a_theatre, command, market_events, show, until
from tests.pg import PostgresServer
from tests.previous import (
    MARKETS,
    STEPS,
    TRAINING,
    LeftBehind,
    Previous,
    Witness,
    leave_behind,
    reports_on,
    restore_ledger,
    start_market,
)

pytestmark = pytest.mark.slow

RENAMED: dict[str, tuple[str, ...]] = {
    "rate": ("bid", "billed_rate", "burn"),
    "on_demand_rate": ("on_demand_price",),
    "way": ("option",),
    "standing": ("status", "current_bid"),
    "lower": ("reduce_bid",),
    "unseen_s": ("unobserved_s",),
}
"""Words of the version before, as keys or values, and what this version may say in their place."""
SAID_NOW = {"spent": ("posted",), "total": ("posted",)}
"""Likewise, of answers only."""
UNSAID = {"cost", "drift"}
"""What this version no longer says: a machine's cost by our clock alone; the drift, which is ``corrected`` now."""
UNRECORDED = {"lower", "unseen_s"}
"""Of decisions that the ledger kept from the version before does not hold (``tests/migration`` has them)."""
RENAMED_BY = "0006"
"""The revision of the schema from which on the ledger holds none of them."""
_USD = "compute_usd, storage_usd, bandwidth_usd, fees_usd, total_usd"
VIEWS = {
    "spend_by_month": "*",
    "spend_by_day": "*",
    "spend_by_job": f"job_id, job, status, leases, {_USD}",
    "spend_by_gpu": "*",
    "spend_by_instance": (f"provider, instance_id, lease_id, job_id, gpu, capacity_type, first_day, last_day, {_USD}"),
    "reconciliation": "*",
}
"""Each with the columns that the version before has."""
TABLES = (
    "jobs",
    "leases",
    "lease_spans",
    "bids",
    "checkpoints",
    "ledger_entries",
    "invoice_lines",
    "price_observations",
    "spend_daily",
    "decisions",
    "events",
    "notes",
)
UNSETTLED = ("paused",)
"""Its last uploads are unreported: the bill may be lower than the estimate, and is final a day later."""
LASTING = {"AUTOPILOT_PERMIT__TTL": "6h"}
"""Six real minutes between the two daemons, as permits go: one is too short where a machine is busy."""
CENT = Decimal("0.01")
UNREACHABLE = "http://127.0.0.1:9"
"""A market that cannot be reached."""


@pytest.fixture(scope="module")
def previous(tmp_path_factory: pytest.TempPathFactory) -> Previous:
    return Previous(tmp_path_factory.mktemp("previous"))


# --- machines


def test_rented_machines_go_on_and_what_was_paid_stays(previous: Previous, tmp_path: Path) -> None:
    with a_theatre(MARKETS, LASTING) as theatre:
        start_market(theatre)
        left = leave_behind(theatre, previous)
        theatre.start_daemon()
        assert differences(left.reports, reports_on(theatre, left.ids["finished"])) == []
        for name in ("running", "paused"):
            until(partial(at_work, theatre, left, name), f"{name} works on the machine that it had")
        until(lambda: len(left.witnesses["moved"].rows("start")) == 2, "moved starts on another machine")
        for witness in left.witnesses.values():
            witness.may_finish()
        theatre.client.post(f"/v1/jobs/{left.ids['waiting']}/cancel")
        bodies = {
            name: until(partial(ended, theatre, job_id), f"the end of {name}, and its last bill")
            for name, job_id in left.ids.items()
        }

        statuses = {name: body["job"]["status"] for name, body in bodies.items()}
        assert statuses == dict.fromkeys(left.ids, "succeeded") | {"waiting": "cancelled"}
        before = {name: machines(body) for name, body in left.shown.items()}
        after = {name: machines(body) for name, body in bodies.items()}
        assert after | {"moved": after["moved"][:1]} == before
        assert len(after["moved"]) == 2
        # What it was restored from is a checkpoint that the version before has taken and verified.
        lost = left.shown["moved"]["leases"][0]["id"]
        assert len(verified(bodies["moved"], lost)) == len(verified(left.shown["moved"], lost)) > 0
        assert_trainings_went_on(left, uninterrupted(tmp_path))
        assert_markets_and_ledger_agree(theatre, bodies)
        assert differences(left.reports, reports_on(theatre, left.ids["finished"])) == []


def at_work(theatre: Theatre, left: LeftBehind, name: str) -> bool:
    """On the machine of the version before, with a checkpoint that this version has verified."""
    body, before = show(theatre, left.ids[name]), left.shown[name]
    assert machines(body) == machines(before), f"{name} was not taken over: {body['leases']}"
    newest, known = (max(each["number"] for each in shown["checkpoints"]) for shown in (body, before))
    is_running = body["job"]["status"] == "running" and body["leases"][0]["state"] == "active"
    return is_running and bool(newest > known)


def ended(theatre: Theatre, job_id: str) -> Json | None:
    """The job once it is over and its last machine's bill is in. The paused one may wait: see ``UNSETTLED``."""
    body = show(theatre, job_id)
    leases = body["leases"]
    if body["job"]["status"] not in FINAL or any(lease["state"] != "gone" for lease in leases):
        return None
    is_due = bool(leases) and body["job"]["name"] not in UNSETTLED
    return body if not is_due or is_billed(theatre, leases[-1]["id"]) else None


def is_billed(theatre: Theatre, lease_id: str) -> bool:
    """Its bill lacks nothing; the second look may be due."""
    rows = theatre.client.get("/v1/reconcile")["rows"]
    return any(row["lease_id"] == lease_id and row["waits_for"] in (None, "second_look") for row in rows)


def machines(body: Json) -> list[str]:
    return [lease["instance_id"] for lease in body["leases"]]


def verified(body: Json, lease_id: str) -> list[Json]:
    """The machine's checkpoints, as events."""
    return [each for each in body["events"] if (each["name"], each["lease_id"]) == ("checkpoint.verified", lease_id)]


def assert_trainings_went_on(left: LeftBehind, weights: str) -> None:
    """None began from scratch, none was started more often than its machine was, and all reached the same weights."""
    starts = {name: [int(step) for step in left.witnesses[name].rows("start")] for name in left.ids}
    assert starts["running"] == [0]
    for name in ("paused", "moved"):
        assert len(starts[name]) == 2, starts
        assert starts[name][0] == 0 < starts[name][1], starts
    for name in ("running", "paused", "moved"):
        assert left.witnesses[name].rows("weights") == [weights], name


def assert_markets_and_ledger_agree(theatre: Theatre, bodies: dict[str, Json]) -> None:
    """Nothing was rented twice, nothing is left. What is settled equals the bill; the rest is estimated above it."""
    asked = Counter(event["label"] for event in market_events(theatre, "create.requested"))
    assert max(asked.values()) == 1, asked
    vast, runpod = theatre.emu("instances")["instances"], theatre.emu("runpod/instances")["instances"]
    assert all(row["destroyed_at"] for row in vast)
    assert all(row["terminated_at"] for row in runpod)
    billed = {str(row["instance_id"]): Decimal(row["billed"]) for row in theatre.emu("books")["books"]}
    billed |= {row["pod_id"]: Decimal(row["billed"]) for row in theatre.emu("runpod/books")["books"]}
    leases = [lease for body in bodies.values() for lease in body["leases"]]
    assert billed.keys() == {lease["instance_id"] for lease in leases}
    posted = {row["key"]: Decimal(row["posted"]) for row in theatre.client.get("/v1/spend", by="instance")["rows"]}
    assert posted.keys() == billed.keys()
    for lease in leases:
        over = posted[lease["instance_id"]] - billed[lease["instance_id"]]
        assert over > -CENT / 2, lease
        assert over < CENT / 2 or not lease["settled_at"], lease


def uninterrupted(directory: Path) -> str:
    """The weights of the same training without an interruption."""
    witness = Witness(directory / "alone")
    witness.may_finish()
    subprocess.run([sys.executable, TRAINING, str(STEPS), "0", str(witness.path)], cwd=directory, check=True)
    (weights,) = witness.rows("weights")
    return weights


# --- the ledger


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_its_ledger_comes_up_with_all_that_it_holds(
    database: str, previous: Previous, postgres_server: PostgresServer
) -> None:
    with a_theatre(MARKETS) as theatre:
        theatre.market_url = UNREACHABLE
        theatre.daemon_environment()
        path = theatre.root / "daemon" / "ledger.db"
        restore_ledger(path)
        with previous.serving(theatre):
            job_id = finished_job(theatre)
            reports = reports_on(theatre, job_id)

        def read(query: str) -> list[tuple[Any, ...]]:
            if database == "postgresql":
                return postgres_server.execute(query, name)
            with closing(sqlite3.connect(path)) as ledger:
                return ledger.execute(query).fetchall()

        if database == "postgresql":
            name = postgres_server.new_database()
            previous.command(theatre, "db", "move", "--to", postgres_server.url(name))
            (theatre.root / "autopilot.toml").write_text(f'[ledger]\nurl = "{postgres_server.url(name)}"\n')
        sums = {view: read(f"SELECT {columns} FROM {view}") for view, columns in VIEWS.items()}
        counts = {table: read(f"SELECT count(*) FROM {table}") for table in TABLES}
        assert all(sums.values())
        assert [table for table, count in counts.items() if count == [(0,)]] == []
        assert RENAMED.keys() - UNRECORDED <= words(read, database)

        assert asked(theatre, "db", "upgrade")["done"]
        assert [check for check in asked(theatre, "db", "check")["checks"] if check["ok"] is False] == []
        assert {view: read(f"SELECT {columns} FROM {view}") for view, columns in VIEWS.items()} == sums
        assert {table: read(f"SELECT count(*) FROM {table}") for table in TABLES} == counts
        ((revision,),) = read("SELECT version_num FROM alembic_version")
        if revision >= RENAMED_BY:
            assert words(read, database) & RENAMED.keys() == set()

        theatre.start_daemon()
        assert finished_job(theatre) == job_id
        assert differences(reports, reports_on(theatre, job_id)) == []


def finished_job(theatre: Theatre) -> str:
    (job_id,) = (job["id"] for job in theatre.client.get("/v1/jobs", all=1)["jobs"] if job["name"] == "finished")
    return str(job_id)


def asked(theatre: Theatre, *words: str) -> Json:
    done = command(theatre, *words, "--json")
    assert done.returncode == 0, done.stdout + done.stderr
    body: Json = json.loads(done.stdout)
    return body


def words(read: Callable[[str], list[tuple[Any, ...]]], database: str) -> set[str]:
    """What the ledger calls things: its columns without their units, and every word in the JSON that it holds."""
    columns = "SELECT name FROM pragma_table_info('{}')"
    if database == "postgresql":
        columns = "SELECT column_name FROM information_schema.columns WHERE table_name = '{}'"
    found: set[str] = set()
    for table in TABLES:
        found |= {name.removesuffix("_nano").removesuffix("_us") for (name,) in read(columns.format(table))}
        values = [value for row in read(f"SELECT * FROM {table}") for value in row]
        documents = [value if isinstance(value, str) else json.dumps(value, default=str) for value in values]
        found |= {word for text in documents if text.startswith(("[", "{")) for word in re.findall(r'"(\w+)"', text)}
    return found


# --- both


def differences(before: Any, after: Any, where: str = "") -> list[str]:
    """What ``before`` says and ``after`` does not. ``after`` may say more, and say it with other words."""
    if isinstance(before, dict) and isinstance(after, dict):
        found: list[str] = []
        for key, value in before.items():
            if key in UNSAID:
                continue
            told = [differences(value, after[name], f"{where}.{key}") for name in names(key) if name in after]
            fewest = min(told or [[f"{where}.{key} is missing"]], key=len)
            found += fewest
        return found
    if isinstance(before, list) and isinstance(after, list):
        return [
            f"{where}: no row like {row}" for row in before if all(differences(row, candidate) for candidate in after)
        ]
    is_same = after in names(before) if isinstance(before, str) else after == before
    return [] if is_same else [f"{where}: {before!r} became {after!r}"]


def names(word: str) -> tuple[str, ...]:
    return (word, *RENAMED.get(word, ()), *SAID_NOW.get(word, ()))
