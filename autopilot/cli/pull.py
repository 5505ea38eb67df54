"""``autopilot pull``: what a job has left, or the code that it ran, from the store to a directory here."""

from __future__ import annotations

import shutil
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import IO, Annotated, Generic, TypeVar
from urllib.error import HTTPError

from cyclopts import Parameter

from autopilot.answers.files import CodeOfJob, Outputs
from autopilot.answers.jobs import JobAnswer
from autopilot.cli.answers import read
from autopilot.cli.exits import CommandError, Exit
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import job_path
from autopilot.domain.errors import UserError
from autopilot.words import text

T = TypeVar("T")

TIMEOUT_S = 60
SCRATCH = ".pulling"
"""Where files are put together: in the directory itself, which may be a disk of its own."""
REFUSED = (400, 401, 403)
"""How stores answer an address that has expired."""


def pull(
    job: str,
    directory: Path | None = None,
    /,
    *,
    code: Annotated[bool, Parameter(negative="")] = False,
    all: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Download a job's results: the paths in its [outputs], each file verified.

    Parameters
    ----------
    job
        The job's id or name.
    directory
        Destination: a new or empty directory; default: one with the job's name.
    code
        Download the code that the job runs, as uploaded by [code].
    all
        Of an array: the outputs of every succeeded task, in numbered directories; existing ones are skipped.
    """
    if code and all:
        raise UserError("--code and --all exclude each other", hint="the code is the same for all tasks")
    return _pull_all(job, directory) if all else _pull_one(job, directory, code=code)


def _pull_all(array: str, directory: Path | None) -> int:
    name, tasks = _list_succeeded(array)
    target = (directory or Path(name)).absolute()
    for task in tasks:
        if not (target / str(task)).exists():
            _pull_one(f"{array}/{task}", target / str(task), code=False)
    count = f"{len(tasks)} task{'s' * (len(tasks) != 1)}"
    print(f"the outputs of {count} are in {target}")
    return Exit.OK


def _list_succeeded(array: str) -> tuple[str, list[int]]:
    client = JsonClient()
    name = text.plain(read(JobAnswer, client.get(job_path(array))).job.name)
    numbers: list[int] = []
    after: str | None = None
    while True:
        page = client.get("/v1/jobs", array=array, after=after, fields="task,status")
        numbers += [row["task"] for row in page["jobs"] if row["status"] == "succeeded"]
        after = page["next"]
        if after is None:
            return name, numbers


def _pull_one(job: str, directory: Path | None, *, code: bool) -> int:
    from autopilot.agent.unpack import unpack, unpack_code
    from autopilot.mailbox.report_shapes import Part

    if code:
        copy = _Stored(job, "code", CodeOfJob, lambda stored: stored.urls)
        sha256, target = copy.found.code.sha256, _target(directory, copy.found.name, "-code")
        return _fill(target, "code", lambda scratch: unpack_code(sha256, copy.open, scratch))
    left = _Stored(job, "outputs", Outputs, lambda stored: [part.url for part in stored.parts])
    parts = [Part(part.key, part.size, part.sha256) for part in left.found.parts]
    return _fill(_target(directory, left.found.name), "outputs", lambda scratch: unpack(parts, left.open, scratch))


def _target(directory: Path | None, name: str, end: str = "") -> Path:
    return (directory or Path(text.plain(name).replace("/", "-") + end)).absolute()  # a task's name has a slash


def _fill(target: Path, what: str, unpack_into: Callable[[Path], Path]) -> int:
    from autopilot.agent.shipped.tree import Corrupt

    is_new = not target.exists()
    if not is_new and (not target.is_dir() or any(path.name != SCRATCH for path in target.iterdir())):
        raise UserError(f"{target} already exists", hint="name a new directory: autopilot pull JOB DIRECTORY")
    scratch = target / SCRATCH
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        for file in unpack_into(scratch).iterdir():
            file.replace(target / file.name)
    except (OSError, Corrupt) as error:
        shutil.rmtree(target if is_new else scratch, ignore_errors=True)
        raise CommandError(Exit.FAILED, f"cannot download the {what}: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    count = sum(path.is_file() for path in target.rglob("*"))
    print(f"{count} files in {target}")
    return Exit.OK


class _Stored(Generic[T]):
    """The daemon's list of parts. Their URLs are valid for an hour and requested again once refused."""

    def __init__(self, job: str, what: str, kind: type[T], list_urls: Callable[[T], list[str]]) -> None:
        self._path, self._kind, self._list_urls = job_path(job, what), kind, list_urls
        self._ask()

    def _ask(self) -> None:
        self._client = JsonClient()
        self.found = read(self._kind, self._client.get(self._path))
        self._urls = self._list_urls(self.found)

    def open(self, number: int) -> IO[bytes]:
        try:
            return self._open(self._urls[number])
        except HTTPError as refusal:
            if refusal.code not in REFUSED:
                raise
        self._ask()
        return self._open(self._urls[number])

    def _open(self, url: str) -> IO[bytes]:
        """An address without a host is the daemon's own, elsewhere."""
        is_daemons = url.startswith("/")
        if is_daemons:
            url = self._client.base_url + url
        tls = self._client.make_tls() if is_daemons else None
        answer: IO[bytes] = urllib.request.urlopen(url, timeout=TIMEOUT_S, context=tls)  # noqa: S310 -- it was signed
        return answer
