"""Alert rules and dashboard, by promtool and by a Prometheus that scrapes a daemon over TCP, with a token.

Both are Debian's (``apt install prometheus``). Where they are missing, these tests are skipped and say so.
"""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest

from autopilot.blobs.place import API, MailboxPlace
from autopilot_lab.demo.theatre import Theatre
from tests.acceptance.stage import a_theatre, job_text, show, submit, until
from tests.patience import PATIENCE_S

ROOT = Path(__file__).parents[3]
RULES = ROOT / "config/prometheus/alerts.yml"
DASHBOARD = ROOT / "config/grafana/autopilot.json"
PAGE = ROOT / "docs/how-to/watch-with-prometheus.md"

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
needs_prometheus = pytest.mark.skipif(shutil.which("prometheus") is None, reason="prometheus is not installed")


def queries() -> list[str]:
    """Of the dashboard."""
    return [target["expr"] for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]]


def figures_told() -> set[str]:
    """Of the page, in full."""
    text = PAGE.read_text().split("## Metrics")[1].split("## Alerts")[0]
    return {f"autopilot_{name}" for name in re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)}


def figures_in(text: str) -> set[str]:
    return {name.removesuffix("_bucket") for name in re.findall(r"\bautopilot_\w+", text)}


def test_rules_and_dashboard_use_no_figure_that_the_page_does_not_tell() -> None:
    rules = "\n".join(re.findall(r"expr: ?>?\n?((?:.+\n)+?)(?=\s+(?:for|labels):)", RULES.read_text()))
    assert figures_in(rules) <= figures_told()
    assert figures_in("\n".join(queries())) <= figures_told()


def test_every_alert_is_told_and_has_a_case() -> None:
    named = re.findall(r"alert: (\w+)", RULES.read_text())
    assert re.findall(r"^\| `(Autopilot\w+)` \|", PAGE.read_text(), re.MULTILINE) == named
    cases = (Path(__file__).parent / "alert_cases.yml").read_text()
    for name in named:
        assert re.search(rf"alertname: {name}\n        exp_alerts:\n", cases), f"{name} is never seen to fire"
        assert f"alertname: {name}, exp_alerts: []" in cases, f"{name} is never seen to be silent"


