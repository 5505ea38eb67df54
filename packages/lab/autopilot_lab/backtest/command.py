"""``autopilot backtest``: policies on recorded markets, beside what they cost on demand and at best."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from autopilot.cli.exits import CommandError, Exit
from autopilot.cli.files import JobFile, read_job_file
from autopilot.cli.output import console, print_json, table
from autopilot.domain.errors import UserError
from autopilot.system import count_usable_cores
from autopilot.words import text

if TYPE_CHECKING:
    from autopilot_lab.backtest.arrays import WidthScore
    from autopilot_lab.backtest.live import Live
    from autopilot_lab.backtest.play import Conditions
    from autopilot_lab.backtest.scores import Score
    from autopilot_lab.backtest.suite import Pays, Suite
    from autopilot_lab.backtest.tasks import Task
    from autopilot_lab.backtest.trials import Trial

Flag = Parameter(negative="")
Place = Literal["processes", "ray"]
Kind = Literal["vast", "vast-like", "contested", "two-gpus", "three-machines", "calm", "stormy", "trending"]
Auction = Literal["pay-as-bid", "uniform", "cap"]
PAYS: Mapping[Auction, Pays] = {"pay-as-bid": "bid", "uniform": "clearing", "cap": "cap"}
LONGEST = timedelta(days=3660)
"""Further back than any ledger reaches."""


def backtest(
    *files: JobFile,
    suite: Path | None = None,
    synthetic: Kind | None = None,
    seed: int = 1,
    seeds: int = 1,
    history: Annotated[bool, Flag] = False,
    since: str = "30d",
    config: Path | None = None,
    policy: str | None = None,
    fit: Path | None = None,
    runs: str | None = None,
    auction: Auction | None = None,
    budget_share: float | None = None,
    as_live: Annotated[bool, Parameter(name="--as-live", negative="--ideal")] = True,
    recorded: str = "7d",
    reports_progress: Annotated[bool, Flag] = False,
    estimate_error: float | None = None,
    tasks: int | None = None,
    parallel: str | None = None,
    floor_lag: int = 0,
    vanish: float = 0.0,
    jobs: int | None = None,
    on: Place = "processes",
    json: Annotated[bool, Flag] = False,
    report: Path | None = None,
    replay: Path | None = None,
) -> int:
    """Replay policies on a recorded market and score them against on-demand and the offline optimum.

    Needs no daemon and spends nothing. Time is virtual; the same command gives the same costs.

    Parameters
    ----------
    files
        Job files to play with --synthetic or --history; default: 24 h of work with five deadlines.
    suite
        A suite file of kind "availability" or "bids".
    synthetic
        Instead of a suite: a market made from a seed, like vast, vast-like, contested, two-gpus, calm or stormy.
    seed
        The first seed of --synthetic.
    seeds
        Number of markets that --synthetic generates, from consecutive seeds.
    history
        Instead of a suite: the market as the daemon recorded it in its ledger, which is only read.
    since
        For --history: how far back to start, like 30d or 36h.
    config
        For --history: a configuration file that locates the ledger, read after the system's and your own.
    policy
        Policies by name, separated by commas, with parameters as NAME:param=value; default: all that play this kind.
    fit
        Another suite file, to train the policies that learn. Never train on the suite that is scored.
    runs
        every-N takes every Nth run of each deadline and setting; a number takes that many, spread evenly.
    auction
        For bids: the winner pays its bid, or one price for all, or that price under a cap. Default: as the suite says.
    budget_share
        Give each run a budget of this share of its on-demand cost.
    as_live
        Play suites of bids as the daemon would live, or exactly as recorded (--ideal).
    recorded
        As live: how much of the market was recorded before each run, like 7d; 0 for a first job.
    reports_progress
        As live: jobs report their progress.
    estimate_error
        Give policies a wrong work estimate: as live, off by up to this share (0.15); else by exactly this share (0).
    tasks
        Play arrays of this many tasks, each like the job, at the width the daemon would choose and at fixed widths.
    parallel
        With --tasks: the fixed widths, separated by commas; default: 1,2,4,8,16,32.
    floor_lag
        Show policies the market this many ticks late.
    vanish
        In this share of ticks no on-demand machine is available.
    jobs
        Number of processes; default: all cores.
    on
        Where to run: processes of this machine, or the Ray cluster that RAY_ADDRESS names.
    json
        Print the scores as JSON.
    report
        Write an HTML report with plots that opens offline.
    replay
        Instead of a suite: repeat every decision of this recording (autopilot serve --record) and compare.
    """
    places = (suite is not None, synthetic is not None, history, replay is not None)
    _check_market(places, has_files=bool(files))
    if replay is not None:
        return _replay(replay, json)
    not_of_arrays = (suite, policy, fit, budget_share, report, floor_lag or None, vanish or None)
    alone = as_live and on == "processes" and all(option is None for option in not_of_arrays)
    _check_arrays(tasks, parallel, is_possible=alone)
    _check_numbers(budget_share, estimate_error, vanish, floor_lag, jobs)
    if suite is not None:
        trials = _read_suite(suite)
    elif synthetic is not None:
        trials = _made_up(synthetic, range(seed, seed + seeds), _tasks(files, tasks))
    else:
        trials = _read_recorded(config, since, _tasks(files, tasks))
    if report is not None and len(trials) > 1:
        raise UserError("--report draws one market", hint="give one seed and one job file")
    if auction is not None:
        trials = [replace(trial, suite=_set_auction(trial.suite, auction)) for trial in trials]
    live = _live(recorded, estimate_error, reports_progress) if as_live else None
    if live is not None:
        trials = [replace(trial, suite=_as_live(trial.suite, live, history)) for trial in trials]
    if tasks is not None and live is not None:
        return _play_arrays([trial.suite for trial in trials], tasks, parallel, runs, live, jobs, json)

    from autopilot_lab.backtest.perturbation import Perturbation
    from autopilot_lab.backtest.play import Conditions

    conditions = Conditions(budget_share, Perturbation(estimate_error or 0.0, floor_lag, vanish), live)
    return _play(trials, _Options(policy, fit, runs, jobs, on, json, report), conditions)


@dataclass(frozen=True, slots=True)
class _Options:
    """As of ``backtest``."""

    policy: str | None
    fit: Path | None
    runs: str | None
    jobs: int | None
    on: Place
    json: bool
    report: Path | None


def _check_market(places: Sequence[bool], *, has_files: bool) -> None:
    """``places``: which of a suite, a seed, the ledger and a recording are named."""
    if sum(places) != 1:
        raise UserError("choose a market", hint="give one of --suite, --synthetic, --history or --replay")
    has_suite, _, _, has_recording = places
    if has_files and (has_suite or has_recording):
        raise UserError("job files are played with --synthetic or --history", hint="a suite has runs of its own")


def _check_arrays(tasks: int | None, parallel: str | None, *, is_possible: bool) -> None:
    if tasks is None and parallel is not None:
        raise UserError("--parallel is for arrays", hint="give --tasks as well")
    if tasks is None:
        return
    if not is_possible:
        raise UserError(
            "--tasks plays the daemon's own policy, as live, on made-up or recorded markets",
            hint="leave out --suite, --policy, --fit, --budget-share, --ideal, --floor-lag, --vanish, --on and "
            "--report",
        )
    from autopilot_lab.backtest.arrays import check_tasks

    check_tasks(tasks)


def _check_numbers(
    budget_share: float | None, estimate_error: float | None, vanish: float, floor_lag: int, jobs: int | None
) -> None:
    _check_share("--budget-share", budget_share, 0.0, float("inf"))
    _check_share("--estimate-error", estimate_error, 0.0, 0.9)
    _check_share("--vanish", vanish, 0.0, 0.9)
    if floor_lag < 0 or (jobs is not None and jobs < 1):
        raise UserError("--floor-lag is 0 or more ticks, --jobs 1 or more processes")


def _play(trials: Sequence[Trial], asked: _Options, conditions: Conditions) -> int:
    from autopilot_lab.backtest.policies import default_policies, fit_models, parse_policies
    from autopilot_lab.backtest.runner import Plan
    from autopilot_lab.backtest.scores import score_all
    from autopilot_lab.backtest.selection import select_runs
    from autopilot_lab.backtest.suite_file import read_suite
    from autopilot_lab.backtest.trials import pool, run_trials

    if asked.report is not None:
        _write(asked.report, "", mode="a")  # what cannot be written is said before hours of play
    market = pool(trials)
    named = asked.policy
    policies = parse_policies(named) if named is not None else default_policies(market.config.kind)
    models = fit_models(policies, None if asked.fit is None else read_suite(asked.fit))
    plan = Plan(market, policies, models, conditions)
    chosen = select_runs(market, asked.runs)
    with _progress(len(chosen)) as advance:
        results = run_trials(trials, plan, chosen, asked.jobs or count_usable_cores(), asked.on, advance)
    scores = score_all(market, policies, results)
    if asked.report is not None:
        from autopilot_lab.backtest.report import report as page

        own_plan = replace(plan, conditions=trials[0].under(plan.conditions))
        _write(asked.report, page(own_plan, results, scores, shlex.join(["autopilot", *sys.argv[1:]])))
    if asked.json:
        print_json({"suite": market.name, "runs": len(results), "policies": [score.as_json() for score in scores]})
    else:
        _print_table(market, scores, len(results))
    return Exit.OK


def _play_arrays(
    suites: Sequence[Suite],
    tasks: int,
    parallel: str | None,
    runs: str | None,
    live: Live,
    jobs: int | None,
    json: bool,
) -> int:
    from autopilot_lab.backtest.arrays import PARALLEL, ArrayPlan, parse_widths, run_arrays
    from autopilot_lab.backtest.selection import select_runs
    from autopilot_lab.backtest.suite import BidSuite

    of_bids = tuple(suite for suite in suites if isinstance(suite, BidSuite))
    widths = parse_widths(PARALLEL if parallel is None else parallel)
    chosen = [(number, run) for number, suite in enumerate(of_bids) for run in select_runs(suite, runs)]
    with _progress(len(chosen) * len(widths)) as advance:
        scores = run_arrays(ArrayPlan(of_bids, tasks, live), chosen, widths, jobs or count_usable_cores(), advance)
    names = ", ".join(dict.fromkeys(suite.name for suite in of_bids))
    if json:
        print_json({"suite": names, "tasks": tasks, "arrays": len(chosen), "widths": [s.as_json() for s in scores]})
        return Exit.OK
    out = console()
    out.print(f"{names}: {len(chosen)} arrays of {tasks} tasks")
    columns = ["PARALLEL", "MEAN $", "/COSTED", "LATE", "DONE %", "END h", "BOOTS", "WIDEST"]
    for deadline_h in dict.fromkeys(score.deadline_h for score in scores):
        out.print()
        out.print(f"due after {deadline_h:g} h")
        rows = [_width_row(score) for score in scores if score.deadline_h == deadline_h]
        out.print(table(columns, rows, right=columns[1:]))
    return Exit.OK


def _width_row(score: WidthScore) -> list[str]:
    return [
        "costed" if score.parallel is None else str(score.parallel),
        f"{score.mean_cost:.2f}",
        _number(score.over_costed),
        f"{score.late} of {score.arrays}",
        f"{score.done * 100:.0f}",
        _number(score.mean_end_h, 1),
        f"{score.boots:.0f}",
        str(score.widest),
    ]


def _live(recorded: str, estimate_error: float | None, reports_progress: bool) -> Live:
    from autopilot.domain.time import parse_duration
    from autopilot_lab.backtest.live import Live

    recorded_h = 0.0 if recorded == "0" else parse_duration(recorded).total_seconds() / 3600
    live = Live(recorded_h, reports_progress=reports_progress)
    return live if estimate_error is None else replace(live, estimate_error=estimate_error)


def _set_auction(suite: Suite, auction: Auction) -> Suite:
    from autopilot_lab.backtest.suite import BidSuite

    if not isinstance(suite, BidSuite):
        raise UserError("--auction is of suites of bids")
    runs = dict.fromkeys(replace(run, pays=PAYS[auction]) for run in suite.runs)
    return replace(suite, runs=tuple(runs))


def _as_live(suite: Suite, live: Live, is_recorded: bool) -> Suite:
    from autopilot_lab.backtest.live import as_recorded, as_searched
    from autopilot_lab.backtest.suite import BidSuite

    if not isinstance(suite, BidSuite):
        return suite
    return as_recorded(suite) if is_recorded else as_searched(suite, live)


def _tasks(files: Sequence[Path], tasks: int | None = None) -> list[Task]:
    """What is played; jobs with a budget come first: the first run tells the scores whether there are budgets.

    ``tasks``: each is played as one task of an array of so many.
    """
    from autopilot.clock import SystemClock
    from autopilot.config.job_file import parse_job
    from autopilot_lab.backtest.tasks import DAY, task_of

    now = SystemClock().now()
    specs = [parse_job(toml, source=source, now=now) for toml, source in map(read_job_file, files)]
    if tasks is not None:
        from autopilot_lab.backtest.arrays import an_hour_each, deadlines_of

        read = [task_of(spec, now) for spec in specs]
        return [
            task if spec.deadline is not None else replace(task, deadlines_s=deadlines_of(task.work_s, tasks))
            for spec, task in zip(specs, read, strict=True)
        ] or [an_hour_each(tasks)]
    return sorted((task_of(spec, now) for spec in specs), key=lambda task: task.budget is None) or [DAY]


def _read_suite(path: Path) -> list[Trial]:
    from autopilot_lab.backtest.suite_file import read_suite
    from autopilot_lab.backtest.trials import Trial

    return [Trial(read_suite(path))]


def _made_up(kind: Kind, seeds: range, tasks: Sequence[Task]) -> list[Trial]:
    from autopilot_lab.backtest.synthetic import synthetic_suite
    from autopilot_lab.backtest.trials import Trial

    if not seeds:
        raise UserError("--seeds is 1 or more")
    return [Trial(synthetic_suite(kind, seed, task), task.budget) for task in tasks for seed in seeds]


def _read_recorded(config: Path | None, since: str, tasks: Sequence[Task]) -> list[Trial]:
    import asyncio

    from autopilot.clock import SystemClock
    from autopilot.config.settings import load_settings
    from autopilot.domain.time import parse_duration
    from autopilot.telemetry.logging import configure_logging
    from autopilot_lab.backtest.history import history_suites
    from autopilot_lab.backtest.trials import Trial

    settings = load_settings(config)
    configure_logging(settings.log.format, "warning", settings.secret_values())
    from_when = SystemClock().now() - min(parse_duration(since), LONGEST)
    suites = asyncio.run(history_suites(settings.ledger_url, tasks, from_when))
    for suite, task in zip(suites, tasks, strict=True):
        if len(task.gpus) != 1:
            print(f"{text.plain(task.name)}: played on the {text.plain(suite.name)}", file=sys.stderr)
    return [Trial(suite, task.budget) for suite, task in zip(suites, tasks, strict=True)]


def _replay(path: Path, json: bool) -> int:
    """1 when a decision is another one today."""
    from autopilot_lab.backtest.replay import replay

    done = replay(path)
    other = done.difference
    if json:
        first = other and {"number": other.number, "recorded": other.recorded, "today": other.today}
        print_json({"decisions": done.decisions, "difference": first})
    elif other is None:
        print(f"{done.decisions} decisions, all equal")
    else:
        job = text.plain(other.scene.job.spec.name)
        print(f"decision {other.number} (job {job}, {other.scene.now:%Y-%m-%d %H:%M:%S} UTC) is another one today")
        print(f"recorded: {other.recorded}\ntoday:    {other.today}")
    return Exit.OK if other is None else Exit.FAILED


def _check_share(option: str, value: float | None, low: float, high: float) -> None:
    if value is not None and not low <= value <= high:
        raise UserError(f"{option} cannot be {value:g}", hint="it is a share, like 0.1")


@contextmanager
def _progress(total: int) -> Iterator[Callable[[int], None] | None]:
    """A bar on stderr where somebody looks at it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("runs", total=total)
        yield lambda done: bar.advance(task, done)


