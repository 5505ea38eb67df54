"""``python -m tools.mutants``: see the package."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

import tools.mutants
from tools.mutants.kept import RESULTS, Code, Line, append, is_enough, read, reasons, report
from tools.mutants.making import Mutant, Source
from tools.mutants.running import Broken, Copy, Stage, verdict
from tools.mutants.table import DROP_SHARE, LOGIC_SHARE, MODULES, ROOMS, ROOT, SEED, Module

_PROCESSES = 2
_LAST_ONE_S = 300
"""None is begun in the last minutes of a shard: a survivor takes as long."""


@dataclass(frozen=True, slots=True)
class Drawn:
    module: Module
    source: Source
    mutant: Mutant

    @property
    def stages(self) -> tuple[Stage, ...]:
        seeds = (Stage("seeds"),) if self.module.is_simulated else ()
        return Stage("own", self.module.own), Stage("wider", self.module.wider), *seeds


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=tools.mutants.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--shard", type=_shard, default=(1, 1), metavar="K/N", help="the K-th of N shares")
    parser.add_argument("--minutes", type=float, default=20.0, help="how long a shard may take (default: 20)")
    parser.add_argument("--commit", default="HEAD", help="what runs (default: HEAD)")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the kept file")
    parser.add_argument("--report", action="store_true", help="fails when a tenth lives, or one without a reason")
    parser.add_argument("--only", metavar="ID", help="run this one and keep nothing")
    parser.add_argument(
        "--listed", type=Path, metavar="FILE", help="those of a file instead: lines of a path and an id"
    )
    options = parser.parse_args(arguments)
    code = Code.of(ROOT, options.commit)
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        copy = Copy.of_commit(ROOT, options.commit, Path(scratch) / "1")
        if options.listed:
            drawn = list(find(copy.root, options.listed.read_text().splitlines()))
        else:
            drawn = list(draw(copy.root, MODULES, options.only or ""))
        if options.report:
            return _report(drawn, read(options.results, code))
        if options.only:
            return _run_only(copy, drawn, options.only)
        number, of = options.shard
        done = read(options.results, code)
        due = [one for one in drawn[number - 1 :: of] if one.mutant.id not in done]
        return _run(copy, due, code, options.results, options.minutes * 60)


def draw(root: Path, modules: Sequence[Module], begins: str = "") -> Iterator[Drawn]:
    """The mutants that are run of the files below ``root``: of each text one, and only what is Python.

    ``begins``: of their ids, where not all are asked for.
    """
    for module in modules:
        source = Source(module.path, (root / module.path).read_text())
        texts = set()
        for mutant in source.mutants:
            is_asked_for = module.means(mutant.scope) and mutant.id.startswith(begins)
            if is_asked_for and mutant.is_drawn(SEED, LOGIC_SHARE, DROP_SHARE):
                text = source.mutated(mutant)
                if text is not None and text not in texts:
                    texts.add(text)
                    yield Drawn(module, source, mutant)


def find(root: Path, lines: Sequence[str]) -> Iterator[Drawn]:
    """The mutants that are listed, each with the tests of its room. Raises ``Broken`` for one that is not there."""
    sources: dict[str, Source] = {}
    for path, mutant_id in (line.split() for line in lines):
        source = sources.setdefault(path, Source(path, (root / path).read_text()))
        found = next((each for each in source.mutants if each.id == mutant_id), None)
        if found is None:
            raise Broken(f"{mutant_id} is no mutant of {path}: its place was edited")
        own, wider = ROOMS[Path(path).parts[1]]
        yield Drawn(Module(path, own, wider), source, found)


def _run(copy: Copy, due: Sequence[Drawn], code: Code, results: Path, limit_s: float) -> int:
    """Two at a time, each in a copy of its own."""
    began_at = time.monotonic()
    print(f"{len(due)} mutants to run at {code.commit}", flush=True)
    if not due:
        return 0
    copy.compile()
    copy.check(sorted({test for one in due for test in one.module.own}))
    copies: SimpleQueue[Copy] = SimpleQueue()
    copies.put(copy)
    for number in range(1, _PROCESSES):
        copies.put(copy.again(copy.root.with_name(str(number + 1))))

    def run(one: Drawn) -> bool:
        if time.monotonic() - began_at >= limit_s - _LAST_ONE_S:
            return False
        mine = copies.get()
        try:
            line = _judge(mine, one, code)
        finally:
            copies.put(mine)
        append(results, line)
        print(f"{line.mutant} {line.path}:{line.line} {line.stage or 'SURVIVED'} {line.by}", flush=True)
        return True

    pool = ThreadPoolExecutor(_PROCESSES)
    try:
        left = sum(not has_run for has_run in pool.map(run, due))
    finally:
        pool.shutdown(cancel_futures=True)
    print(f"{left} are left: run the same again" if left else "all have run")
    return bool(left)


def _judge(copy: Copy, one: Drawn, code: Code) -> Line:
    began_at = time.monotonic()
    text = one.source.mutated(one.mutant)
    assert text is not None
    stage, by = verdict(copy, one.mutant.path, text, one.stages) or ("", "")
    mutant, took_s = one.mutant, round(time.monotonic() - began_at, 1)
    change = one.source.difference(mutant)
    return Line(code.tree, code.commit, mutant.id, mutant.path, mutant.scope, mutant.line, change, stage, by, took_s)


def _run_only(copy: Copy, drawn: Sequence[Drawn], mutant_id: str) -> int:
    for one in drawn:
        print(f"{one.mutant.path}:{one.mutant.line}\n{one.source.difference(one.mutant)}", flush=True)
        line = _judge(copy, one, Code("", ""))
        print(f"{line.mutant} {line.stage or 'SURVIVED'} {line.by} {line.seconds:.0f} s", flush=True)
    return 0 if drawn else _say(f"no mutant that is drawn begins with {mutant_id}")


def _report(drawn: Sequence[Drawn], lines: dict[str, Line]) -> int:
    paths = {one.module.path: [each.mutant.id for each in drawn if each.module is one.module] for one in drawn}
    why = reasons()
    for text in report(paths, lines, why):
        print(text)
    return not is_enough([one.mutant.id for one in drawn], lines, why)


def _shard(text: str) -> tuple[int, int]:
    number, of = (int(part) for part in text.split("/"))
    if not 1 <= number <= of:
        raise argparse.ArgumentTypeError(f"{text}: the first is 1/{of}, the last {of}/{of}")
    return number, of


def _say(text: str) -> int:
    print(text, file=sys.stderr)
    return 2


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Broken as broken:
        sys.exit(_say(str(broken)))
