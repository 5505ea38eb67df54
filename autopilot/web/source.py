"""Where pages read from: a ledger alone (``api.ledger_view``), or a daemon (``web.daemon_source``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from autopilot.domain.token import Scope

Json = dict[str, Any]


class PageSource(Protocol):
    """Answers as the API gives them: amounts are decimal strings, instants ISO 8601.

    Each method raises ``UserError`` for what makes no sense, and what its kind of source raises when it is silent.
    """

    @property
    def now(self) -> datetime: ...

    @property
    def newest_at(self) -> datetime | None:
        """When the newest event happened, where the source is a ledger; when the daemon ticked last."""
        ...

    @property
    def sees_all(self) -> bool:
        """Whether it tells of the whole account. Else ``budget``, ``spend`` and their like raise ``UserError``."""
        ...

    async def list_jobs(self) -> list[Json]: ...

    async def read_job(self, reference: str) -> Json: ...

    async def read_machines(self, job_ids: Sequence[str]) -> dict[str, Json]: ...

    async def list_markets(self) -> list[Json]:
        """As ``GET /v1/status`` has them; empty where nobody reads markets."""
        ...

    async def budget(self) -> Json: ...

    async def spend(self, query: Mapping[str, str]) -> Json: ...

    async def spend_by_market(self, query: Mapping[str, str]) -> dict[str, Json]: ...

    async def reconcile(self, month: str) -> Json: ...

    async def prices(self, gpu: str, since: datetime, until: datetime, steps: int) -> Json: ...

    async def instance(self, reference: str) -> Json: ...

    async def list_decisions(self, before: str, kind: str) -> Json: ...

    async def list_offers(self, gpu: str) -> list[Json]:
        """Best first; empty where nobody reads markets."""
        ...

    async def read_log(self, reference: str) -> Json:
        """The newest output, as ``GET /v1/jobs/{ref}/logs`` answers; no chunks where only the ledger is read."""
        ...


class Visitor(NamedTuple):
    """Whoever looks at a page, and what they may do."""

    name: str
    scope: Scope
    sees_all: bool
    is_live: bool
    """It asks a daemon, so it moves and can act."""
    key: str
    """Of what two visitors see the same: they share what is made for them."""
    form_token: str = ""
    """Without it nothing is done in their name."""

    def may(self, scope: str) -> bool:
        return self.is_live and self.scope.covers(Scope(scope))


READER = Visitor("", Scope.READ, sees_all=True, is_live=False, key="")
"""Of a ledger alone."""
