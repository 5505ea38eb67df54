"""The directory that daemon and listener share: the objects of the mailbox, the key that signs its URLs, its port;
and what the listener needs to serve the API.

They are two processes and, under systemd, two users. What one has to tell the other is a file here, replaced as a
whole. Where the directory lets its group write, so may the group write all that is made beneath it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autopilot.domain.errors import UserError

MAILBOX, API, PAGE, PROXY = "mailbox", "api", "page", "proxy"
"""What the listener has ports for."""
CONTROL_PORT, BULK_PORT = 28_470, 28_471
"""Of a dialled machine's own loopback, which no other machine shares: there it finds the mailbox."""
STARTED = "started"
"""What a listener that is a child of the daemon prints before it opens its ports."""
IDENTITY = "/identity/{question}"
"""Where a port of the page says whose it is; each question has its own answer."""
_KEY_BYTES = 32
_GROUP_WRITES = 0o070


@dataclass(frozen=True, slots=True)
class Announcement:
    """The daemon that leads. Listeners that were started for another one, or on another host, do not serve."""

    host: str
    token: str
    """Created by each daemon."""


@dataclass(frozen=True, slots=True)
class MailboxPlace:
    root: Path

    @property
    def objects(self) -> Path:
        return self.root / "blobs"

    @property
    def key_path(self) -> Path:
        return self.root / "mailbox.key"

    @property
    def leases_path(self) -> Path:
        """Which leases may write, and how much: see ``admission``."""
        return self.root / "mailbox-leases.json"

    @property
    def daemon_socket(self) -> Path:
        """Where the daemon answers only the listener."""
        return self.root / "listener.sock"

    @property
    def tokens_path(self) -> Path:
        """Which tokens there are: see ``listener.known_tokens``."""
        return self.root / "api-tokens.json"

    @property
    def page_sessions_path(self) -> Path:
        """Which sessions and links of the page there are, as ``tokens_path`` for tokens."""
        return self.root / "page-sessions.json"

    @property
    def proxy_secret_path(self) -> Path:
        """The hash of what a reverse proxy sends along, as ``tokens_path`` for tokens."""
        return self.root / "proxy-secret.json"

    @property
    def tunnels(self) -> Path:
        """The part that is for the process that dials machines: see ``tunnels.place``."""
        return self.root / "tunnels"

    @property
    def receiving(self) -> Path:
        """Where the listener puts uploads for the daemon."""
        return self.root / "api-receiving"

    @property
    def _daemon_path(self) -> Path:
        return self.root / "mailbox-daemon"

    def _port_path(self, of: str) -> Path:
        return self.root / f"{of}-port"

    def announce(self) -> str:
        """Say that a daemon leads here from now on; returns its token. Raises ``OSError``."""
        token = secrets.token_hex(16)
        replace_file(self._daemon_path, json.dumps({"host": socket.gethostname(), "token": token}), self.root)
        return token

    def is_served_for(self, token: str | None) -> bool:
        """Whether the daemon of that token leads; with None: any daemon of this host."""
        found = self._announcement()
        if found is None:
            return False
        return found.host == socket.gethostname() if token is None else found.token == token

    def name_page(self, question: str, port: int) -> str:
        """What the listener of the daemon that leads says at ``IDENTITY``, on that port: no other program knows it, and
        none that has taken the port can pass on what the listener says at another."""
        found = self._announcement()
        text = f"page at port {port}: {question}"
        return "" if found is None else hmac.new(found.token.encode(), text.encode(), "sha256").hexdigest()

    def _announcement(self) -> Announcement | None:
        match read_json(self._daemon_path):
            case {"host": str(host), "token": str(token)}:
                return Announcement(host, token)
        return None

    def port(self, of: str = MAILBOX) -> int | None:
        """The port that the listener had last for that: rented machines hold URLs that name the mailbox's."""
        try:
            return int(self._port_path(of).read_text())
        except (OSError, ValueError):
            return None

    def keep_port(self, port: int, of: str = MAILBOX) -> None:
        """Raises ``OSError``."""
        replace_file(self._port_path(of), f"{port}\n", self.root)

    def read_key(self) -> bytes:
        """The key that signs URLs. Raises ``UserError`` for a file that holds something else or that others read."""
        key, path = self.key_path.read_bytes(), self.key_path
        if len(key) != _KEY_BYTES:
            raise UserError(
                f"{path} is not a signing key", hint="delete it to create a new one; existing URLs then become invalid"
            )
        allowed = 0o640 if is_for_group(self.root) else 0o600
        if path.stat().st_mode & 0o777 & ~allowed:
            raise UserError(f"{path} can be read by other users", hint=f"chmod {allowed:o} {path}")
        return key

    def read_or_make_key(self) -> bytes:
        """Made at first use. Raises ``UserError`` as ``read_key`` does, and ``OSError``."""
        if not self.key_path.exists():
            scratch = self.key_path.with_suffix(".new")
            _write(scratch, secrets.token_bytes(_KEY_BYTES), self.root, 0o640)
            try:
                os.link(scratch, self.key_path)  # not replaced: another daemon may have made one meanwhile
            except FileExistsError:
                pass
            finally:
                scratch.unlink(missing_ok=True)
        return self.read_key()


def read_json(path: Path) -> Any:
    """None for a file that is missing or holds something else."""
    try:
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None


def replace_file(path: Path, text: str, root: Path) -> None:
    """Readers see the old text or the whole new one. Raises ``OSError``."""
    scratch = path.with_name(f"{path.name}.{secrets.token_hex(4)}.new")
    try:
        _write(scratch, text.encode(), root, 0o660)
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)


def is_for_group(root: Path) -> bool:
    """Whether daemon and listener are two users that a group joins: then ``root`` lets its group write."""
    return root.stat().st_mode & _GROUP_WRITES == _GROUP_WRITES


def share(made: Path, root: Path, mode: int) -> None:
    """Let the group of ``root`` use what was just made, where ``root`` is for a group. Raises ``OSError``."""
    if not is_for_group(root):
        return
    group = root.stat().st_gid
    if made.stat().st_gid != group:
        os.chown(made, -1, group)
    made.chmod(mode)


def _write(path: Path, data: bytes, root: Path, mode: int) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        share(path, root, mode)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
