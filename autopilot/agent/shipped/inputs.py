"""What a job needs from elsewhere: fetched once, kept on the machine's disk."""

from __future__ import annotations

import os
import urllib.request

BLOCK_BYTES = 1 << 20
TIMEOUT_S = 60


def fetch_input(url: str, path: str) -> None:
    """Whole or not at all; goes on where it was cut off if the other side can. Raises ``OSError``, ``ValueError``."""
    if os.path.exists(path):
        return
    scratch = path + ".fetching"
    os.makedirs(os.path.dirname(path), exist_ok=True)
    here = os.path.getsize(scratch) if os.path.exists(scratch) else 0
    headers = {"User-Agent": "autopilot-agent", **({"Range": f"bytes={here}-"} if here else {})}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- the job file allows http and https
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as response:  # noqa: S310
        goes_on = (response.headers.get("Content-Range") or "").startswith(f"bytes {here}-")
        coming = response.headers.get("Content-Length")
        with open(scratch, "ab" if here and goes_on else "wb") as file:
            received = 0
            for block in iter(lambda: response.read(BLOCK_BYTES), b""):
                file.write(block)
                received += len(block)
    if coming is not None and received < int(coming):
        raise OSError(f"{url.partition('?')[0]} was cut off after {received} bytes")
    os.replace(scratch, path)
