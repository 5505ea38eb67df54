"""Writing into a daemon's mailbox as a rented machine does: by a signed address, over a socket."""

from __future__ import annotations

from datetime import timedelta
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from tests.patience import PATIENCE_S


def put(place: MailboxPlace, key: str, data: bytes, timeout_s: float = PATIENCE_S) -> int:
    """The status of the answer, 0 when there is none."""
    store = LocalBlobStore(place.objects, place.read_key(), f"http://127.0.0.1:{place.port()}")
    url = urlsplit(store.sign_put(key, timedelta(minutes=5), 1000))
    connection = HTTPConnection(url.hostname or "", url.port, timeout=timeout_s)
    try:
        connection.request("PUT", f"{url.path}?{url.query}", data)
        return connection.getresponse().status
    except (OSError, HTTPException):
        return 0
    finally:
        connection.close()
