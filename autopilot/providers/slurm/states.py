"""States and reasons of Slurm's jobs → what they mean for a lease. Pure.

Names are those of the manual pages ``squeue(1)`` and ``sacct(1)`` of Slurm 22.05, sections JOB STATE CODES and JOB
REASON CODES. What is not among them counts as a job that is there: it is never taken for an end.
"""

from __future__ import annotations

from enum import Enum

from autopilot.domain.instance import Stopper


class Phase(Enum):
    WAITS = "waits"
    RUNS = "runs"
    HALTED = "halted"
    """Its processes are there and do not run."""
    ENDS = "ends"
    """Its processes are being ended."""
    OVER = "over"


PHASES = {
    **dict.fromkeys(
        ("PENDING", "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD"), Phase.WAITS
    ),
    **dict.fromkeys(("SUSPENDED", "STOPPED"), Phase.HALTED),
    "COMPLETING": Phase.ENDS,
    **dict.fromkeys(("COMPLETED", "FAILED", "TIMEOUT", "DEADLINE", "CANCELLED", "PREEMPTED", "NODE_FAIL"), Phase.OVER),
    **dict.fromkeys(("BOOT_FAIL", "OUT_OF_MEMORY", "REVOKED", "LAUNCH_FAILED", "RECONFIG_FAIL"), Phase.OVER),
}
STARTING = frozenset({"CONFIGURING", "POWER_UP_NODE"})
"""It has nodes, and they are being prepared."""
HELD_BY_USER = ("JobHeldUser", "job requeued in held state")
HELD_BY_SITE = ("JobHeldAdmin", "launch failed requeued held", "RequeueHold")
NEVER = {
    "AccountNotAllowed": "the partition does not take this account",
    "AssocGrpGRES": "the account's limit of GPUs is reached",
    "AssocGrpGRESMinutes": "the account's GPU minutes are used up",
    "AssocMaxGRESPerJob": "the account takes no job with so many GPUs",
    "AssocMaxWallDurationPerJobLimit": "the account takes no job of such a length",
    "BadConstraints": "no node has what is asked for",
    "DependencyNeverSatisfied": "it depends on a job that has failed",
    "InvalidAccount": "there is no such account",
    "InvalidQOS": "there is no such QOS",
    "PartitionNodeLimit": "the partition has too few such nodes",
    "PartitionTimeLimit": "the partition takes no job of such a length",
    "QOSMaxGRESPerJob": "the QOS takes no job with so many GPUs",
    "QOSMaxWallDurationPerJobLimit": "the QOS takes no job of such a length",
    "QOSNotAllowed": "the partition does not take this QOS",
    "ReqNodeNotAvail": "the nodes that it asks for are down or reserved",
}
"""Reasons that last until a person changes something, in words for people."""
WAITS_FOR = {
    "AssocGrpJobsLimit": "the account runs as many jobs as it may",
    "AssocMaxJobsLimit": "the account runs as many jobs as it may",
    "BeginTime": "it was requeued, and may start again in a moment",
    "Cleaning": "its last run is being cleaned up",
    "Dependency": "it waits for another job",
    "Licenses": "it waits for a licence",
    "None": "the scheduler has not looked at it yet",
    "NodeDown": "a node that it needs is down",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition is inactive",
    "Priority": "jobs of a higher priority come first",
    "QOSGrpGRES": "the QOS uses as many GPUs as it may",
    "QOSMaxGRESPerUser": "you use as many GPUs as the QOS gives you",
    "QOSMaxJobsPerUserLimit": "you run as many jobs as the QOS gives you",
    "Reservation": "it waits for its reservation",
    "Resources": "it is the next one, and waits for free GPUs",
}
ENDS = {
    "COMPLETED": (None, "the job has ended by itself"),
    "FAILED": (Stopper.HOST, "the job's script has failed"),
    "TIMEOUT": (None, "its time limit is reached"),
    "DEADLINE": (None, "its deadline is reached"),
    "CANCELLED": (Stopper.USER, "the job was cancelled"),
    "PREEMPTED": (Stopper.BIDDER, "the job was preempted"),
    "NODE_FAIL": (Stopper.HOST, "its node has failed"),
    "BOOT_FAIL": (Stopper.HOST, "its node did not start"),
    "OUT_OF_MEMORY": (Stopper.HOST, "it used more memory than it has"),
    "REVOKED": (Stopper.USER, "the job was revoked"),
    "LAUNCH_FAILED": (Stopper.HOST, "its node could not start it"),
    "RECONFIG_FAIL": (Stopper.HOST, "its node could not be prepared"),
}


def phase_of(state: str) -> Phase:
    return PHASES.get(state, Phase.RUNS)


def is_held_by_user(reason: str) -> bool:
    return reason in HELD_BY_USER


def is_held_by_site(reason: str) -> bool:
    return reason.startswith(HELD_BY_SITE)


def tell_wait(reason: str) -> str:
    """Why a job waits: in words where the reason is known, followed by Slurm's own; a node list after it is kept."""
    name = reason.split(",")[0].strip("()")
    words = NEVER.get(name) or WAITS_FOR.get(name)
    return f"{words} ({reason})" if words and reason != "None" else words or reason


def tell_end(state: str, cancelled_by: str = "") -> tuple[Stopper | None, str]:
    """Who ended it and how. ``cancelled_by``: of whom the accounting says so, by user id or name."""
    stopper, words = ENDS.get(state, (None, f"the job is {state}"))
    return stopper, f"{words} by {cancelled_by}" if cancelled_by else words
