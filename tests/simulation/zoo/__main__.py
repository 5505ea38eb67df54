"""``python -m tests.simulation.zoo``: 8-hour jobs on markets whose hosts partly never boot, and what those cost."""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import structlog

from tests.simulation.drivers.campaign import prepare, with_fixed_hashes
from tests.simulation.zoo.play import Played, play
from tests.simulation.zoo.stock import MARKETS
from tests.simulation.zoo.sums import line, line_beside, sums

PROGRAM = "tests.simulation.zoo"
SHARES = (0.3, 0.58)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog=f"python -m {PROGRAM}", description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many on each market (default: 20)")
    parser.add_argument("--seed-start", type=int, default=1, metavar="N", help="the first one (default: 1)")
    parser.add_argument("--market", action="append", choices=MARKETS, help="may be repeated (default: all)")
    parser.add_argument(
        "--duds", action="append", type=float, metavar="SHARE", help="of hosts that never boot (default: 0.3 and 0.58)"
    )
    parser.add_argument(
        "--hold", action="append", choices=("S40", "S41"), help="a checker of hosts that each job is held to"
    )
    parser.add_argument("--results", type=Path, help="a line for each job goes here; what is there is not played")
    parser.add_argument("--beside", type=Path, help="results of another commit: both are compared on the same seeds")
    parser.add_argument("--story", type=Path, help="play --seed-start of one market and share, and write what happens")
    options = parser.parse_args(arguments)
    again = with_fixed_hashes(arguments, PROGRAM)
    if again is not None:
        return again
    prepare()
    # Machines that never come up are what is played, not news.
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    markets, shares = options.market or MARKETS, options.duds or SHARES
    if options.story is not None:
        one = play(markets[0], shares[0], options.seed_start, keep_story=True, rules=options.hold or ())
        options.story.write_text("\n".join(one.story) + "\n")
        print(one.to_json())
        return bool(one.violations)
    seeds = range(options.seed_start, options.seed_start + options.seeds)
    for market in markets:
        for share in shares:
            played = list(_played(market, share, seeds, options.results, options.hold or ()))
            print(line(market, share, sums(played)), flush=True)
            then = {_key(one): one for one in _read(options.beside)}
            pairs = [(one, then[_key(one)]) for one in played if _key(one) in then]
            if pairs:
                print(line_beside([now for now, _ in pairs], [before for _, before in pairs]), flush=True)
    return 0


def _played(market: str, share: float, seeds: range, results: Path | None, rules: Collection[str]) -> Iterator[Played]:
    known = {_key(one): one for one in _read(results)}
    for seed in seeds:
        one = known.get((market, share, seed))
        if one is None:
            one = play(market, share, seed, rules=rules)
            if results is not None:
                with results.open("a") as file:
                    file.write(one.to_json() + "\n")
        yield one


def _read(results: Path | None) -> list[Played]:
    lines = results.read_text().splitlines() if results is not None and results.exists() else []
    return [Played.from_json(each) for each in lines]


def _key(one: Played) -> tuple[str, float, int]:
    return one.market, one.share, one.seed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
