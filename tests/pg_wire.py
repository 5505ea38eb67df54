"""A way to a PostgreSQL server that can be cut at the one moment that matters: in the middle of a commit."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

Cut = Literal["before", "after"]
"""The server never hears of the commit, or it commits and we never hear of that."""


class Wire:
    def __init__(self, server_dir: Path, directory: Path) -> None:
        self.cut_at_next_commit: Cut | None = None
        """Of a session that may write; None again once it was cut."""
        self.cuts = 0
        self._server_dir = server_dir
        self._directory = directory

    def url(self, url: str) -> str:
        """The same database, this way."""
        return url.replace(str(self._server_dir), str(self._directory))

    async def carry(self, client: asyncio.StreamReader, to_client: asyncio.StreamWriter) -> None:
        server, to_server = await asyncio.open_unix_connection(str(self._server_dir / ".s.PGSQL.5432"))
        is_deaf = asyncio.Event()

        async def there() -> None:
            is_reader = False
            while data := await client.read(65536):
                is_reader = is_reader or b"default_transaction_read_only" in data
                if self.cut_at_next_commit and not is_reader and b"COMMIT" in data:
                    cut, self.cut_at_next_commit = self.cut_at_next_commit, None
                    self.cuts += 1
                    is_deaf.set()
                    if cut == "before":
                        return
                to_server.write(data)
            is_deaf.set()

        async def back() -> None:
            while (data := await server.read(65536)) and not is_deaf.is_set():
                to_client.write(data)

        both = [asyncio.create_task(there()), asyncio.create_task(back())]
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        for task in both:
            task.cancel()
        to_client.close()
        to_server.close()


@asynccontextmanager
async def wire(server_dir: Path) -> AsyncIterator[Wire]:
    """To the server that listens in ``server_dir``."""
    with tempfile.TemporaryDirectory(prefix="ap-") as name:
        made = Wire(server_dir, Path(name))
        listener = await asyncio.start_unix_server(made.carry, str(Path(name) / ".s.PGSQL.5432"))
        try:
            yield made
        finally:
            listener.close()
