"""Jobs of backtests: what is taken from a job file, several at a time, on made-up markets, from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.config.job_file import parse_job
from autopilot.domain.errors import UserError
from autopilot_lab.backtest.perturbation import EXACT
from autopilot_lab.backtest.play import Conditions, budget_of
from autopilot_lab.backtest.synthetic import synthetic_suite
from autopilot_lab.backtest.tasks import Task, task_of
from autopilot_lab.backtest.trials import Trial, pool

NOW = datetime(2026, 9, 1, 10, tzinfo=UTC)
TOP = 'name = "short"\nimage = "python:3.12"\nrun = "python train.py"\n[resources]\ngpu = "RTX 4090"\n'
SHORT = TOP + '[work]\nestimate = "2h"\n'
DEADLINE = '[deadline]\nwithin = "4h"\n'
CHECKPOINT = '[checkpoint]\npath = "ckpt"\ninterval = "{}"\n'
FAST = ["--jobs", "1", "--policy", "on-demand,floor-markup"]


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.toml"
    path.write_text(SHORT + DEADLINE)
    return path


def asked(text: str) -> Task:
    return task_of(parse_job(text, source="job.toml", now=NOW), NOW)


def test_work_deadline_and_budget_are_the_job_file_s() -> None:
    task = asked(SHORT + DEADLINE + '[budget]\ntotal = "$3"\n')
    assert (task.name, task.work_s, task.deadlines_s, task.budget) == ("short", 7200.0, (14400.0,), Decimal(3))
    at = (NOW + timedelta(hours=5)).isoformat()
    assert asked(SHORT + f"[deadline]\nat = {at}\n").deadlines_s == (18000.0,)


def test_without_a_deadline_those_are_played_that_can_be_kept() -> None:
    assert asked(SHORT).deadlines_s == (7920.0, 9000.0, 10800.0, 14400.0, 21600.0)
    assert asked(SHORT.replace("2h", "1h")).deadlines_s == (4500.0, 5400.0, 7200.0, 10800.0)


@pytest.mark.parametrize(
    ("checkpoint", "interval_s"), [(CHECKPOINT.format("7m"), 420), (CHECKPOINT.format("90s"), 120), ("", 7200)]
)
def test_a_pause_throws_back_to_the_last_checkpoint(checkpoint: str, interval_s: float) -> None:
    assert asked(SHORT + checkpoint).checkpoint_s == interval_s


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (TOP, "short: a backtest needs an estimate of the work"),
        (SHORT + '[deadline]\nwithin = "2h"\n', "short: not even on demand can it be done by its deadline"),
    ],
)
def test_jobs_that_cannot_be_played(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        asked(text)


def test_each_run_has_its_job_s_budget_unless_all_get_a_share() -> None:
    suite = synthetic_suite("three-machines", 1, asked(SHORT), starts=1)
    trial, share = Trial(suite, Decimal(3)), Conditions(0.5, EXACT)
    assert budget_of(suite, suite.runs[0], trial.under(Conditions(None, EXACT))) == pytest.approx(3)
    assert trial.under(share) == share


def test_pooled_runs_of_one_start_share_a_block_only_on_one_market() -> None:
    tasks = (asked(SHORT), asked(SHORT + DEADLINE))
    one, other = (synthetic_suite("three-machines", seed, tasks[0], starts=2) for seed in (1, 2))
    same = synthetic_suite("three-machines", 1, tasks[1], starts=2)
    pooled = pool([Trial(one), Trial(other), Trial(same)])
    assert pooled.name == "synthetic three-machines 1, synthetic three-machines 2"
    assert len(pooled.runs) == len(one.runs) + len(other.runs) + len(same.runs)
    blocks = [each.block for each in pooled.runs]
    assert blocks[0] == blocks[-2] != blocks[len(one.runs)]
    assert len(set(blocks)) == 4


def test_a_default_day_on_a_made_up_market(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["backtest", "--synthetic", "three-machines", "--seed", "7", *FAST, "--runs", "every-12", "--json"]
    assert run(argv) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["suite"], body["runs"]) == ("synthetic three-machines 7", 5)
    assert set(body) == {"suite", "runs", "policies"}
    deadlines = [group["deadline_h"] for group in body["policies"][0]["groups"]]
    assert deadlines == pytest.approx([26.4, 30, 36, 48, 72])


def test_job_files_on_several_seeds(job: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_budget = job.with_name("dear.toml")
    with_budget.write_text(SHORT.replace("2h", "3h") + DEADLINE.replace("4h", "6h") + '[budget]\ntotal = "$0.5"\n')
    argv = ["backtest", str(job), str(with_budget), "--synthetic", "three-machines", "--seeds", "2"]
    assert run([*argv, *FAST, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert body["runs"] == 2 * 2 * 12
    row = body["policies"][0]
    assert [(group["setting"][:3], group["deadline_h"], group["runs"]) for group in row["groups"]] == [
        ("2 h", 4, 24),
        ("3 h", 6, 24),
    ]
    # Three hours on demand at $0.65 are over half a dollar, and the other job has no limit.
    assert row["overruns"] == 24


@pytest.mark.slow
def test_the_product_s_own_policy_on_a_market_that_is_seen_in_part(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "out.html"
    argv = ["backtest", "--synthetic", "vast", str(job), "--policy", "autopilot", "--runs", "2", "--jobs", "1"]
    assert run([*argv, "--report", str(page)]) == 0
    out = capsys.readouterr().out
    assert "synthetic vast 1: 2 runs" in out
    assert "Backtest of synthetic vast 1" in page.read_text()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ([], "choose a market"),
        (["--suite", "x.json", "--history"], "choose a market"),
        (["--synthetic", "vast", "--history"], "choose a market"),
        (["--history", "--replay", "x.jsonl"], "choose a market"),
        (["--suite", "x.json", "job.toml"], "job files are played with --synthetic or --history"),
        (["--synthetic", "vast", "--seeds", "0"], "--seeds is 1 or more"),
        (["--synthetic", "vast", "nowhere.toml"], "cannot read nowhere.toml"),
        (["--synthetic", "three-machines", "--seeds", "2", "--report", "x.html"], "--report draws one market"),
        (["--synthetic", "mars"], "mars"),
    ],
)
def test_mistakes_are_said_in_one_line(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["backtest", *options]) == 2
    captured = capsys.readouterr()
    assert says in captured.err
    assert "Traceback" not in captured.err
