"""The daemon's side of virtual machines: the plan in their orders, the login while they want it, what they report."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime, timedelta

import structlog

from autopilot.domain.job import Job
from autopilot.domain.lease import Lease
from autopilot.domain.params import Params
from autopilot.engine.registry_logins import Logins
from autopilot.mailbox.keys import host_key, registry_login_key
from autopilot.mailbox.order_shapes import HostPlan
from autopilot.mailbox.orders import URL_VALID_FOR
from autopilot.mailbox.reading import parse_host_report
from autopilot.mailbox.report_shapes import HostReport
from autopilot.mailbox.wire import MAX_OBJECT_BYTES, SSH_KEY_VARIABLE
from autopilot.ports.blobs import BlobStore
from autopilot.ports.bootstrap import Bootstrap
from autopilot.ports.provider import Provider

log = structlog.get_logger(__name__)

LOGIN_VALID_FOR = timedelta(minutes=30)
"""Lifetime of the URL of the login. The login itself is deleted as soon as the image is pulled."""
BOOT_SHARE = 0.8
"""Share of the loading time in which the machine itself can report its fault, before it is given up."""


class Hosts:
    def __init__(
        self, providers: Mapping[str, Provider], bootstrap: Bootstrap, blobs: BlobStore, logins: Logins, params: Params
    ) -> None:
        self._providers = providers
        self._bootstrap = bootstrap
        self._blobs = blobs
        self._logins = logins
        self._boot_s = round(params.loading.timeout_s * BOOT_SHARE)
        self._reports: dict[str, HostReport] = {}
        self._unheard: dict[str, datetime] = {}
        self._lent: dict[str, bool] = {}
        """By lease, whether its login lies in the store; a daemon before this one may have put it there."""

    def boots(self, lease: Lease) -> bool:
        """Whether it is a virtual machine."""
        provider = self._providers.get(lease.provider)
        return provider is not None and provider.capabilities.boots_vm

    async def read(self, job: Job, lease: Lease, now: datetime) -> HostReport | None:
        """What the machine has said that is new. Raises ``BlobUnavailable``."""
        if not self.boots(lease):
            return None
        unheard_since = self._unheard.pop(lease.id, now)  # a store that is down says nothing of the machine
        said = await self._blobs.get(host_key(job.id, lease.id))
        if said is None:
            self._unheard[lease.id] = unheard_since
        report = parse_host_report(said or b"")
        before = self._reports.get(lease.id)
        if report is None or (before and (report.boot, report.seq) <= (before.boot, before.seq)):
            return None
        self._reports[lease.id] = report
        log.info("host.reported", lease=lease.id, boot=report.boot, state=report.state, fault=report.fault)
        return report

    def unheard_since(self, lease_id: str) -> datetime | None:
        """Since when each look into the store has shown no word of the machine; None: it has one, or is not known."""
        return self._unheard.get(lease_id)

    def face(self, lease_id: str) -> bool:
        """What in a report calls for other orders: that the machine wants the login."""
        report = self._reports.get(lease_id)
        return report is not None and report.wants_login

    async def plan(self, job: Job, lease: Lease) -> HostPlan | None:
        """None for a machine that the market starts in the job's image. Raises ``BlobUnavailable``, ``UserError``."""
        if not self.boots(lease):
            return None
        spec = job.spec
        return HostPlan(
            container=f"ap-{lease.id}",
            image=spec.image,
            # A machine that another task uses next has its orders where the first one's lie.
            start=self._bootstrap.onstart(lease.first_job_id or job.id, lease.id),
            num_gpus=lease.num_gpus,
            report_url=self._blobs.sign_put(host_key(job.id, lease.id), URL_VALID_FOR, MAX_OBJECT_BYTES),
            needs_login=spec.registry is not None,
            login_url=await self._lend(job, lease),
            env={SSH_KEY_VARIABLE: spec.ssh_key} if spec.ssh_key else {},
            boot_s=self._boot_s,
        )

    async def _lend(self, job: Job, lease: Lease) -> str:
        """Put the login where the machine can read it while it asks for it, and take it away when it does no more."""
        key = registry_login_key(lease.first_job_id or job.id, lease.id)
        if job.spec.registry is None or not lease.is_wanted or not self.face(lease.id):
            if job.spec.registry is not None and self._lent.get(lease.id, True):
                await self._blobs.delete([key])
                self._lent[lease.id] = False
            return ""
        if not self._lent.get(lease.id):
            login = self._logins.read(job.spec)
            words = {"username": login.user, "password": login.password, "serveraddress": login.server}
            self._lent[lease.id] = True
            await self._blobs.put(key, json.dumps(words).encode())
        return self._blobs.sign_get(key, LOGIN_VALID_FOR)

    def forget(self, lease_ids: frozenset[str]) -> None:
        for kept in (self._reports, self._unheard, self._lent):
            for lease_id in kept.keys() - lease_ids:
                del kept[lease_id]