@needs_promtool
def test_the_rules_fire_where_they_should_and_not_before(tmp_path: Path) -> None:
    shutil.copy(RULES, tmp_path)
    shutil.copy(Path(__file__).parent / "alert_cases.yml", tmp_path)
    for words in (("check", "rules", "alerts.yml"), ("test", "rules", "alert_cases.yml")):
        done = subprocess.run(["promtool", *words], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def theatre() -> Iterator[Theatre]:
    with a_theatre(settings={"AUTOPILOT_HTTP__LISTEN": "127.0.0.1:0"}) as made:
        made.start_market()
        made.start_daemon()
        yield made


def scrape(theatre: Theatre, token: str) -> str:
    port = MailboxPlace(theatre.root / "daemon").port(API)
    request = Request(f"http://127.0.0.1:{port}/metrics", headers={"Authorization": f"Bearer {token}"})
    with urlopen(request, timeout=PATIENCE_S) as answer:
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return str(answer.read().decode())


def run_a_job(theatre: Theatre) -> str:
    """Its id, once it has money on it, a bid and a checkpoint."""
    job = submit(theatre, job_text(4000) + '\n[deadline]\nwithin = "24h"\n')
    until(lambda: show(theatre, job)["job"]["checkpoint"], "a checkpoint")
    return job


def a_token(theatre: Theatre, name: str = "prometheus", *, sees_all: bool = True) -> str:
    wish = {"name": name, "scope": "read", "sees_all": sees_all, "allow": "$5"}
    return str(theatre.client.post("/v1/tokens", wish)["secret"])


def test_every_figure_is_there_with_the_ledger_s_money_and_bounded_labels(theatre: Theatre) -> None:
    token, job = a_token(theatre), run_a_job(theatre)
    text = scrape(theatre, token)
    samples = re.findall(r"^(autopilot_\w+)(?:\{(.*)\})? (\S+)$", text, re.MULTILINE)
    names = {re.sub(r"_(bucket|sum|count|created)$", "", name) for name, _, _ in samples}
    families = set(re.findall(r"^# TYPE (\w+) ", text, re.MULTILINE))
    assert {name for name in families if not name.endswith("_created")} == figures_told()
    optional = {
        "autopilot_job_progress_ratio",
        # The markets of the sandbox need none.
        "autopilot_certificate_in_force",
        "autopilot_certificate_ends_timestamp_seconds",
    }
    billed_later = {"autopilot_ledger_invoiced_dollars", "autopilot_ledger_invoice_difference_dollars"}
    assert figures_told() - names <= optional | billed_later | {
        "autopilot_spend_month_dollars",
        "autopilot_ticks_failed",
    }
    values = {(name, labels): float(value) for name, labels, value in samples}
    budget = theatre.client.get("/v1/budget")
    (row,) = budget["jobs"]
    key = f'job="{job}",name="train"'
    spent = values["autopilot_job_spend_dollars", key]
    assert 0 < spent <= float(Decimal(row["posted"]) + Decimal(row["accrued"]))  # the sum of two floats may be less
    assert values["autopilot_burn_dollars_per_hour", 'capacity="spot",provider="vastai"'] > 0
    assert values["autopilot_token_allowance_remaining_dollars", 'token="prometheus"'] == 5.0
    assert values["autopilot_jobs", 'status="running"'] == 1
    assert values["autopilot_orphans", ""] == 0


def test_a_token_that_may_not_see_all_is_refused_and_a_user_is_not(theatre: Theatre) -> None:
    token = a_token(theatre, "narrow", sees_all=False)
    with pytest.raises(URLError, match="403"):
        scrape(theatre, token)


@contextmanager
def a_prometheus(theatre: Theatre, token: str, directory: Path) -> Iterator[str]:
    """One that scrapes the daemon every second; yields its address."""
    (directory / "token").write_text(token)
    shutil.copy(RULES, directory)
    target = f"127.0.0.1:{MailboxPlace(theatre.root / 'daemon').port(API)}"
    (directory / "prometheus.yml").write_text(f"""
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: autopilot
    authorization: {{credentials_file: token}}
    static_configs: [{{targets: ["{target}"]}}]
""")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    options = [f"--config.file={directory}/prometheus.yml", f"--storage.tsdb.path={directory}/data"]
    with open(directory / "log", "wb") as log:
        process = subprocess.Popen(
            ["prometheus", *options, f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log
        )
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def query(url: str, expression: str) -> Any:
    with urlopen(f"{url}/api/v1/query?{urlencode({'query': expression})}", timeout=PATIENCE_S) as answer:
        body = json.load(answer)
    assert body["status"] == "success", body
    return body["data"]["result"]


@needs_prometheus
def test_every_query_of_the_dashboard_is_answered_by_a_prometheus_that_scraped_a_daemon(
    theatre: Theatre, tmp_path: Path
) -> None:
    token = a_token(theatre)
    run_a_job(theatre)
    with a_prometheus(theatre, token, tmp_path) as url:

        def is_scraped() -> bool:
            try:
                return len(query(url, "rate(autopilot_tick_seconds_count[1m])")) > 0
            except (URLError, ConnectionError):
                return False

        until(is_scraped, f"two scrapes; {tmp_path / 'log'} says more")
        empty = {expression for expression in queries() if not query(url, expression)}
        later = ("invoice_difference", "spend_month", "progress_ratio")
        assert not {expression for expression in empty if not any(word in expression for word in later)}
        for rule in re.findall(r"alert: (\w+)", RULES.read_text()):
            assert not query(url, f'ALERTS{{alertname="{rule}", alertstate="firing", severity="page"}}'), rule
