"""Commands about money and prices against a real server: what is asked, what is printed or written, the exit code."""

from __future__ import annotations

import csv
import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.cli.price_plot import plot
from autopilot.words import bills
from tests.unit.cli.sample_daemon import Daemon, sample
from tests.unit.cli.test_commands import printed

Capture = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["budget"], "budget"),
        (["reconcile"], "reconcile"),
        (["prices", "RTX 4090"], "prices"),
        (["show", "47848147"], "instance"),
    ],
)
def test_json_is_the_daemon_s_answer(daemon: Daemon, capsys: Capture, argv: list[str], name: str) -> None:
    assert json.loads(printed(capsys, *argv, "--json")) == sample(name)


def test_spend(daemon: Daemon, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    out = " ".join(printed(capsys, "spend", "--month", "2026-01", "--by", "provider").split())
    assert daemon.requests[0] == ("GET /v1/spend", "by=provider&month=2026-01", None)
    assert "bert-qa $0.28 $0.01 $0.00 $0.29 $0.00 $0.11 1.0 $0.23 2" in out
    assert "on demand, the same market $0.51 $0.28 $0.23 45%" in out
    assert "RTX 4090: TensorDock On-Demand, $0.37/h per GPU (2025-04-28)" in out
    assert "FEES" not in out
    out = " ".join(printed(capsys, "spend", "--exact").split())
    assert "bert-qa $0.281000000 $0.012697454 $0.000000000 $0.293697454 $0.001200000 $0.107100000" in out
    assert "--exact is for the table" in printed(capsys, "spend", "--exact", "--json", code=2)


def test_spend_shows_fees_where_there_are_some(daemon: Daemon, capsys: Capture) -> None:
    body = sample("spend")
    body["rows"][0]["fees"] = "-0.5"
    daemon.answers["GET /v1/spend"] = (200, body)
    assert "-$0.50" in printed(capsys, "spend")


def test_spend_between_days(daemon: Daemon, capsys: Capture) -> None:
    printed(capsys, "spend", "--since", "2026-01-05", "--until", "2026-01-31", "--zone", "Europe/Berlin", "--by", "day")
    assert daemon.requests[0][1] == "by=day&since=2026-01-05&until=2026-01-31&zone=Europe/Berlin"
    printed(capsys, "spend", "--since", "7d")
    today = sample("status")["now"][:10]
    assert today == "2026-01-01"
    assert daemon.requests[-1][1] == "by=job&since=2025-12-25"


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--month", "2026-13"], "not a month"),
        (["--by", "moon"], "cannot group spend by 'moon'"),
        (["--since", "yesterday"], "not a day"),
        (["--since", "99999999d"], "too long ago"),
        (["--since", "7d", "--zone", "Europe/Atlantis"], "no such time zone"),
        (["--month", "2026-01", "--since", "7d"], "exclude each other"),
        (["--json", "--csv"], "exclude each other"),
    ],
)
def test_spend_of_nonsense(daemon: Daemon, capsys: Capture, argv: list[str], message: str) -> None:
    assert message in printed(capsys, "spend", *argv, code=2)
    assert not [asked for asked, *_ in daemon.requests if asked == "GET /v1/spend"]


def test_spend_as_csv(daemon: Daemon, capsys: Capture) -> None:
    body = sample("spend")
    body["rows"].append(body["rows"][0] | {"name": "=HYPERLINK(1)", "on_demand": None, "saved": None})
    daemon.answers["GET /v1/spend"] = (200, body)
    first, second = csv.DictReader(io.StringIO(printed(capsys, "spend", "--csv")))
    assert (first["name"], first["posted"], first["saved"]) == ("bert-qa", "0.293697454", "0.231")
    assert (second["name"], second["on_demand"]) == ("'=HYPERLINK(1)", "")


