"""API keys on disk: one file per market, readable by its owner alone."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from pathlib import Path

from autopilot.domain.errors import UserError

KEY_SUFFIX = "_api_key"
BUCKET_KEY = "bucket_key"
"""File of the bucket's key, in the form of its kind."""
KEY_FORMS = {
    "s3": "ACCESS_KEY_ID:SECRET_ACCESS_KEY",
    "az": "STORAGE_ACCOUNT:ACCOUNT_KEY",
    "gs": "the service account's JSON key",
}


def key_files(directory: Path) -> dict[str, Path]:
    """Market name → its key file in ``directory``; nothing when the directory cannot be read.

    A blank file is no key: the service manager leaves one where none was stored.
    """
    try:
        found = sorted(directory.glob(f"*{KEY_SUFFIX}"))
        return {path.name.removesuffix(KEY_SUFFIX): path for path in found if _holds_something(path)}
    except OSError:
        return {}


def _holds_something(path: Path) -> bool:
    return os.access(path, os.R_OK) and bool(path.read_bytes().strip())


def read_key(path: Path) -> str:
    """The key in ``path``, or the JSON credentials of a service account. Raises ``UserError`` when it is missing,
    empty, or others may read it."""
    text = read_private(path)
    is_account = text.startswith("{") and secrets_in(text)
    if not text or (any(character.isspace() for character in text) and not is_account):
        raise UserError(f"{path} does not contain exactly one API key", hint="it must contain the key and nothing else")
    return text


def read_private(path: Path) -> str:
    """The text in ``path``, stripped. Raises ``UserError`` when it cannot be read, or others may read it."""
    try:
        mode = path.stat().st_mode
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not text"
        raise UserError(f"cannot read the key file {path}: {reason}", hint="autopilot init stores a key") from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO) and not _kept_by_service_manager(path):
        raise UserError(f"others can read the key file {path}", hint=f"run: chmod 600 {path}")
    return text


def bucket_key_file(directory: Path) -> Path | None:
    """The bucket's key file in ``directory``; None when there is none or it is blank."""
    path = directory / BUCKET_KEY
    try:
        return path if path.is_file() and _holds_something(path) else None
    except OSError:
        return None


def read_bucket_key(path: Path) -> tuple[str, str]:
    """(access key id or storage account, its secret). Raises ``UserError``."""
    name, _, secret = read_key(path).partition(":")
    if not name or not secret:
        raise UserError(f"{path} does not contain a bucket key", hint=f"write it as {KEY_FORMS['s3']}")
    return name, secret


def read_service_account(path: Path) -> str:
    """The JSON key of a service account of Google's. Raises ``UserError``."""
    text = read_private(path)
    if not text.startswith("{") or not secrets_in(text):
        raise UserError(f"{path} does not contain a service account key", hint="create one of type JSON and store it")
    return text


def secrets_in(secret: str) -> tuple[str, ...]:
    """What must never be seen of it: the whole, or the private key in a service account's JSON, in both spellings."""
    if not secret.startswith("{"):
        return (secret,) if secret else ()
    try:
        account = json.loads(secret)
        # Google's, and Nebius's.
        key = account["private_key"] if "private_key" in account else account["subject-credentials"]["private-key"]
        return (key, json.dumps(key)[1:-1]) if isinstance(key, str) and key else ()
    except (ValueError, KeyError, TypeError, RecursionError):
        return ()


def store_key(directory: Path, provider: str, key: str) -> Path:
    """Write a market's key. Returns its path; raises ``OSError``."""
    return store_private(directory, f"{provider}{KEY_SUFFIX}", key)


def store_private(directory: Path, name: str, text: str) -> Path:
    """Write a file of mode 0600 in a 0700 directory, whole or not at all. Returns its path; raises ``OSError``."""
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    directory.chmod(0o700)
    path = directory / name
    descriptor, temporary = tempfile.mkstemp(dir=directory)  # mkstemp creates with 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text.strip() + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
    return path


def _kept_by_service_manager(path: Path) -> bool:
    """systemd grants access to its credentials by an ACL, whose mask shows in the group bits; they are safe there."""
    directory = os.environ.get("CREDENTIALS_DIRECTORY")
    return directory is not None and path.resolve().is_relative_to(Path(directory).resolve())
