"""Where checkpoints and the mailbox live: whole objects under flat keys, and URLs that allow one act on one object.

A URL is bound to one method and one key and it expires; nothing lists. Keys for a prefix are an option (``grant``).
Its validity is real time, never market time: the machine that uses it is judged by the store's own clock.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

MAX_KEY_LENGTH = 512
MAX_READ_BYTES = 2_000_000
"""Nothing that is read whole is meant to be so large. A bucket cannot bound what a machine puts into it."""

_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*", re.ASCII)


class BlobUnavailable(Exception):
    """The store could not be asked, or could not do it: unreachable, full, broken. Nothing is known."""


def check_key(key: str) -> str:
    """``key`` itself when it is one: segments of letters, digits, ``.``, ``_`` and ``-``, joined by ``/``.

    No segment starts with a dot, so neither ``..`` nor a store's own scratch files can be named. Raises ``ValueError``.
    """
    if len(key) > MAX_KEY_LENGTH or not _KEY.fullmatch(key):
        raise ValueError(f"not a blob key: {key[:80]!r}")
    return key


@dataclass(frozen=True)
class Grant:
    """Temporary keys by which a machine signs its own URLs; of no use beyond what they are narrowed to."""

    base_url: str
    """Beneath which keys of this store lie."""
    region: str
    key_id: str
    secret: str
    token: str
    at: int
    """The time now, in seconds since 1970, that signatures are dated by."""


class BlobStore(Protocol):
    """``put_headers`` go with every PUT to a signed URL.

    Every method raises ``ValueError`` for what is not a key; those that do I/O raise ``BlobUnavailable``.
    """

    @property
    def put_headers(self) -> Mapping[str, str]: ...

    async def put(self, key: str, data: bytes) -> None:
        """Store ``data`` durably; readers see the old object or the whole new one, never a part."""
        ...

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        """The object's bytes, of which at most ``most_bytes`` are read; None when there is none."""
        ...

    async def size(self, key: str) -> int | None:
        """The object's size in bytes, None when there is none."""
        ...

    async def sha256(self, key: str) -> str | None:
        """The hex SHA-256 of the object as it is stored, read in pieces; None when there is none."""
        ...

    async def delete_prefix(self, prefix: str) -> None:
        """Delete every object whose key starts with the segments of ``prefix``; fine when there is none."""
        ...

    async def sizes(self, prefix: str) -> dict[str, int]:
        """By key, the bytes of every object whose key starts with the segments of ``prefix``, in no order."""
        ...

    async def delete(self, keys: Collection[str]) -> None:
        """Delete these objects; fine when some are not there."""
        ...

    async def admit(self, prefixes: Mapping[str, int]) -> None:
        """From now on machines may write beneath these alone, however long URLs live, where the store can tell.

        ``prefixes``: ``jobs/job/lease`` → most bytes of parts and output that may lie beneath it.
        """
        ...

    async def grant(self, write: Collection[str], read: Collection[str]) -> Grant | None:
        """Keys to put and get objects under these prefixes, for an hour or less; None if the store gives none."""
        ...

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        """An absolute URL that allows GET of this one object for ``valid_for`` of real time."""
        ...

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int) -> str:
        """An absolute URL that allows PUT of this one object, at most ``max_bytes`` where the store can enforce it."""
        ...
