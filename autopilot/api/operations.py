"""What each call of the API takes and answers: the OpenAPI document is made of this table.

Who may call is said by ``access.RULES``, which has the same keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from autopilot.answers import certifications, files, shells, tokens
from autopilot.answers import jobs as answers
from autopilot.answers.hosts import HostAnswer, Hosts
from autopilot.answers.instances import Instances
from autopilot.answers.models import account, hosts, jobs, money, plans, schedules
from autopilot.answers.models.base import Asked, Query
from autopilot.answers.money import Budget, ItemizedReceipt, Reconciliation, Spend
from autopilot.answers.prices import Prices
from autopilot.answers.schedules import ScheduleAnswer, Scheduled, Schedules
from autopilot.answers.status import Offers, Status


@dataclass(frozen=True, slots=True)
class Operation:
    summary: str
    answers: Mapping[int, type[Any]]
    """By status; empty: the answer is not an object of ours."""
    body: type[Asked] | None = None
    query: type[Query] | None = None
    may_be_bare: bool = False
    """It may come without a body."""
    acts_once: bool = False
    """It takes an ``Idempotency-Key``."""
    is_upload: bool = False
    """Its body is bytes."""
    streams: bool = False
    """It answers with server-sent events if the client accepts them."""
    media_type: str = "application/json"


def _one(answer: type[Any], status: int = 200) -> dict[int, type[Any]]:
    return {status: answer}


OPERATIONS: dict[str, Operation] = {
    "GET /metrics": Operation("Figures for Prometheus", {}, media_type="text/plain"),
    "GET /v1/openapi.json": Operation("This document", {}),
    "GET /v1/status": Operation("The daemon and its markets", _one(Status)),
    "POST /v1/jobs": Operation(
        "Submit a job file, or plan it with dry_run",
        {200: answers.Submitted, 201: answers.Submitted},
        body=jobs.SubmitBody,
        acts_once=True,
    ),
    "POST /v1/sets": Operation(
        "Submit several job files at once, or plan them with dry_run",
        {200: answers.SubmittedSet, 201: answers.SubmittedSet},
        body=jobs.SubmitSetBody,
        acts_once=True,
    ),
    "POST /v1/schedules": Operation(
        "Submit a job file repeatedly, or plan it with dry_run",
        {200: Scheduled, 201: Scheduled},
        body=schedules.ScheduleBody,
        acts_once=True,
    ),
    "GET /v1/schedules": Operation("List schedules", _one(Schedules), query=schedules.SchedulesQuery),
    "POST /v1/schedules/{schedule}/pause": Operation("Pause a schedule", _one(ScheduleAnswer)),
    "POST /v1/schedules/{schedule}/resume": Operation("Resume a paused schedule", _one(ScheduleAnswer)),
    "POST /v1/schedules/{schedule}/end": Operation("End a schedule", _one(ScheduleAnswer)),
    "GET /v1/jobs": Operation("List jobs", _one(jobs.Jobs), query=jobs.ListQuery),
    "GET /v1/jobs/{ref}": Operation("A job with its machines, bids and events", _one(answers.JobLife)),
    "GET /v1/jobs/{ref}/logs": Operation("A job's output", _one(answers.Logs), query=jobs.LogsQuery, streams=True),
    "GET /v1/jobs/{ref}/outputs": Operation("The outputs of a job", _one(files.Outputs)),
    "GET /v1/jobs/{ref}/code": Operation("The code of a job", _one(files.CodeOfJob)),
    "GET /v1/jobs/{ref}/why": Operation("Why a job is in its current state", _one(answers.Why), query=jobs.WhyQuery),
    "PATCH /v1/jobs/{ref}": Operation(
        "Change the limits of a job", _one(answers.Changed), body=jobs.ChangeBody, acts_once=True
    ),
    "POST /v1/jobs/{ref}/stop": Operation("Save a job and park it", _one(answers.JobAnswer)),
    "POST /v1/jobs/{ref}/cancel": Operation("Cancel a job", {200: answers.Cancelled, 202: answers.Cancelled}),
    "POST /v1/jobs/{ref}/resume": Operation(
        "Resume a parked job", _one(answers.Resumed), body=jobs.ResumeBody, may_be_bare=True, acts_once=True
    ),
    "POST /v1/jobs/{ref}/retry": Operation(
        "Restart tasks of an array that have ended",
        _one(answers.Retried),
        body=jobs.RetryBody,
        may_be_bare=True,
        acts_once=True,
    ),
    "POST /v1/jobs/{ref}/release": Operation("Release the held machine", _one(answers.JobAnswer)),
    "POST /v1/jobs/{ref}/exec": Operation("Run a command next to the job", _one(shells.ExecAnswer), body=jobs.ExecBody),
    "GET /v1/jobs/{ref}/ssh": Operation("The SSH login of a job's machine", _one(shells.SshAnswer)),
    "GET /v1/code/{sha256}": Operation("Whether a copy of code exists", _one(files.CodeThere)),
    "PUT /v1/code/{sha256}": Operation("Upload the index of a copy of code", _one(files.CodeBegun), is_upload=True),
    "PUT /v1/code/{sha256}/parts/{number}": Operation("Upload a part of it", _one(files.Nothing), is_upload=True),
    "GET /v1/events": Operation("Events, as they come", _one(jobs.Events), query=jobs.EventsQuery, streams=True),
    "POST /v1/offers": Operation("List offers", _one(Offers), body=plans.OffersBody),
    "GET /v1/jobs/{ref}/receipt": Operation("The cost of a job, line by line", _one(ItemizedReceipt)),
    "GET /v1/spend": Operation("Spend", _one(Spend), query=money.SpendQuery),
    "GET /v1/budget": Operation("Limits, and what counts against them", _one(Budget)),
    "GET /v1/reconcile": Operation(
        "The ledger compared with the markets' bills", _one(Reconciliation), query=money.MonthQuery
    ),
    "GET /v1/instances/{ref}": Operation("The history of one machine", _one(Instances)),
    "GET /v1/prices": Operation("Prices of a GPU", _one(Prices), query=money.PricesQuery),
    "GET /v1/drift": Operation(
        "Changes in the answers of markets", _one(certifications.Drifts), query=account.DriftQuery
    ),
    "GET /v1/hosts": Operation("What is remembered of machines", _one(Hosts), query=hosts.HostsQuery),
    "POST /v1/hosts/{market}/{machine}/block": Operation("Rent nothing new on a machine", _one(HostAnswer)),
    "POST /v1/hosts/{market}/{machine}/forgive": Operation(
        "Forget a machine's faults, and its block", _one(HostAnswer)
    ),
    "GET /v1/markets/{market}/certification": Operation(
        "The progress of a certification", _one(certifications.Certification)
    ),
    "POST /v1/markets/{market}/certification": Operation(
        "Certify a market", _one(answers.JobAnswer, 201), body=account.CertifyBody
    ),
    "POST /v1/markets/{market}/accept": Operation(
        "Accept a claim that does not hold", _one(certifications.Accepted), body=account.AcceptBody
    ),
    "GET /v1/plans": Operation("List plans that wait for confirmation", _one(tokens.WaitingPlans)),
    "POST /v1/plans/{plan}/confirm": Operation("Confirm a plan", _one(tokens.ConfirmedPlan)),
    "GET /v1/tokens": Operation("List tokens", _one(tokens.Tokens)),
    "POST /v1/tokens": Operation("Create a token", _one(tokens.MadeToken, 201), body=account.TokenBody),
    "POST /v1/tokens/{name}/revoke": Operation(
        "Revoke a token", _one(tokens.RevokedToken), body=account.RevokeBody, may_be_bare=True
    ),
}
"""Every call of the API but those of the page."""

OF_PAGE = (
    "GET /v1/decisions",
    "GET /v1/jobs/{ref}/life",
    "GET /v1/spans",
    "GET /v1/page",
    "GET /v1/page/now",
    "GET /v1/page/money",
    "POST /v1/page/link",
    "POST /v1/page/enter",
    "POST /v1/page/end",
)
"""Calls that the page makes, which comes with the daemon: they are described nowhere, and change with it."""
