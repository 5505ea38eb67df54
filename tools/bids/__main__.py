"""``python -m tools.bids``: see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import tools.bids
from autopilot_lab.backtest.live import Live
from autopilot_lab.backtest.play import Conditions, optimal_cost, play
from autopilot_lab.backtest.policies import Policy, fit_models, parse_policies, starter
from tools.bids.columns import MODES, Case, cases
from tools.bids.kept import RESULTS, Kept, append, code_now, read
from tools.bids.report import OWN, tables
from tools.calibration.__main__ import share_of
from tools.calibration.kept import ROOT

TRACES = ROOT.parent / "shared/traces"
RULES = (
    *(f"floor-markup:markup={markup}" for markup in (1.02, 1.05, 1.1, 1.2, 1.3)),
    "uniform-progress:markup=1.1", "fixed-bid", "on-demand",
)  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bids", description=tools.bids.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--shard", type=share_of, default=(1, 1), metavar="K/N", help="the K-th of N shares")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long a share may take (default: 20)")
    parser.add_argument("--starts", type=int, default=400, help="of each column, at the most")
    parser.add_argument("--mode", choices=MODES, default="as live", help="how it is played (default: as live)")
    parser.add_argument("--clearing", action="store_true", help="recorded suites that pay the clearing price")
    parser.add_argument("--chosen-on", action="store_true", help="first halves and seeds to choose numbers on")
    parser.add_argument(
        "--policy", default=OWN, help="with settings, like autopilot:half_life_h=12; not for the kept file"
    )
    parser.add_argument("--traces", type=Path, default=TRACES, help="where recorded markets are, if any")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the kept file")
    parser.add_argument("--report", action="store_true", help="the tables of the newest code")
    options = parser.parse_args(arguments)
    if options.report:
        return _report(options.results)
    traces = options.traces if options.traces.exists() else None
    live = MODES[options.mode]
    wanted = cases(traces, live, options.clearing, options.chosen_on, options.shard)
    code, known = code_now(), {one.case for one in read(options.results) if one.code == code_now()}
    policies = parse_policies(",".join((options.policy, *RULES)))
    ends_at, counts, played = time.monotonic() + options.minutes * 60, dict[tuple[str, float], int](), 0
    for case in wanted:
        column = (case.market, case.deadline_h)
        counts[column] = counts.get(column, 0) + 1
        if counts[column] > options.starts or place_of(options.mode, case) in known:
            continue
        if time.monotonic() > ends_at:
            print(f"{played} starts played, and there are more: run the same again")
            return 0
        append(options.results, _play(code, options.mode, case, live, policies))
        played += 1
    print(f"{played} starts played, all of the share")
    return 0


def place_of(mode: str, case: Case) -> tuple[str, str, str, str, float, int]:
    return mode, case.run.pays, case.market, case.stretch, case.deadline_h, case.run.start


def _play(code: str, mode: str, case: Case, live: Live, policies: Sequence[Policy]) -> Kept:
    models, conditions = fit_models(policies, None), Conditions(live=live)
    outcomes = {
        OWN if policy.name == OWN else _short(policy.label): play(
            case.suite, case.run, starter(policy, "bids", models), conditions
        )
        for policy in policies
    }
    costs = {name: round(outcome.cost, 4) for name, outcome in outcomes.items()}
    is_hopeless = outcomes["on-demand"].status != "finished"
    late = () if is_hopeless else tuple(name for name, each in outcomes.items() if each.status != "finished")
    return Kept(code, *place_of(mode, case), round(optimal_cost(case.suite, case.run), 4), costs, late)


def _short(label: str) -> str:
    return label.replace("floor-markup:markup=", "floor x ").replace(":markup=", " x ")


def _report(results: Path) -> int:
    kept = read(results)
    if not kept:
        print("nothing was played yet")
        return 1
    print("\n".join(tables([one for one in kept if one.code == kept[-1].code])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
