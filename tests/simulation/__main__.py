"""``python -m tests.simulation``: many seeds, or one with its story."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.simulation.adversary.siege import CLIENTS
from tests.simulation.drivers.campaign import campaign, prepare, with_fixed_hashes
from tests.simulation.drivers.dead import leave_all
from tests.simulation.drivers.document import write
from tests.simulation.drivers.hunt import hunt, keep, read_kept
from tests.simulation.drivers.kills import kill_everywhere
from tests.simulation.drivers.regressions import shrink
from tests.simulation.drivers.sieges import Sum, besiege
from tests.simulation.ground.scenario import HOUR_S
from tests.simulation.ground.stories import STORIES
from tests.simulation.runs.bugs import BUGS
from tests.simulation.runs.run import run


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=100, help="how many (default: 100)")
    parser.add_argument("--seed-start", type=int, default=1, metavar="N", help="the first one (default: 1)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores")
    parser.add_argument("--results", type=Path, help="a line for every 100 seeds goes here; what is there is not run")
    parser.add_argument("--story", type=Path, help="run --seed-start alone and write down all that happens")
    parser.add_argument(
        "--planted", metavar="BUG", help="look for planted bugs instead, and keep where each is found: BUG,BUG or all"
    )
    parser.add_argument("--document", type=Path, help="with --planted: the page whose tables to rewrite")
    parser.add_argument("--hours", type=float, default=28.0, help="with --planted: length of a seed (default: 28)")
    parser.add_argument("--bug", help="plant this one for --story and --shrink")
    parser.add_argument("--coverage", action="store_true", help="fail when a fault or a change of state never happened")
    parser.add_argument("--shrink", metavar="CHECKER", help="make --seed-start small as long as it violates this")
    parser.add_argument("--kills", action="store_true", help="kill the daemon at every step of every story instead")
    parser.add_argument(
        "--pairs", type=int, default=0, metavar="N", help="with --kills: N pairs of kills a story as well"
    )
    parser.add_argument("--siege", type=int, metavar="N", help="N sequences of an adversary's calls to the API instead")
    parser.add_argument("--dead", action="store_true", help="let the daemon die for good in each seed instead")
    parser.add_argument("--every-step", action="store_true", help="with --kills: also where nothing lasting is new")
    options = parser.parse_args(arguments)
    again = with_fixed_hashes(arguments)
    if again is not None:
        return again
    if options.kills:
        return _kill(options)
    if options.shrink:
        print(shrink(options.seed_start, options.shrink, options.bug, print).to_json(), end="")
        return 0
    if options.siege:
        return _besiege(options)
    if options.dead:
        return _die(options)
    if options.planted is not None:
        return _hunt(options)
    if options.story is not None:
        prepare()
        result = run(options.seed_start, bug=options.bug, keep_story=True)
        options.story.write_text("\n".join(result.story) + "\n")
        for violation in result.violations:
            print(f"{violation.checker} at {violation.at_s:.0f} s: {violation.what}")
        print(f"seed={result.seed} faults={result.faults.total()} trace={result.trace_hash}")
        return bool(result.violations)
    began_at = time.monotonic()
    tally = campaign(options.seed_start, options.seeds, options.processes, options.results)
    took_s = max(time.monotonic() - began_at, 1e-9)
    unreached = tally.unreached()
    print(f"never reached: {', '.join(unreached) or 'nothing'}")
    print(f"violations by checker: {dict(sorted(tally.failed.items()))}")
    print(
        f"{took_s:.0f} s, {tally.simulated_s / 31_557_600:.2f} simulated years, fewest faults in a "
        f"seed {tally.fewest_faults}, excused ${tally.excused:.4f} in {tally.with_excuse} seeds"
    )
    print(tally.verdict())
    return bool(tally.failed or (options.coverage and unreached))


def _kill(options: argparse.Namespace) -> int:
    points = failed = 0
    began_at = time.monotonic()
    for one in kill_everywhere(STORIES, options.processes, every_step=options.every_step, pairs_each=options.pairs):
        points += bool(one.at)
        failed += bool(one.violations)
        for violation in one.violations[:2]:
            print(f"{one.story}, killed at {one.at}: {violation.checker}: {violation.what}", flush=True)
    took_s = time.monotonic() - began_at
    print(f"stories={len(STORIES)} kill_points={points} failed={failed} seconds={took_s:.0f}")
    return bool(failed)


def _besiege(options: argparse.Namespace) -> int:
    total = Sum()
    for siege in besiege(
        range(options.seed_start, options.seed_start + -(-options.siege // CLIENTS)), options.processes
    ):
        total.add(siege)
        for what in list(siege.found)[:3]:
            print(f"siege {siege.seed}: {what}", flush=True)
    print(total.verdict())
    return bool(total.failed)


def _die(options: argparse.Namespace) -> int:
    seeds = failed = machines = 0
    longest_s = 0.0
    for one in leave_all(range(options.seed_start, options.seed_start + options.seeds), options.processes):
        seeds, machines, longest_s = seeds + 1, machines + one.machines, max(longest_s, one.longest_s)
        failed += bool(one.violations)
        for violation in one.violations[:2]:
            print(f"seed {one.seed}: {violation.checker}: {violation.what}", flush=True)
    print(f"seeds={seeds} machines={machines} longest_s={longest_s:.0f} failed={failed}")
    return bool(failed)


def _hunt(options: argparse.Namespace) -> int:
    names = list(BUGS) if options.planted == "all" else options.planted.split(",")
    catches = []
    kept, hours_s = read_kept(), options.hours * HOUR_S
    for catch in hunt(names, kept, options.seed_start, options.seeds, options.processes, hours_s):
        print(f"{catch.bug}: {catch.place or 'not found'} {' '.join(catch.checkers)}", flush=True)
        catches.append(catch)
    keep(catches)
    if options.document is not None:
        write(options.document, catches)
    return not all(catch.place for catch in catches)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
