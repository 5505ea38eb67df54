"""``python -m tools.calibration``: see the package."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import tools.calibration
from autopilot_lab.backtest.live import Live
from autopilot_lab.backtest.suite import BidSuite
from autopilot_lab.backtest.suite_file import read_suite
from tools.calibration.cases import Case, made_up, recorded
from tools.calibration.kept import RESULTS, ROOT, Kept, append, code_of, read
from tools.calibration.report import picture, tables
from tools.calibration.trial import Trial, try_case

PICTURE = ROOT / "docs/images/calibration.svg"
SEEDS = range(31000, 31400)
"""No number of the forecast was chosen on them."""
TRACES = ROOT.parent / "shared/traces"
RECORDED = ("aws-g2-2015-spring", "aws-r3-2015", "aws-m3-2015")
MADE_UP, FIRST_JOB, RECORDS = "made-up markets", "made-up markets, a first job", "recorded markets"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.calibration", description=tools.calibration.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--shard", type=share_of, default=(1, 1), metavar="K/N", help="the K-th of N shares")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long a shard may take (default: 20)")
    parser.add_argument("--only", choices=(MADE_UP, FIRST_JOB, RECORDS), help="one kind of market")
    parser.add_argument("--traces", type=Path, default=TRACES, help="where recorded markets are, if any")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the kept file")
    parser.add_argument("--report", action="store_true", help="the tables of the newest code; draws the picture")
    options = parser.parse_args(arguments)
    if options.report:
        return _report(options.results)
    number, of = options.shard
    seeds = SEEDS[number - 1 :: of]
    kinds = [options.only] if options.only else [MADE_UP, FIRST_JOB, RECORDS]
    return _play(kinds, seeds, options.traces if number == 1 else None, options.results, options.minutes * 60)


def _play(kinds: Sequence[str], seeds: Sequence[int], traces: Path | None, results: Path, limit_s: float) -> int:
    began_at, code = time.monotonic(), code_of()
    done = {(one.kind, one.trial.market, one.trial.start) for one in read(results) if one.code == code}
    known = {kind: {(market, start) for of_kind, market, start in done if of_kind == kind} for kind in kinds}
    played = 0
    for kind in kinds:
        live = Live(recorded_h=0.0) if kind == FIRST_JOB else Live()
        for job in _jobs(kind, seeds, traces, live, known[kind]):
            if time.monotonic() - began_at > limit_s:
                print(f"{played} jobs played, and there are more: run the same again")
                return 0
            trials = [try_case(case, live, budget) for case in job for budget in (None, case.budget)]
            for trial in trials:
                if trial is not None:
                    append(results, Kept(code, kind, trial))
            played += len(trials)
    print(f"{played} jobs played, all of the share")
    return 0


def _jobs(
    kind: str, seeds: Sequence[int], traces: Path | None, live: Live, known: set[tuple[str, int]]
) -> Iterator[list[Case]]:
    """All deadlines of one start, those that are known left out."""
    if kind != RECORDS:
        markets = {market for market, _ in known}
        yield from (made_up("vast", seed, live) for seed in seeds if f"synthetic vast {seed}" not in markets)
        return
    for name in RECORDED:
        path = None if traces is None else traces / f"{name}.json"
        if path is not None and path.exists():
            suite = read_suite(path)
            assert isinstance(suite, BidSuite)
            yield from (job for job in recorded(suite, live) if (name, job[0].run.start) not in known)


def newest_groups(kept: Sequence[Kept]) -> dict[str, list[Trial]]:
    """What was played by the code that played last, by kind of market."""
    newest = [one for one in kept if one.code == kept[-1].code] if kept else []
    groups = {kind: [one.trial for one in newest if one.kind == kind] for kind in (MADE_UP, FIRST_JOB, RECORDS)}
    return {kind: trials for kind, trials in groups.items() if trials}


def _report(results: Path) -> int:
    groups = newest_groups(read(results))
    if not groups:
        print("nothing was played yet")
        return 1
    print("\n".join(tables(groups)))
    PICTURE.write_text(picture(groups))
    return 0


def share_of(text: str) -> tuple[int, int]:
    """(K, N) of "K/N"."""
    number, of = (int(part) for part in text.split("/"))
    if not 1 <= number <= of:
        raise argparse.ArgumentTypeError(f"{text}: the first is 1/{of}, the last {of}/{of}")
    return number, of


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
