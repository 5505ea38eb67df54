"""What a paper instance is given to start: nothing to run, only where its orders are."""

from __future__ import annotations

from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.ports.blobs import BlobStore


class PaperBootstrap:
    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def onstart(self, job_id: str, lease_id: str) -> str:
        """The signed URL of the lease's orders."""
        return self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR)

    def host_script(self, job_id: str, lease_id: str, *, stays: bool) -> str:
        """The same: no machine boots."""
        return self.onstart(job_id, lease_id)
