"""``autopilot pull``: what a job has left, from the store to a directory here."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path
from typing import IO
from urllib.error import HTTPError

from autopilot.cli import text
from autopilot.cli.client import Client, job_path
from autopilot.cli.exits import CommandError, Exit
from autopilot.domain.errors import UserError

TIMEOUT_S = 60
SCRATCH = ".pulling"
"""Where files are put together: in the directory itself, which may be a disk of its own."""
REFUSED = (400, 401, 403)
"""How stores answer an address that has expired."""


def pull(job: str, directory: Path | None = None, /) -> int:
    """Fetch what a job has left: the paths that its [outputs] name, each file checked.

    Parameters
    ----------
    job
        The job's id or name.
    directory
        Where to put them: a new directory, or an empty one. Left out: one with the job's name.
    """
    from autopilot.agent.shipped.tree import Corrupt
    from autopilot.agent.unpack import unpack
    from autopilot.mailbox.report_shapes import Part

    source = _Parts(job)
    target = (directory or Path(text.plain(source.name))).absolute()
    is_new = not target.exists()
    if not is_new and (not target.is_dir() or any(path.name != SCRATCH for path in target.iterdir())):
        raise UserError(f"{target} is there already", hint="name a new directory: autopilot pull JOB DIRECTORY")
    parts = [Part(part["key"], part["size"], part["sha256"]) for part in source.parts]
    scratch = target / SCRATCH
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        files = unpack(parts, source.open, scratch)
        for file in files.iterdir():
            file.replace(target / file.name)
    except (OSError, Corrupt) as error:
        shutil.rmtree(target if is_new else scratch, ignore_errors=True)
        raise CommandError(Exit.FAILED, f"cannot fetch the outputs: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    count = sum(path.is_file() for path in target.rglob("*"))
    print(f"{count} files in {target}")
    return Exit.OK


class _Parts:
    """What the daemon says of the parts. Their addresses hold for an hour: they are asked for anew once refused."""

    def __init__(self, job: str) -> None:
        self._job = job
        self._ask()

    def _ask(self) -> None:
        body = Client().get(job_path(self._job, "outputs"))
        self.name, self.parts = body["name"], body["parts"]

    def open(self, number: int) -> IO[bytes]:
        try:
            return _open(self.parts[number]["url"])
        except HTTPError as refusal:
            if refusal.code not in REFUSED:
                raise
        self._ask()
        return _open(self.parts[number]["url"])


def _open(url: str) -> IO[bytes]:
    answer: IO[bytes] = urllib.request.urlopen(url, timeout=TIMEOUT_S)  # noqa: S310 -- the daemon signed it
    return answer
