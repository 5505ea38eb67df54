"""``autopilot logs``: a job's output, from one machine to the next."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from cyclopts import Parameter

from autopilot.answers.jobs import JobAnswer, LogChunk, Logs
from autopilot.cli import outcomes
from autopilot.cli.answers import read
from autopilot.cli.exits import Exit
from autopilot.cli.waiting import StageLines
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.domain.errors import UserError
from autopilot.words import text

FOLLOW_INTERVAL_S = 1.0


def logs(
    job: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative="")] = False,
    all: Annotated[bool, Parameter(name=["--all", "-a"], negative="")] = False,
    tail: int | None = None,
) -> int:
    """Print the newest output of a job, up to 1 MB, across all machines it ran on.

    A line on standard error marks each change of machine. With --follow, others say what the job waits for until its
    first output. The newest 32 MB of each machine are kept.

    Parameters
    ----------
    job
        The job's id or name.
    follow
        Follow until the job is finished or Ctrl-C; the exit code is its outcome, as with autopilot wait.
    all
        Print all output that is kept.
    tail
        Print only this many of the newest lines; with --follow, also what comes after them.
    """
    if tail is not None and (tail < 0 or all):
        raise UserError("--tail takes a number of lines from 0 on, and excludes --all")
    client, printer, waiting = JsonClient(), _Printer(), StageLines()
    after: str | None = None
    try:
        while True:
            is_first = after is None
            asked = client.get(job_path(job, "logs"), after=after, tail=1 if is_first and not all else None)
            page = read(Logs, asked)
            if page.chunks:
                after = page.chunks[-1].key
                printer.print(_newest_lines(page.chunks, tail) if is_first and tail is not None else page.chunks)
            if is_first and tail is None and page.earlier:
                printer.note("earlier output: autopilot logs --all")
            if page.chunks:
                continue
            if not follow:
                return Exit.OK
            if page.finished:
                return outcomes.exit_of(read(JobAnswer, client.get(job_path(job))).job)
            if after is None:
                waiting.tell(read(JobAnswer, client.get(job_path(job))).job)
            time.sleep(FOLLOW_INTERVAL_S)
    except KeyboardInterrupt:
        return Exit.OK


class _Printer:
    """Output on standard output; where it comes from on standard error."""

    def __init__(self) -> None:
        self._safe = text.harmless if sys.stdout.isatty() else str
        self._at: tuple[str, int] | None = None

    def print(self, chunks: Sequence[LogChunk]) -> None:
        for chunk in chunks:
            at = chunk.lease_id, chunk.boot
            if at != self._at:
                before = self._at
                verb = "started on" if before is None else "moved to" if before[0] != at[0] else "started again on"
                self.note(f"{verb} {text.plain(chunk.where)}")
                self._at = at
            sys.stdout.write(self._safe(chunk.text))
        sys.stdout.flush()

    def note(self, words: str) -> None:
        sys.stdout.flush()
        print(f"──── {words} ────", file=sys.stderr, flush=True)


def _newest_lines(chunks: Sequence[LogChunk], count: int) -> list[LogChunk]:
    """The chunks that hold the last ``count`` lines, the first of them cut."""
    lines = "".join(chunk.text for chunk in chunks).splitlines(keepends=True)
    left = sum(len(line) for line in lines[len(lines) - min(count, len(lines)) :])
    kept: list[LogChunk] = []
    for chunk in reversed(chunks):
        if left <= 0:
            break
        kept.append(replace(chunk, text=chunk.text[-left:]))
        left -= len(chunk.text)
    return kept[::-1]
