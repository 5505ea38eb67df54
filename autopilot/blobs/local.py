"""A blob store in a local directory. ``listener`` serves its signed URLs to the rented machines."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import hmac
import os
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from autopilot.blobs.admission import Admission
from autopilot.blobs.place import MailboxPlace, share
from autopilot.mailbox.keys import is_bulk
from autopilot.ports.blobs import MAX_READ_BYTES, BlobUnavailable, check_key

URL_PREFIX = "/blobs/"
OLD_SCRATCH_S = 600.0
"""An upload that has written nothing for so long was cut off: a listener waits a minute for the next piece."""

_SCRATCH = ".incoming"

T = TypeVar("T")


class IncomingBlob:
    """A file on its way into the store: visible under its key only after ``publish``, and then whole and durable."""

    def __init__(self, root: Path, target: Path) -> None:
        self._root = root
        scratch = root / _SCRATCH
        _make_directory(scratch, root)
        self._target = target
        self._path = scratch / secrets.token_hex(16)
        self._file = self._path.open("xb")
        share(self._path, root.parent, 0o660)

    def write(self, data: bytes) -> None:
        self._file.write(data)

    def publish(self) -> None:
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        _make_directory(self._target.parent, self._root)
        self._path.replace(self._target)
        directory = os.open(self._target.parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def discard(self) -> None:
        """Remove what was not published; does nothing after ``publish``."""
        self._file.close()
        self._path.unlink(missing_ok=True)


class LocalBlobStore:
    """Objects are files beneath ``root``; signed URLs start with ``base_url`` (assign it once a listener is bound)."""

    def __init__(
        self,
        root: Path,
        signing_key: bytes,
        base_url: str,
        *,
        bulk_url: str | None = None,
        unix_time: Callable[[], float] = time.time,
    ) -> None:
        """``bulk_url``: where addresses of parts start, which may be large; None: where the others do."""
        self.root = root
        self.base_url = base_url
        self._bulk_url = bulk_url
        self._signing = hmac.new(signing_key, digestmod="sha256")
        """Copied for each address: each machine gets a hundred, and a one-shot digest gives up the interpreter."""
        self._unix_time = unix_time
        self._admission = Admission(MailboxPlace(root.parent).leases_path)

    @property
    def put_headers(self) -> Mapping[str, str]:
        return {}

    async def put(self, key: str, data: bytes) -> None:
        target = self.path(key)

        def write() -> None:
            incoming = IncomingBlob(self.root, target)
            try:
                incoming.write(data)
                incoming.publish()
            finally:
                incoming.discard()

        await _off_loop(write)

    async def get(self, key: str, most_bytes: int = MAX_READ_BYTES) -> bytes | None:
        path = self.path(key)

        def read() -> bytes:
            with path.open("rb") as file:
                return file.read(most_bytes)

        return await _off_loop(lambda: _none_if_absent(read))

    async def size(self, key: str) -> int | None:
        path = self.path(key)
        return await _off_loop(lambda: _none_if_absent(lambda: _file_size(path)))

    async def sha256(self, key: str) -> str | None:
        path = self.path(key)

        def digest() -> str:
            with path.open("rb") as file:
                return hashlib.file_digest(file, "sha256").hexdigest()

        return await _off_loop(lambda: _none_if_absent(digest))

    async def delete_prefix(self, prefix: str) -> None:
        path = self.path(prefix.rstrip("/"))
        await _off_loop(lambda: _none_if_absent(lambda: shutil.rmtree(path) if path.is_dir() else path.unlink()))

    async def sizes(self, prefix: str) -> dict[str, int]:
        path = self.path(prefix.rstrip("/"))

        def walk() -> dict[str, int]:
            sizes = {}
            for each in (path, *path.rglob("*")):
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):  # deleted meanwhile
                    if (size := _file_size(each)) is not None:
                        sizes[each.relative_to(self.root).as_posix()] = size
            return sizes

        return await _off_loop(walk)

    async def delete(self, keys: Collection[str]) -> None:
        paths = [self.path(key) for key in keys]

        def remove() -> None:
            for path in paths:
                _none_if_absent(path.unlink)

        await _off_loop(remove)

    async def admit(self, prefixes: Mapping[str, int]) -> None:
        await _off_loop(lambda: self._admission.write(prefixes))

    def most_bytes(self, key: str) -> float:
        """How much may lie beneath the lease that ``key`` belongs to; 0 if it may not write."""
        return self._admission.most_bytes(key)

    async def grant(self, write: Collection[str], read: Collection[str]) -> None:
        """Signed URLs are all that its listener knows."""

    def sign_get(self, key: str, valid_for: timedelta) -> str:
        return self._sign("GET", key, valid_for, 0)

    def sign_put(self, key: str, valid_for: timedelta, max_bytes: int) -> str:
        return self._sign("PUT", key, valid_for, max_bytes)

    def path(self, key: str) -> Path:
        """The file of ``key``. Raises ``ValueError`` for what is not a key."""
        return self.root / check_key(key)

    def incoming(self, key: str) -> IncomingBlob:
        """A new file for ``key``; the caller publishes or discards it. Raises ``OSError``."""
        return IncomingBlob(self.root, self.path(key))

    def remove_old_scratch(self) -> None:
        """Remove what uploads cut off by a crash left behind. Those under way write on, so their files are new."""
        for path in (self.root / _SCRATCH).glob("*"):
            with contextlib.suppress(FileNotFoundError):
                if self._unix_time() - path.stat().st_mtime > OLD_SCRATCH_S:
                    path.unlink()

    def allows(self, method: str, key: str, expires: int, max_bytes: int, signature: str) -> bool:
        """Whether this store signed exactly that, and its time is not over."""
        expected = self._signature(method, key, expires, max_bytes)
        return hmac.compare_digest(expected.encode(), signature.encode()) and self._unix_time() < expires

    def _sign(self, method: str, key: str, valid_for: timedelta, max_bytes: int) -> str:
        expires = int(self._unix_time() + valid_for.total_seconds())
        signature = self._signature(method, check_key(key), expires, max_bytes)
        # Nothing in it needs quoting, and each machine's orders hold a hundred of these.
        query = f"expires={expires}&max_bytes={max_bytes}&signature={signature}"
        base = self._bulk_url if self._bulk_url is not None and is_bulk(key) else self.base_url
        return f"{base.rstrip('/')}{URL_PREFIX}{key}?{query}"

    def _signature(self, method: str, key: str, expires: int, max_bytes: int) -> str:
        message = "\n".join((method, key, str(expires), str(max_bytes)))
        signing = self._signing.copy()
        signing.update(message.encode())
        return signing.hexdigest()


def _make_directory(path: Path, root: Path) -> None:
    """It and those above it up to ``root``, which lies in the place that daemon and listener share."""
    missing = [each for each in (path, *path.parents) if each.is_relative_to(root) and not each.exists()]
    for each in reversed(missing):
        try:
            each.mkdir(parents=True)
        except FileExistsError:
            continue  # made by the other process
        share(each, root.parent, 0o770)


async def _off_loop(work: Callable[[], T]) -> T:
    """``work()`` in a thread; raises ``BlobUnavailable`` for any trouble of the file system."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise BlobUnavailable(str(error)) from error


def _file_size(path: Path) -> int | None:
    """None for what is no file. Raises ``OSError``: from Python 3.14 on ``is_file`` says no where it could not look."""
    found = path.stat()
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def _none_if_absent(work: Callable[[], T]) -> T | None:
    try:
        return work()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
