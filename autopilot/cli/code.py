"""The code that a job file asks for: packed here, sent to the daemon unless it has it."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from autopilot.cli.answers import read
from autopilot.client.answer import Json
from autopilot.client.json_client import JsonClient
from autopilot.client.paths import fill_path
from autopilot.code.bundle import bundle, has_code

if TYPE_CHECKING:
    from autopilot.agent.pack import Packed
    from autopilot.client.sent_part import SentPart

T = TypeVar("T")

SAID_FROM_BYTES = 20_000_000


def send(client: JsonClient, beside: Path, toml: str, source: str, *, dry_run: bool) -> tuple[Json, list[str]] | None:
    """(what the submit says of the code, the notes of it); None for a job file without ``[code]``.

    ``beside``: the directory that its path is relative to. With ``dry_run`` it is packed and not sent.
    Raises ``UserError``.
    """
    if not has_code(toml, source):
        return None
    found = bundle(toml, source, beside, client.market_now())
    if not dry_run:
        _upload(client, found.packed)
    from autopilot.code.words import show_bytes, show_names

    contents = found.packed.contents
    commit = f", commit {found.commit[:12]}{' with changes' if found.is_dirty else ''}" if found.commit else ""
    left_out = f"; left out because the machine writes there: {show_names(found.left_out)}"
    files = "1 file" if contents.file_count == 1 else f"{contents.file_count:,} files"
    said = f"code: {files}, {show_bytes(contents.size)}{commit}, {found.packed.sha256[:12]}"
    return found.claim(), [said + (left_out if found.left_out else ""), *found.notes]


def _upload(client: JsonClient, packed: Packed) -> None:
    from autopilot.client.code import send_code

    async def ask(call: str, answer: type[T], *names: str, upload: bytes | SentPart | None = None) -> T:
        path = fill_path(call.partition(" ")[2], names)
        if upload is None:
            return read(answer, client.get(path))
        return read(answer, client.put(path, upload, len(upload) if isinstance(upload, bytes) else upload.size))

    def show_size() -> None:
        if packed.contents.size > SAID_FROM_BYTES:
            print(f"sending {packed.contents.size / 10**6:,.0f} MB of code", file=sys.stderr, flush=True)

    with contextlib.suppress(StopIteration):  # its end: ``ask`` waits for nothing, so no loop is needed
        send_code(packed, ask, show_size).send(None)
