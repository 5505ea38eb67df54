"""What a job needs from elsewhere: fetched once, kept on the machine's disk."""

from __future__ import annotations

import os
import urllib.error
import urllib.request
from typing import Any

BLOCK_BYTES = 1 << 20
TIMEOUT_S = 60
RANGE_NOT_SATISFIABLE = 416


def fetch_input(url: str, path: str) -> None:
    """Whole or not at all; goes on where it was cut off if the other side can. Raises ``OSError``, ``ValueError``."""
    if os.path.exists(path):
        return
    scratch = path + ".fetching"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    here = os.path.getsize(scratch) if os.path.exists(scratch) else 0
    headers = {"User-Agent": "autopilot-agent", **({"Range": f"bytes={here}-"} if here else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- the job file allows http and https
    with open_answer(request, scratch) as response:
        goes_on = (response.headers.get("Content-Range") or "").startswith(f"bytes {here}-")
        coming = response.headers.get("Content-Length")
        with open(scratch, "ab" if here and goes_on else "wb") as file:
            received = 0
            for block in iter(lambda: response.read(BLOCK_BYTES), b""):
                file.write(block)
                received += len(block)
            file.flush()
            os.fsync(file.fileno())  # its name means that it is complete, also after a crash of the host
    if coming is not None and received < int(coming):
        raise OSError(f"{url.partition('?')[0]} was cut off after {received} bytes")
    os.replace(scratch, path)


def open_answer(request: urllib.request.Request, scratch: str) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == RANGE_NOT_SATISFIABLE:
            os.remove(scratch)  # all of it was here, or the source is shorter now: the next try starts over
        raise
