"""``autopilot pull``: what a job has left, from the store to a directory here."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path
from typing import IO

from autopilot.cli import text
from autopilot.cli.client import Client, job_path
from autopilot.cli.exits import CommandError, Exit
from autopilot.domain.errors import UserError

TIMEOUT_S = 60


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
    from autopilot.ports.mailbox import Part

    body = Client().get(job_path(job, "outputs"))
    target = directory or Path(text.plain(body["name"]))
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UserError(f"{target} is there already", hint="name a new directory: autopilot pull JOB DIRECTORY")
    parts = [Part(part["key"], part["size"], part["sha256"]) for part in body["parts"]]
    scratch = target.with_name(f".{target.name}.pulling")
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        files = unpack(parts, lambda i: _opened(body["parts"][i]["url"]), scratch)
        if target.exists():
            target.rmdir()
        files.replace(target)
    except (OSError, Corrupt) as error:
        raise CommandError(Exit.FAILED, f"cannot fetch the outputs: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    count = sum(path.is_file() for path in target.rglob("*"))
    print(f"{count} files in {target}")
    return Exit.OK


def _opened(url: str) -> IO[bytes]:
    answer: IO[bytes] = urllib.request.urlopen(url, timeout=TIMEOUT_S)  # noqa: S310 -- the daemon signed it
    return answer
