"""``python -m tools.bids``: see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import tools.bids
from autopilot_lab.backtest.copies import play_copies
from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.play import Start, budget_of, optimal_cost, play
from autopilot_lab.backtest.policies import Policy, fit_models, parse_policies, starter
from autopilot_lab.backtest.scores import CENT_FRACTION
from tools.bids.columns import MODES, Asked, Case, Half, cases
from tools.bids.kept import RESULTS, Kept, Place, append, code_now, read
from tools.bids.report import KEPT_PROMISE, OWN, tables
from tools.calibration.__main__ import share_of
from tools.calibration.kept import ROOT

TRACES = ROOT.parent / "shared/traces"
MARKUPS = (1.02, 1.05, 1.1, 1.2, 1.3)
RULES = (
    *(f"floor-markup:markup={markup}" for markup in MARKUPS),
    *(f"floor-markup:markup={markup},promise=1" for markup in MARKUPS),
    "uniform-progress:markup=1.1", "fixed-bid", "on-demand",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bids", description=tools.bids.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--shard", type=share_of, default=(1, 1), metavar="K/N", help="the K-th of N shares")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long a share may take (default: 20)")
    parser.add_argument("--starts", type=int, default=32, help="of each column in all shares (default: 32)")
    parser.add_argument("--columns", default="", metavar="NAMES", help="these alone (default: all)")
    parser.add_argument("--mode", choices=MODES, default="as live", help="how it is played (default: as live)")
    parser.add_argument("--clearing", action="store_true", help="recorded suites that pay the clearing price")
    parser.add_argument("--chosen-on", action="store_true", help="starts to choose numbers on; they are kept apart")
    parser.add_argument(
        "--policy",
        default=OWN,
        help="another one, or with settings, like autopilot:half_life_h=12",
    )
    parser.add_argument("--traces", type=Path, default=TRACES, help="where recorded markets are, if any")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the kept file")
    parser.add_argument("--report", action="store_true", help="the tables of the newest code")
    options = parser.parse_args(arguments)
    if options.report:
        return _report(options.results)
    traces = options.traces if options.traces.exists() else None
    half: Half = "choosing" if options.chosen_on else "scored"
    only = frozenset(filter(None, options.columns.split(",")))
    asked = Asked(MODES[options.mode], half, options.clearing, options.starts, only, options.shard)
    code, known = code_now(), {one.case for one in read(options.results) if one.code == code_now()}
    policies = parse_policies(",".join((options.policy, *RULES)))
    ends_at, played = time.monotonic() + options.minutes * 60, 0
    for case in cases(traces, asked):
        place = place_of(half, options.mode, case)
        if place in known:
            continue
        if time.monotonic() > ends_at:
            print(f"{played} starts played, and there are more: run the same again")
            return 0
        append(options.results, _play(code, place, case, policies))
        played += 1
    print(f"{played} starts played, all of the share")
    return 0


def place_of(half: Half, mode: str, case: Case) -> Place:
    return half, mode, case.run.pays, case.market, case.stretch, case.deadline_h, case.run.start


def _play(code: str, place: Place, case: Case, policies: Sequence[Policy]) -> Kept:
    """``policies``: the one that is judged comes first."""
    models = fit_models(policies, None)
    outcomes = {
        _short(policy.label) if number else OWN: _outcomes(case, starter(policy, "bids", models))
        for number, policy in enumerate(policies)
        if policy.name not in case.left_out
    }
    unfinished = tuple(name for name, each in outcomes.items() if any(one.status != "finished" for one in each))
    done = {name: mean(min(one.done_s / case.run.work_s, 1.0) for one in each) for name, each in outcomes.items()}
    budget = budget_of(case.suite, case.run, case.conditions)
    half, mode, pays, market, stretch, deadline_h, start = place
    return Kept(
        code=code, mode=mode, pays=pays, market=market, stretch=stretch, deadline_h=deadline_h, start=start, half=half,
        optimal=round(optimal_cost(case.suite, case.run), 4),
        costs={name: round(mean(one.cost for one in each), 4) for name, each in outcomes.items()},
        late=() if "on-demand" in unfinished else unfinished,
        done={name: round(share, 4) for name, share in done.items() if share < 1.0},
        over=tuple(
            name for name, each in outcomes.items() if budget and max(one.cost for one in each) > budget + CENT_FRACTION
        ),
    )  # fmt: skip


def _outcomes(case: Case, start: Start) -> list[Outcome]:
    if case.copies == 1:
        return [play(case.suite, case.run, start, case.conditions)]
    return play_copies(case.suite, case.run, start, case.conditions, case.copies)


def _short(label: str) -> str:
    label = label.replace("floor-markup:markup=", "floor x ").replace(":markup=", " x ")
    return label.replace(",promise=1", KEPT_PROMISE)


def _report(results: Path) -> int:
    kept = read(results)
    if not kept:
        print("nothing was played yet")
        return 1
    print("\n".join(tables([one for one in kept if one.code == kept[-1].code])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
