"""The code that a job file asks for: chosen, packed, and what a submit says of it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from autopilot.config.job_file import parse_job
from autopilot.config.toml_document import read_toml
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from autopilot.agent.pack import Packed
    from autopilot.domain.job import JobSpec


@dataclass(frozen=True, slots=True)
class Bundle:
    packed: Packed
    commit: str
    """Commit of the Git work tree, empty if there is none."""
    is_dirty: bool
    left_out: list[str]
    """What lies in the directory where the machine puts something else."""
    notes: list[str]
    """What may be wrong with the command that is to run it."""

    def claim(self) -> dict[str, str | int | bool]:
        """What the submit says of it."""
        return {
            "sha256": self.packed.sha256,
            "files": self.packed.contents.file_count,
            "size_bytes": self.packed.contents.size,
            "commit": self.commit,
            "is_dirty": self.is_dirty,
        }


def has_code(toml: str, source: str) -> bool:
    """False for a file that is not a job file: the daemon reports what is wrong with it."""
    try:
        return "code" in read_toml(toml, source).values
    except UserError:
        return False


def bundle(toml: str, source: str, beside: Path, now: datetime) -> Bundle:
    """For a job file with ``[code]``. Reads all of its directory.

    ``beside``: the directory that its path is relative to. ``now``: the daemon's time. Raises ``UserError``.
    """
    spec = parse_job(toml, source=source, now=now)
    assert spec.code is not None, "it has the section"
    from autopilot.agent.pack import pack
    from autopilot.agent.shipped.tree import ROOT, Corrupt
    from autopilot.code.command import SentFiles, check_command
    from autopilot.code.select import Wanted, select

    directory = beside / Path(spec.code.path).expanduser()
    wanted = Wanted(spec.code.include, spec.code.exclude, spec.code.most_bytes, _apart(spec))
    chosen = select(directory, wanted)
    try:
        packed = pack(chosen.files)
    except Corrupt as problem:
        raise UserError(f"the code in {directory} cannot be packed: {problem}") from None
    except OSError as error:
        raise UserError(f"cannot read {error.filename or directory}: {error.strerror or error}") from None
    names = {entry.name.removeprefix(ROOT + "/") for entry in packed.contents.entries}
    notes = check_command(spec, SentFiles(names, directory))
    return Bundle(packed, chosen.commit, chosen.is_dirty, list(chosen.left_out), notes)


def _apart(spec: JobSpec) -> tuple[str, ...]:
    """Where checkpoint and inputs will lie, as seen from the work directory."""
    places = [path for path, _ in spec.inputs]
    if spec.checkpoint_path:
        workdir, path = PurePosixPath(spec.workdir), PurePosixPath(spec.workdir, spec.checkpoint_path)
        places += [str(path.relative_to(workdir))] if path.is_relative_to(workdir) else []
    return tuple(places)
