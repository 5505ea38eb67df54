"""The code that a job file asks for: packed here, sent to the daemon unless it has it."""

from __future__ import annotations

import sys
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from autopilot.cli.client import Client, Json, code_path
from autopilot.cli.exits import CommandError, Exit
from autopilot.config.job_file import parse_job
from autopilot.config.toml_document import read_toml
from autopilot.domain.errors import UserError

if TYPE_CHECKING:
    from autopilot.agent.pack import Packed
    from autopilot.domain.job import JobSpec

SAID_FROM_BYTES = 20_000_000


def send(client: Client, beside: Path, toml: str, source: str, *, dry_run: bool) -> tuple[Json, str] | None:
    """(what the submit says of the code, the same in words); None for a job file without ``[code]``.

    ``beside``: the directory that its path is relative to. With ``dry_run`` it is packed and not sent.
    Raises ``UserError``, ``CommandError``.
    """
    if not _has_code(toml, source):
        return None
    spec = parse_job(toml, source=source, now=client.market_now())
    assert spec.code is not None, "it has the section"
    from autopilot.agent.pack import pack
    from autopilot.agent.shipped.tree import Corrupt
    from autopilot.code.select import Wanted, select
    from autopilot.code.words import show_bytes, show_names

    directory = beside / Path(spec.code.path).expanduser()
    wanted = Wanted(spec.code.include, spec.code.exclude, spec.code.most_bytes, _apart(spec))
    chosen = select(directory, wanted)
    try:
        packed = pack(chosen.files)
    except Corrupt as problem:
        raise UserError(f"the code in {directory} cannot be packed: {problem}") from None
    except OSError as error:
        raise UserError(f"cannot read {error.filename or directory}: {error.strerror or error}") from None
    if not dry_run:
        _upload(client, packed)
    contents = packed.contents
    commit = f", commit {chosen.commit[:12]}{' with changes' if chosen.is_dirty else ''}" if chosen.commit else ""
    left_out = f"; left out, for the machine puts something there: {show_names(chosen.left_out)}"
    files = "1 file" if contents.file_count == 1 else f"{contents.file_count:,} files"
    said = f"code: {files}, {show_bytes(contents.size)}{commit}, {packed.sha256[:12]}"
    claim = {
        "sha256": packed.sha256,
        "files": contents.file_count,
        "size_bytes": contents.size,
        "commit": chosen.commit,
        "is_dirty": chosen.is_dirty,
    }
    return claim, said + (left_out if chosen.left_out else "")


def _has_code(toml: str, source: str) -> bool:
    try:
        return "code" in read_toml(toml, source).values
    except UserError:
        return False  # the daemon says what is wrong with it


def _apart(spec: JobSpec) -> tuple[str, ...]:
    """Where checkpoint and inputs will lie, as seen from the work directory."""
    places = [path for path, _ in spec.inputs]
    if spec.checkpoint_path:
        workdir, path = PurePosixPath(spec.workdir), PurePosixPath(spec.workdir, spec.checkpoint_path)
        places += [str(path.relative_to(workdir))] if path.is_relative_to(workdir) else []
    return tuple(places)


def _upload(client: Client, packed: Packed) -> None:
    if client.get(code_path(packed.sha256))["there"]:
        return
    if packed.contents.size > SAID_FROM_BYTES:
        print(f"sending {packed.contents.size / 10**6:,.0f} MB of code", file=sys.stderr, flush=True)
    missing = client.put(code_path(packed.sha256), packed.data, len(packed.data))["missing"]
    for number in missing:
        size, sha256 = packed.contents.parts[number - 1]
        part = packed.open_part(number - 1)
        try:
            client.put(code_path(packed.sha256, "parts", str(number)), part, size)
        except CommandError:
            if part.size == size and part.sha256.hexdigest() != sha256:
                raise _change_error() from None
            raise
        except (OSError, ValueError):
            raise _change_error() from None


def _change_error() -> CommandError:
    return CommandError(Exit.FAILED, "a file of the code changed while it was sent", hint="submit again")