def test_spend_as_parquet(daemon: Daemon, capsys: Capture, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "spend.parquet"
    assert "1 lines written" in printed(capsys, "spend", "--parquet", str(file))
    (row,) = parquet.read_table(file).to_pylist()
    assert (row["name"], row["posted"], row["instances"]) == ("bert-qa", Decimal("0.293697454"), 2)
    assert "cannot write" in printed(capsys, "spend", "--parquet", str(tmp_path / "none" / "x"), code=1)


def test_parquet_without_its_extra(
    daemon: Daemon, capsys: Capture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)  # as where it is not installed
    out = printed(capsys, "spend", "--parquet", str(tmp_path / "x"), code=2)
    assert ".[parquet]" in out
    assert daemon.requests == []


def test_budget(daemon: Daemon, capsys: Capture) -> None:
    out = " ".join(printed(capsys, "budget").split())
    for part in (
        "day (UTC) $50.0000 $12.4000 $0.0012 $0.2488 $37.3500 not at this rate",
        "month (UTC) $500.0000 $490.0000 $0.0012 $0.2488 $9.7500 1 d 7 h",
        "job bert-qa $2.0000 $0.2937 $0.0012 $0.2488 $1.4563 4 h 40 min",
        "reserved, job bert-qa $0.0666 for its disk, in case deletion is delayed, $0.0364 to save and stop",
        "spend rate $0.312/h, at most $0.35/h",
        "about $500.00 at this rate (capped by the limit)",
        "credit on vastai $7.80, lasts 1 d 1 h",
        "machines 1 of 10 rented in an hour 3 of 20 (5 kept for urgent deadlines), 12 of 200 refused",
        "rented in 10 min, job bert-qa 1 of 3, 0 of 20 refused",
    ):
        assert part in out, part


def test_reconcile(daemon: Daemon, capsys: Capture) -> None:
    out = " ".join(printed(capsys, "reconcile", "--month", "2026-11").split())
    assert daemon.requests[0][1] == "month=2026-11"
    assert "$0.5000 $0.0200 $0.5200 $0.5200 $0.0000 $0.0000 $0.0000 complete" in out
    assert "$0.1000 $0.0000 $0.1000 - $0.1000 $0.0004 $0.0200" in out
    assert "total $0.6000 $0.0200 $0.6200 $0.5200 $0.1000 $0.0004 $0.0200" in out
    assert "1 not billed by their markets yet" in out
    assert "not a month" in printed(capsys, "reconcile", "--month", "11", code=2)


def test_the_life_of_a_machine(daemon: Daemon, capsys: Capture) -> None:
    out = " ".join(printed(capsys, "show", "47848147").split())
    assert [asked for asked, *_ in daemon.requests][:2] == ["GET /v1/jobs/47848147", "GET /v1/instances/47848147"]
    for part in (
        "instance 47848147 on vastai",
        "running $0.28/h $0.003/h",
        "settle compute $0.000308",
        "spot at $0.28/h: cheapest; runs after",
        "posted",
    ):
        assert part in out, part


def test_neither_job_nor_machine(daemon: Daemon, capsys: Capture) -> None:
    assert "error: no job or machine 'nothing'" in printed(capsys, "show", "nothing", code=2)


def test_prices(daemon: Daemon, capsys: Capture) -> None:
    out = printed(capsys, "prices", "RTX 4090", "--since", "2h", "--provider", "vastai")
    assert daemon.requests[0][1] == "gpu=RTX 4090&since=2h&provider=vastai&steps=70"
    assert "0.242 │" in out
    assert "lowest winning bid: last $0.242, $0.242 to $0.259, mean $0.248" in out
    assert "4 observations of 4 machines; on demand from $0.395" in out
    assert max(map(len, out.splitlines())) <= 80
    daemon.answers["GET /v1/prices"] = (200, sample("prices") | {"markets": []})
    assert "no prices of RTX 4090 were recorded" in printed(capsys, "prices", "RTX 4090")


def test_a_plot_shows_proportions_and_gaps() -> None:
    values = [Decimal(4), Decimal(2), None, Decimal(1), Decimal("0.001")]
    assert plot(values, rows=2).splitlines() == ["   4.000 │█", "   2.000 │██·▄▁"]
    assert plot([Decimal("3.5"), Decimal(4)], rows=1) == "   4.000 │▇█"
    assert plot([], rows=1) == "   1.000 │"


@pytest.mark.parametrize(
    ("waits_for", "posted", "is_billed", "told"),
    [
        (None, "0.52", True, "complete"),
        (None, "0.52", False, "not confirmed by a bill"),
        (None, "0", False, "complete"),
        ("no_bill", "0.52", False, "no line yet"),
    ],
)
def test_a_machine_whose_bill_never_came_is_told_from_one_that_is_paid(
    waits_for: str | None, posted: str, is_billed: bool, told: str
) -> None:
    assert bills.tell_wait(waits_for, Decimal(posted), is_billed=is_billed) == told
