"""``python -m tests.simulation.suites``: starts of a suite of bids through the real engine, beside the backtest."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import structlog

from autopilot.domain.errors import UserError
from autopilot.domain.time import parse_duration
from autopilot.workers import workers
from autopilot_lab.backtest.live import Live, as_searched
from autopilot_lab.backtest.suite import BidRun, BidSuite
from autopilot_lab.backtest.suite_file import read_suite
from autopilot_lab.backtest.synthetic import synthetic_suite
from tests.simulation.drivers.campaign import prepare, with_fixed_hashes
from tests.simulation.suites.compare import Kept, Pair, side_by_side, sums
from tests.simulation.suites.play import play_backtest, play_engine
from tests.simulation.suites.start import Start

PROGRAM = "tests.simulation.suites"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    market = parser.add_mutually_exclusive_group(required=True)
    market.add_argument("--suite", type=Path, help="a suite file of kind bids")
    market.add_argument("--synthetic", choices=("vast", "three-machines"), help="a market made up by --seed instead")
    parser.add_argument("--seed", type=int, default=1, help="of --synthetic (default: 1)")
    parser.add_argument("--starts", type=int, default=20, help="how many, spread evenly over the suite (default: 20)")
    parser.add_argument("--from-share", type=float, default=0.0, help="leave out so much of the suite's beginning")
    parser.add_argument(
        "--tick", type=float, default=15.0, help="seconds between two looks of the daemon (default: 15)"
    )
    parser.add_argument("--recorded", default="7d", help="of the market before each start; 0: a first job")
    parser.add_argument("--processes", type=int, default=1, help="default: 1")
    parser.add_argument("--results", type=Path, help="a line for each start goes here; what is there is not played")
    parser.add_argument("--show", type=int, metavar="RUN", help="play this run alone and print both days side by side")
    parser.add_argument("--story", type=Path, help="with --show: all that the daemon did goes here")
    options = parser.parse_args(arguments)
    again = with_fixed_hashes(arguments, PROGRAM)
    if again is not None:
        return again
    try:
        suite, live = _suite(options), _live(options.recorded)
    except UserError as error:
        print(error, file=sys.stderr)
        return 2
    suite = as_searched(suite, live)
    if options.show is not None:
        return _show(Start(suite, suite.runs[options.show], live), options.tick, options.story)
    chosen = _choose(suite, options.starts, options.from_share)
    pairs = []
    for engine in _played(suite, live, chosen, options):
        start = Start(suite, suite.runs[engine.run], live)
        pairs.append(Pair(engine.run, engine.played, play_backtest(start)))
        print(_line(pairs[-1], start.run), flush=True)
    total = sums(pairs)
    print(
        f"{suite.name}: {total.starts} starts, engine ${total.engine:.3f}, backtest ${total.backtest:.3f}, "
        f"{100 * total.difference:+.1f} ± {100 * total.half_width:.1f} %, late {total.engine_late} and "
        f"{total.backtest_late}, violations {total.violations}"
    )
    return 0


def _suite(options: argparse.Namespace) -> BidSuite:
    if options.suite is None:
        return synthetic_suite(options.synthetic, options.seed)
    suite = read_suite(options.suite)
    if not isinstance(suite, BidSuite):
        raise UserError(f"{options.suite} is no suite of bids", hint="give one of kind bids")
    return suite


def _live(recorded: str) -> Live:
    return replace(Live(), recorded_h=0.0 if recorded == "0" else parse_duration(recorded).total_seconds() / 3600)


def _choose(suite: BidSuite, starts: int, from_share: float) -> list[int]:
    """Runs that pay their bid, as on vast.ai, in the order of their starts."""
    first = from_share * len(suite.floors[0])
    fitting = [number for number, run in enumerate(suite.runs) if run.pays == "bid" and run.start >= first]
    fitting.sort(key=lambda number: (suite.runs[number].start, number))
    count = min(starts, len(fitting))
    return [fitting[place * len(fitting) // count] for place in range(count)]


def _played(suite: BidSuite, live: Live, chosen: list[int], options: argparse.Namespace) -> Iterator[Kept]:
    """The chosen starts, first those that are kept."""
    results: Path | None = options.results
    lines = results.read_text().splitlines() if results is not None and results.exists() else []
    known = {kept.run: kept for kept in map(Kept.from_json, lines) if _is_of(kept, suite, options.tick)}
    yield from (known[number] for number in chosen if number in known)
    for kept in _play([number for number in chosen if number not in known], suite, live, options):
        if results is not None:
            with results.open("a") as file:
                file.write(kept.to_json() + "\n")
        yield kept


def _is_of(kept: Kept, suite: BidSuite, tick_s: float) -> bool:
    return (kept.suite, kept.tick_s) == (suite.name, tick_s)


def _play(numbers: list[int], suite: BidSuite, live: Live, options: argparse.Namespace) -> Iterator[Kept]:
    if options.processes == 1 or len(numbers) < 2:
        _begin(suite, live, options.tick)
        yield from map(_play_one, numbers)
        return
    with workers(min(options.processes, len(numbers)), _begin, suite, live, options.tick) as pool:
        yield from pool.map(_play_one, numbers)


_here: tuple[BidSuite, Live, float] | None = None
"""What this process plays."""


def _begin(suite: BidSuite, live: Live, tick_s: float) -> None:
    global _here
    _here = suite, live, tick_s
    prepare()
    # Machines that are lost and bids that are outbid are what is played, not news.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def _play_one(number: int) -> Kept:
    assert _here is not None
    suite, live, tick_s = _here
    return Kept(suite.name, number, tick_s, play_engine(Start(suite, suite.runs[number], live), tick_s))


def _line(pair: Pair, run: BidRun) -> str:
    engine, backtest = pair.engine, pair.backtest
    apart = 100 * (engine.cost / backtest.cost - 1)
    return (
        f"run {pair.run} from tick {run.start}, due in {run.deadline_s / 3600:g} h: engine ${engine.cost:.3f}, "
        f"backtest ${backtest.cost:.3f} ({apart:+.1f} %), apart from tick {pair.differs_at} on"
        f"{' LATE' * engine.is_late} {'; '.join(engine.violations[:1])}"
    )


def _show(start: Start, tick_s: float, story: Path | None) -> int:
    _begin(start.suite, start.live, tick_s)
    engine, backtest = play_engine(start, tick_s, keep_story=story is not None), play_backtest(start)
    for name, played in (("engine", engine), ("backtest", backtest)):
        print(f"{name} ${played.cost:.4f}, done after {played.finished_h} h")
    for line in (*engine.violations, *side_by_side(engine, backtest)):
        print(line)
    if story is not None:
        story.write_text("\n".join(engine.story) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
