"""Building an agent's orders: every URL that it may use from now on, signed one by one."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import timedelta
from typing import NamedTuple

from autopilot.domain.agent_state import AT_WORK, AgentState
from autopilot.domain.code import NO_CODE, JobCode
from autopilot.domain.inputs import LeftInput
from autopilot.domain.lease import Lease
from autopilot.mailbox.keys import (
    arrival_key,
    code_key,
    exit_key,
    heartbeat_key,
    log_key,
    manifest_key,
    orders_key,
    outputs_prefix,
    part_key,
    verified_outputs_key,
)
from autopilot.mailbox.logs import LOG_CHUNK_BYTES
from autopilot.mailbox.order_shapes import (
    CheckOrder,
    CheckpointUrls,
    CodeUrls,
    HostPlan,
    LeftUrls,
    LogUrl,
    Orders,
    PutUrls,
    RestoreUrls,
    Role,
    Work,
)
from autopilot.mailbox.report_shapes import Heartbeat
from autopilot.mailbox.wire import MAX_OBJECT_BYTES
from autopilot.ports.blobs import BlobStore, Grant

URL_VALID_FOR = timedelta(hours=1)
"""Orders are written again at least every minute while their lease is wanted. Where the permit is longer, its machine
needs their URLs to its end."""
BEYOND_PERMIT = timedelta(minutes=30)
"""So much longer than the permit its URLs live: for orders that are read late, and for the last save."""

ORDERS_URL_VALID_FOR = timedelta(days=7)
"""The most that S3 allows: the time that a paused machine may sleep and still find its orders."""

RESTORED = AT_WORK | {AgentState.LEFT}
"""Agents in these states need no URLs to restore from any more."""

LOG_CHUNKS_AHEAD = 10
LOGS_APART = 4
"""Orders are rewritten for so many new chunks: the rest has addresses in the present ones."""
CHECKPOINTS_AHEAD = 16
"""They last for an unrenewed permit: the agent keeps two for the end and spreads its saves over the others."""
LARGE_AHEAD, UNKNOWN_AHEAD = 10, 8
"""Of checkpoints with more than ``LARGE_FROM`` parts, and of some of unknown size, because the store takes no more from
a machine than eight times its disk."""
LARGE_FROM = 32
WHOLE_SLOTS = 3
"""The next one and the last two, which are kept for the end, have addresses for a whole checkpoint; those between them
``PARTS_AT_ONCE``: an agent that needs them cuts a large one into so few."""
PARTS_AT_ONCE = 8
"""Parts of a checkpoint while their number is unknown."""
SPARE_PARTS = 2
"""A checkpoint may have so many more parts than the last one, and a quarter: the agent cuts a larger one into fewer."""
PARTS_IN_WINDOW = 264
"""The most of one checkpoint. Agents make no more of it, but for a few that are sent twice."""
CHECK_MAX_BYTES = 2 << 20
PART_MAX_BYTES = 5 * 10**9
"""The most that S3 takes in one PUT."""


class CheckpointRef(NamedTuple):
    """A verified checkpoint of some lease of the same job: its number, and the blobs of its manifest and parts."""

    lease_id: str
    number: int
    manifest_key: str
    part_keys: tuple[str, ...]


class LeftRef(NamedTuple):
    """What a job takes of another one: the verified outputs of that one's run ``number``, and their parts' blobs."""

    wanted: LeftInput
    number: int
    part_keys: tuple[str, ...]


class CheckWish(NamedTuple):
    """How long the check on arrival may take, in market seconds, and the hosts that the job names."""

    most_s: int
    hosts: tuple[str, ...]


def build_orders(
    store: BlobStore,
    *,
    job_id: str,
    lease_id: str,
    instance_id: str | None,
    run_epoch: int,
    seq: int,
    permit_ttl_s: int,
    role: Role,
    checkpoint_interval_s: int,
    work: Work,
    restore: CheckpointRef | None,
    heartbeat: Heartbeat | None,
    code: JobCode = NO_CODE,
    grant: Grant | None = None,
    left: Sequence[LeftRef] = (),
    host: HostPlan | None = None,
    home_id: str | None = None,
    check: CheckWish | None = None,
) -> Orders:
    """Orders for the lease's agent, ready to be put at ``orders_key``.

    ``home_id``: the job that the machine was rented for, if not this one: beneath it its orders lie all its life.
    ``heartbeat`` is the agent's last: it says which URLs are needed next. Durations are market seconds.
    Raises ``ValueError`` for ids that make no blob key.
    """
    boot, next_log, next_checkpoint = 1, 0, 0
    next_part, parts_wanted, restore_part, restore_wanted = 0, 0, 0, PARTS_IN_WINDOW
    left_at, left_part, left_wanted = 0, 0, PARTS_IN_WINDOW
    if heartbeat is not None:
        left_at, left_part = heartbeat.left, heartbeat.left_part
        left_wanted = 0 if heartbeat.state in RESTORED else PARTS_IN_WINDOW
        boot, next_log, next_checkpoint = heartbeat.boot, heartbeat.next_log, heartbeat.next_checkpoint
        next_part, parts_wanted, restore_part = heartbeat.next_part, heartbeat.parts_wanted, heartbeat.restore_part
        restore_wanted = 0 if heartbeat.state in RESTORED else PARTS_IN_WINDOW

    valid_for = min(max(URL_VALID_FOR, timedelta(seconds=permit_ttl_s) + BEYOND_PERMIT), ORDERS_URL_VALID_FOR)
    parts_each = count_parts(heartbeat)
    ahead = count_ahead(heartbeat)

    def get(key: str) -> str:
        return store.sign_get(key, valid_for)

    def put(key: str, max_bytes: int = MAX_OBJECT_BYTES) -> str:
        return store.sign_put(key, valid_for, max_bytes)

    def checkpoint(number: int) -> CheckpointUrls:
        first, wanted = (next_part, parts_wanted) if number == next_checkpoint else (0, 0)
        is_whole = number == next_checkpoint or number > next_checkpoint + ahead - WHOLE_SLOTS
        least = parts_each if is_whole else min(parts_each, PARTS_AT_ONCE)
        window = range(first, first + min(max(wanted, least), PARTS_IN_WINDOW))
        return CheckpointUrls(
            number=number,
            manifest_url=put(manifest_key(job_id, lease_id, number)),
            first_part=first,
            part_urls=tuple(put(part_key(job_id, lease_id, number, i), PART_MAX_BYTES) for i in window),
        )

    def outputs() -> CheckpointUrls:
        place = outputs_prefix(job_id, lease_id, run_epoch)
        first, wanted = (next_part, parts_wanted) if work.outputs else (0, 0)
        window = range(first, first + min(max(wanted, PARTS_AT_ONCE), PARTS_IN_WINDOW)) if work.outputs else ()
        part_urls = tuple(put(f"{place}/part-{i}", PART_MAX_BYTES) for i in window)
        return CheckpointUrls(run_epoch, put(f"{place}/manifest.json"), first, part_urls)

    def restore_urls(ref: CheckpointRef) -> RestoreUrls:
        window = ref.part_keys[restore_part : restore_part + max(restore_wanted, PARTS_AT_ONCE)]
        parts = tuple(get(key) for key in window)
        return RestoreUrls(ref.lease_id, ref.number, get(ref.manifest_key), restore_part, parts)

    def left_urls(number: int, ref: LeftRef) -> LeftUrls:
        first, wanted = (left_part, left_wanted) if number == left_at else (0, PARTS_AT_ONCE)
        parts = tuple(get(key) for key in ref.part_keys[first : first + max(wanted, PARTS_AT_ONCE)])
        path, job, place = ref.wanted.path, ref.wanted.job, ref.wanted.left_at
        return LeftUrls(path, place, job, ref.number, get(verified_outputs_key(job)), first, parts)

    def code_urls() -> CodeUrls:
        count = min(code.part_count + 1, max(restore_wanted, PARTS_AT_ONCE) + 1)
        urls = tuple(get(code_key(code.copy_id, i)) for i in range(count))
        return CodeUrls(code.sha256, code.index_bytes, 0, urls)

    def check_order(wish: CheckWish) -> CheckOrder:
        key = arrival_key(job_id, lease_id)
        return CheckOrder(wish.most_s, wish.hosts, put(key, CHECK_MAX_BYTES), get(key))

    return Orders(
        job=job_id,
        lease=lease_id,
        instance=instance_id or "",
        run_epoch=run_epoch,
        seq=seq,
        permit_ttl_s=permit_ttl_s,
        role=role,
        checkpoint_interval_s=checkpoint_interval_s,
        work=work,
        restore=restore_urls(restore) if restore else None,
        put_urls=PutUrls(
            heartbeat=put(heartbeat_key(job_id, lease_id)),
            exit=put(exit_key(job_id, lease_id)),
            log=tuple(
                LogUrl(boot, number, put(log_key(job_id, lease_id, boot, number), LOG_CHUNK_BYTES))
                for number in range(next_log, next_log + LOG_CHUNKS_AHEAD)
            ),
            ckpt=tuple(checkpoint(number) for number in range(next_checkpoint, next_checkpoint + ahead)),
            out=outputs(),
            headers=dict(store.put_headers),
        ),
        next_orders_url=store.sign_get(orders_key(home_id or job_id, lease_id), ORDERS_URL_VALID_FOR),
        code=code_urls() if code.sha256 else None,
        check=None if check is None else check_order(check),
        left=tuple(left_urls(number, ref) for number, ref in enumerate(left)),
        grant=None if grant is None else {"place": f"jobs/{job_id}", **asdict(grant)},
        host=host,
    )


def count_ahead(heartbeat: Heartbeat | None) -> int:
    """For how many checkpoints there are URLs."""
    if heartbeat is None or not heartbeat.whole_parts:
        return UNKNOWN_AHEAD
    return CHECKPOINTS_AHEAD if heartbeat.whole_parts <= LARGE_FROM else LARGE_AHEAD


def count_parts(heartbeat: Heartbeat | None) -> int:
    """How many parts of each checkpoint there are URLs for before anybody asks: a whole one of the last one's size."""
    if heartbeat is None or not heartbeat.whole_parts:
        return min(PARTS_AT_ONCE, PARTS_IN_WINDOW)
    return min(heartbeat.whole_parts + heartbeat.whole_parts // 4 + SPARE_PARTS, PARTS_IN_WINDOW)


def taken_over_orders(instance_id: str) -> bytes:
    """Replaces the orders of a machine that its user has taken over: nothing of ours runs there any more, and the
    machine is not to end itself. Another machine of the same lease continues under its permit."""
    return json.dumps({"v": 1, "taken_over": instance_id}).encode()


def read_seq(data: bytes, job_id: str, lease: Lease) -> int | None:
    """The number of orders that the daemon has written for that machine of the job; None for anything else."""
    try:
        orders = json.loads(data)
        is_its = (orders["job"], orders["lease"]) == (job_id, lease.id) and orders["instance"] == lease.instance_id
        return int(orders["seq"]) if is_its and orders["seq"] >= 0 else None
    except (ValueError, KeyError, TypeError):
        return None
