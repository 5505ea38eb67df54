"""The commands about money, as typed, while a job runs and after its bill has come: all of them tell the same story."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, command, is_settled, job_text, show, submit, until

pytestmark = pytest.mark.slow

CENT = Decimal("0.01")


@pytest.fixture(scope="module")
def theatre() -> Iterator[Theatre]:
    with a_theatre() as running:
        running.start_market()
        running.start_daemon()
        yield running


@pytest.fixture(scope="module")
def while_it_ran(theatre: Theatre) -> dict[str, Any]:
    """What ``budget`` and ``show`` said while the machine billed; by then the job is over and settled."""
    job_id = submit(theatre, job_text(400))
    until(lambda: show(theatre, job_id)["job"]["step"] > 20, "the job runs")
    seen = {"job_id": job_id, "budget": asked(theatre, "budget")}
    until(lambda: is_settled(theatre, show(theatre, job_id)), "the invoice is imported")
    return seen


def asked(theatre: Theatre, *words: str) -> Any:
    done = command(theatre, *words, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def told(theatre: Theatre, *words: str) -> str:
    done = command(theatre, *words, COLUMNS="120")
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_budget_of_a_running_job(while_it_ran: dict[str, Any]) -> None:
    account, (job,) = while_it_ran["budget"]["account"], while_it_ran["budget"]["jobs"]
    assert Decimal(job["limit"]) == 3
    assert Decimal(job["posted"]) + Decimal(job["accrued"]) > 0 < Decimal(job["held"])
    assert Decimal(job["left"]) == 3 - sum(Decimal(job[name]) for name in ("posted", "accrued", "held"))
    assert Decimal(account["burn"]) == Decimal(job["burn"]) > 0
    assert Decimal(account["month"]["posted"]) >= Decimal(job["posted"])
    assert job["runway_s"] == pytest.approx(float(Decimal(job["left"]) / Decimal(job["burn"])) * 3600, rel=1e-6)


def test_every_report_has_the_same_sum(theatre: Theatre, while_it_ran: dict[str, Any]) -> None:
    total = Decimal(asked(theatre, "spend")["total_row"]["posted"])
    assert total > 0
    for by in ("month", "day", "label", "provider", "gpu", "kind", "instance"):
        body = asked(theatre, "spend", "--by", by)
        assert Decimal(body["total_row"]["posted"]) == sum(Decimal(row["posted"]) for row in body["rows"]) == total
    in_zone = asked(theatre, "spend", "--by", "day", "--zone", "Asia/Kolkata", "--since", "3d")
    assert Decimal(in_zone["total_row"]["posted"]) == total
    (row,) = csv.DictReader(io.StringIO(command(theatre, "spend", "--csv").stdout))
    assert (row["key"], Decimal(row["posted"])) == (while_it_ran["job_id"], total)
    reconciled = asked(theatre, "reconcile")
    assert Decimal(reconciled["total"]["posted"]) == total
    with closing(sqlite3.connect(f"file:{theatre.root / 'daemon' / 'ledger.db'}?mode=ro", uri=True)) as ledger:
        (in_sql,) = ledger.execute("SELECT sum(total_usd) FROM spend_by_month").fetchone()
    assert in_sql == pytest.approx(float(total))


def test_the_bill_beside_the_market_s_own_books(theatre: Theatre, while_it_ran: dict[str, Any]) -> None:
    (row,) = asked(theatre, "reconcile")["rows"]
    (book,) = theatre.emu("books")["books"]
    assert str(book["instance_id"]) == row["instance_id"]
    assert abs(Decimal(book["billed"]) - Decimal(row["invoiced"])) < CENT
    assert abs(Decimal(row["posted"]) - Decimal(row["invoiced"])) < CENT
    assert row["instance_id"] in told(theatre, "reconcile")


def test_the_whole_life_of_a_machine_by_any_of_its_names(theatre: Theatre, while_it_ran: dict[str, Any]) -> None:
    (lease,) = show(theatre, while_it_ran["job_id"])["leases"]
    lives = [asked(theatre, "show", name) for name in (lease["instance_id"], lease["id"], lease["label"])]
    assert lives[0] == lives[1] == lives[2]
    (life,) = lives[0]["instances"]
    assert life["lease"]["job"] == "train"
    assert [span["status"] for span in life["spans"]][-1] == "running"
    assert {"reserve", "void", "accrue"} <= {entry["type"] for entry in life["entries"]}
    spent = sum(Decimal(e["amount"]) for e in life["entries"] if e["type"] not in ("reserve", "void"))
    assert Decimal(life["lease"]["posted"]) == spent
    assert {"lease.intended", "lease.acquired", "lease.gone"} <= {event["name"] for event in life["events"]}
    assert "provisioning" in told(theatre, "show", lease["instance_id"])


def test_savings_and_prices(theatre: Theatre, while_it_ran: dict[str, Any]) -> None:
    out = told(theatre, "spend")
    assert "on demand, the same market" in out
    assert "RTX 4090: TensorDock On-Demand" in out
    (market,) = asked(theatre, "prices", "RTX 4090", "--since", "1d")["markets"]
    assert market["observations"] > 0
    assert Decimal(market["low"]) < Decimal(market["on_demand"])
    assert "lowest winning bid" in told(theatre, "prices", "RTX 4090", "--since", "2h")
    assert "no prices of RTX 2080" in told(theatre, "prices", "RTX 2080")


def test_parquet_and_its_mistakes(theatre: Theatre, while_it_ran: dict[str, Any], tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "spend.parquet"
    assert "1 lines written" in command(theatre, "spend", "--parquet", str(file)).stdout
    (row,) = parquet.read_table(file).to_pylist()
    assert row["posted"] == Decimal(asked(theatre, "spend")["total_row"]["posted"])
    done = command(theatre, "spend", "--parquet", str(tmp_path / "no" / "where"))
    assert (done.returncode, "cannot write" in done.stderr) == (1, True)