def _write(path: Path, page: str, mode: str = "w") -> None:
    try:
        with path.open(mode, encoding="utf-8") as file:
            file.write(page)
    except OSError as error:
        raise CommandError(Exit.FAILED, f"cannot write {path}: {error.strerror}") from None


def _print_table(suite: Suite, scores: Sequence[Score], runs: int) -> None:
    out = console()
    out.print(f"{suite.name}: {runs} runs")
    columns = ["POLICY", "MEAN $", "/ON-DEMAND", "/OPTIMAL", "95 %", "P95", "LATE", "OVERRUNS", "PAUSES", "MOVES", "MS"]
    out.print(table(columns, map(_row, scores), right=columns[1:]))
    out.print()
    settings = dict.fromkeys((group.setting, group.deadline_h) for score in scores for group in score.groups)
    for setting in dict.fromkeys(setting for setting, _ in settings):
        deadlines = [deadline_h for other, deadline_h in settings if other == setting]
        out.print(f"{setting}: over the optimum, by deadline")
        heads = [f"{deadline_h:g} h" for deadline_h in deadlines]
        rows = [[score.policy, *_over_by_deadline(score, setting, deadlines)] for score in scores]
        out.print(table(["POLICY", *heads], rows, right=heads))
        out.print()
    for score in scores:
        if score.budget is not None:
            budget = score.budget
            out.print(
                f"{score.policy}: of {budget.affordable} runs affordable at the optimum {budget.accepted} accepted, "
                f"{budget.finished} of them finished on time; of all {budget.parked} parked, {budget.refused} refused"
            )


def _row(score: Score) -> list[str]:
    interval = "-" if score.interval is None else "–".join(f"{bound:.3f}" for bound in score.interval)
    counts = [score.late, score.overruns, score.pauses, score.migrations]
    return [
        score.policy,
        *(_number(value) for value in (score.mean_cost, score.over_on_demand, score.over_optimal)),
        interval,
        _number(score.p95_over_optimal),
        *("-" if count is None else str(count) for count in counts),
        _number(score.ms_per_decision, 4),
    ]


def _over_by_deadline(score: Score, setting: str, deadlines: Sequence[float]) -> list[str]:
    found = {group.deadline_h: group for group in score.groups if group.setting == setting}
    return [_number(found[deadline_h].over_optimal) for deadline_h in deadlines]


def _number(value: float | None, places: int = 3) -> str:
    return "-" if value is None else f"{value:.{places}f}"
