"""Where pages read from: a ledger alone (``api.ledger_view``), or a daemon (``web.daemon_source``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from autopilot.answers.hosts import Host
from autopilot.answers.instances import Instances
from autopilot.answers.jobs import Logs
from autopilot.answers.money import MonthOfMoney
from autopilot.answers.pages import Decisions, DrawnLife, MachinesOfJob, Now
from autopilot.answers.plans import RankedOffer
from autopilot.answers.prices import Prices
from autopilot.domain.token import Scope

Json = dict[str, Any]


class PageSource(Protocol):
    """Each method raises ``UserError`` for what makes no sense, and what its source raises where it is silent."""

    @property
    def now(self) -> datetime: ...

    @property
    def newest_at(self) -> datetime | None:
        """When the newest event happened, where the source is a ledger; when the daemon ticked last."""
        ...

    @property
    def sees_all(self) -> bool:
        """Whether it tells of the whole account."""
        ...

    async def read_now(self) -> Now:
        """Without markets if none are read."""
        ...

    async def read_money(self, by: str, month: str) -> MonthOfMoney:
        """Grouped. Raises ``UserError`` for users who do not see all."""
        ...

    async def read_job(self, reference: str) -> DrawnLife: ...

    async def read_machines(self, job_ids: Sequence[str]) -> dict[str, MachinesOfJob]: ...

    async def read_newest_machines(self) -> dict[str, MachinesOfJob]:
        """Machines of the newest jobs."""
        ...

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> Prices: ...

    async def instance(self, reference: str) -> Instances: ...

    async def list_decisions(self, before: str, kind: str) -> Decisions: ...

    async def list_offers(self, gpu: str) -> list[RankedOffer]:
        """Best first; empty if no markets are read."""
        ...

    async def list_hosts(self) -> list[Host]:
        """Machines that are remembered, those last seen first."""
        ...

    async def read_log(self, reference: str) -> Logs:
        """The newest output; no chunks where only the ledger is read."""
        ...


class Visitor(NamedTuple):
    """The user of a page, and their rights."""

    name: str
    scope: Scope
    sees_all: bool
    is_live: bool
    """It asks a daemon, so it moves and can act."""
    key: str
    """Equal for visitors who see the same: they share its pages."""
    form_token: str = ""
    """Without it nothing is done in their name."""
    is_proxied: bool = False
    """A reverse proxy says with each request who they are: there is no session that they could leave."""

    def may(self, scope: str) -> bool:
        return self.is_live and self.scope.covers(Scope(scope))


READER = Visitor("", Scope.READ, sees_all=True, is_live=False, key="")
"""A reader of a ledger alone."""
