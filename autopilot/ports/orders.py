"""Building an agent's orders: every URL that it may use from now on, signed one by one."""

from __future__ import annotations

from datetime import timedelta
from typing import NamedTuple

from autopilot.ports.blobs import BlobStore
from autopilot.ports.mailbox import (
    MAX_OBJECT_BYTES,
    CheckpointUrls,
    LogUrl,
    Orders,
    PutUrls,
    RestoreUrls,
    Role,
    Work,
    exit_key,
    heartbeat_key,
    log_key,
    manifest_key,
    orders_key,
    part_key,
)

URL_VALID_FOR = timedelta(hours=1)
"""Orders are written again at least every minute while their lease is wanted, so their URLs need not live long."""

ORDERS_URL_VALID_FOR = timedelta(days=7)
"""The most that S3 allows: the time that a paused machine may sleep and still find its orders."""

LOG_CHUNKS_AHEAD = 8
CHECKPOINTS_AHEAD = 4
PARTS_PER_CHECKPOINT = 8
PART_MAX_BYTES = 5 * 10**9
"""The most that S3 takes in one PUT."""


class CheckpointRef(NamedTuple):
    """A verified checkpoint of some lease of the same job."""

    lease_id: str
    n: int
    part_count: int


def build_orders(
    store: BlobStore,
    *,
    job_id: str,
    lease_id: str,
    run_epoch: int,
    seq: int,
    permit_ttl_s: int,
    role: Role,
    checkpoint_interval_s: int,
    work: Work,
    restore: CheckpointRef | None,
    boot: int,
    next_log_n: int,
    next_ckpt_n: int,
) -> Orders:
    """Orders for the lease's agent, ready to be put at ``orders_key``.

    ``boot``, ``next_log_n`` and ``next_ckpt_n`` repeat the last heartbeat; before the first one they are 1, 0 and 0.
    Durations are market seconds. Raises ``ValueError`` for ids that make no blob key.
    """

    def get(key: str) -> str:
        return store.sign_get(key, URL_VALID_FOR)

    def put(key: str, max_bytes: int = MAX_OBJECT_BYTES) -> str:
        return store.sign_put(key, URL_VALID_FOR, max_bytes)

    def checkpoint(n: int) -> CheckpointUrls:
        return CheckpointUrls(
            n=n,
            manifest_url=put(manifest_key(job_id, lease_id, n)),
            part_urls=tuple(put(part_key(job_id, lease_id, n, i), PART_MAX_BYTES) for i in range(PARTS_PER_CHECKPOINT)),
        )

    return Orders(
        run_epoch=run_epoch,
        seq=seq,
        permit_ttl_s=permit_ttl_s,
        role=role,
        checkpoint_interval_s=checkpoint_interval_s,
        work=work,
        restore=restore
        and RestoreUrls(
            manifest_url=get(manifest_key(job_id, restore.lease_id, restore.n)),
            part_urls=tuple(get(part_key(job_id, restore.lease_id, restore.n, i)) for i in range(restore.part_count)),
        ),
        put_urls=PutUrls(
            heartbeat=put(heartbeat_key(job_id, lease_id)),
            exit=put(exit_key(job_id, lease_id)),
            log=tuple(
                LogUrl(boot, n, put(log_key(job_id, lease_id, boot, n)))
                for n in range(next_log_n, next_log_n + LOG_CHUNKS_AHEAD)
            ),
            ckpt=tuple(checkpoint(n) for n in range(next_ckpt_n, next_ckpt_n + CHECKPOINTS_AHEAD)),
        ),
        next_orders_url=store.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR),
    )
