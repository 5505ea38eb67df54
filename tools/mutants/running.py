"""One mutant at a time in a copy of the commit: its module's tests, those of its room, then the simulator."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SEEDS = 30
_ONE_TEST_S = 120
"""A mutant that hangs is killed by this. A test that takes 5 s alone may take four times as long beside others."""
_STAGE_S = 900

_FAILED = re.compile(r"^(?:FAILED|ERROR) ([^\s\[]+)", re.MULTILINE)
"""Without its parameters, which may hold spaces and dashes."""
_VIOLATED = re.compile(r"^seed (\d+): (\S+)", re.MULTILINE)


class Broken(Exception):
    """What should kill mutants fails without one too: nothing that it says counts."""


@dataclass(frozen=True, slots=True)
class Stage:
    name: str
    tests: tuple[str, ...] = ()
    """Empty: the simulator."""


class Copy:
    """A directory with the files of a commit, to break one of them."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @classmethod
    def of_commit(cls, repository: Path, commit: str, root: Path) -> Copy:
        """Raises ``CalledProcessError`` if the commit is unknown."""
        archive = subprocess.run(["git", "archive", commit], cwd=repository, capture_output=True, check=True).stdout
        root.mkdir()
        subprocess.run(["tar", "x"], cwd=root, input=archive, check=True)
        return cls(root)

    def again(self, root: Path) -> Copy:
        return Copy(shutil.copytree(self.root, root))

    @contextmanager
    def broken(self, path: str, code: str) -> Iterator[None]:
        """With another text in one file. The time of change tells Python that its compiled file is stale."""
        file = self.root / path
        original, changed_at = file.read_bytes(), file.stat().st_mtime
        file.write_text(code)
        try:
            yield
        finally:
            file.write_bytes(original)
            os.utime(file, (changed_at, changed_at))

    def failure(self, stage: Stage) -> str | None:
        """The first test that fails, the first invariant that is violated; None when all hold.

        Raises ``Broken`` when the tests cannot be run.
        """
        return self._seed_that_violates(1, SEEDS) if not stage.tests else self._test_that_fails(stage.tests)

    def holds_without(self, failure: str) -> bool:
        """Whether what ``failure`` answered passes here."""
        seed = re.fullmatch(r"seed (\d+): .*", failure)
        if seed:
            return self._seed_that_violates(int(seed[1]), 1) is None
        return self._test_that_fails((failure,)) is None

    def compile(self) -> None:
        self._run(["-m", "compileall", "-q", "autopilot", "tests"], writes=True)

    def check(self, tests: Sequence[str]) -> None:
        """Raises ``Broken`` when one fails."""
        failure = self._test_that_fails(tests, writes=True)
        if failure is not None:
            raise Broken(f"{failure} fails without a mutant: mend it first")

    def _test_that_fails(self, tests: Sequence[str], *, writes: bool = False) -> str | None:
        code, output = self._run(
            [
                "-m",
                "pytest",
                "-qx",
                "-p",
                "no:cacheprovider",
                "-p",
                "no:xdist",
                "-m",
                "not slow",
                f"--timeout={_ONE_TEST_S}",
                *tests,
            ],
            writes=writes,
        )
        if code == 0:
            return None
        found = _FAILED.search(output)
        if code in (1, 2) and found:
            return found[1]
        if code in (3, 4, 5):
            raise Broken(f"pytest answers {code} to {' '.join(tests)}: {output[-2000:]}")
        return f"{tests[0]} ended with {code}"

    def _seed_that_violates(self, first: int, count: int) -> str | None:
        arguments = ["--seeds", str(count), "--seed-start", str(first), "--processes", "1"]
        code, output = self._run(["-m", "tests.simulation", *arguments], until=_VIOLATED)
        found = _VIOLATED.search(output)
        if found:
            return f"seed {found[1]}: {found[2].rstrip(':')}"
        return None if code == 0 else f"seed {first}: ended with {code}"

    def _run(
        self, arguments: Sequence[str], *, writes: bool = False, until: re.Pattern[str] | None = None
    ) -> tuple[int, str]:
        """Its exit code and all that it prints, until a line that ``until`` knows. A hang answers -9."""
        environment = {
            **os.environ,
            "PYTHONPATH": f"{self.root}:{self.root}/packages/lab",
            "PYTHONHASHSEED": "0",
            "COLUMNS": "400",
        }
        if not writes:
            environment["PYTHONDONTWRITEBYTECODE"] = "1"
        process = subprocess.Popen(
            ["timeout", "-s", "KILL", str(_STAGE_S), "nice", "-n", "5", sys.executable, *arguments],
            cwd=self.root, env=environment, start_new_session=True, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        lines = []
        try:
            assert process.stdout is not None
            for line in process.stdout:
                lines.append(line)
                if until is not None and until.match(line):
                    break
            else:
                process.wait()
        finally:
            _end(process)
        return process.returncode, "".join(lines)


def _end(process: subprocess.Popen[str]) -> None:
    """With all that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def verdict(copy: Copy, path: str, code: str, stages: Sequence[Stage]) -> tuple[str, str] | None:
    """The stage that noticed the error and what failed there; None when it survives all of them.

    ``path`` is the file that gets ``code``. Only the first stage is trusted as it is, for its tests were seen to pass.
    Raises ``Broken`` when what failed fails without the error as well.
    """
    with copy.broken(path, code):
        noticed = next(((stage, what) for stage in stages if (what := copy.failure(stage)) is not None), None)
    if noticed is None:
        return None
    stage, what = noticed
    if stage is not stages[0] and not copy.holds_without(what):
        raise Broken(f"{what} fails without a mutant too")
    return stage.name, what
