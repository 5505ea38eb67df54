"""What another job has left: fetched whole and checked, of which the part that is asked for is kept."""

from __future__ import annotations

import os
from typing import Any

from .download import OUTPUT_KEY, Download
from .snapshots import Snapshots
from .stored import Stored
from .transfer import Transfer
from .tree import remove
from .web import Web


class LeftDownload(Download):
    key = OUTPUT_KEY


def fetch_left(web: Web, transfer: Transfer, directory: str, wanted: dict[str, Any], path: str) -> None:
    """Put it at ``path`` unless something is there. ``directory``: where it is put together; a try that was cut off
    goes on with what lies there.

    Raises ``Corrupt`` when it is not what its manifest says, ``OSError``.
    """
    if os.path.lexists(path):
        return
    place = os.path.join(directory, f"{wanted['job']}-{wanted['n']}")
    snapshots = Snapshots(place)
    download = LeftDownload(web, snapshots, Stored(os.path.join(place, "stored")), transfer)
    is_fresh = download.fetch({**wanted, "lease": wanted["job"]})
    whole = path + ".fetching"
    snapshots.restore(snapshots.newest_first()[0], whole, is_verified=is_fresh)
    source = os.path.join(whole, wanted["left_at"])
    if not os.path.lexists(source):
        raise OSError(f"job {wanted['job']} has left nothing at {wanted['left_at']}")
    os.replace(source, path)
    remove(whole)
    remove(place)
