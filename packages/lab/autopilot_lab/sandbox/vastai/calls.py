"""One call as an endpoint sees it, and the state that endpoints share besides the market."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from autopilot_lab.sandbox.faults import InjectedFault
from autopilot_lab.sandbox.market.instances import Contract
from autopilot_lab.sandbox.market.market import SandboxMarket
from autopilot_lab.sandbox.private_images import PrivateImage
from autopilot_lab.sandbox.vastai.pacing import RowQuota
from autopilot_lab.sandbox.vastai.replies import Json, invalid_body, no_such_instance, not_authorized


class Consoles(Protocol):
    def console(self, instance_id: int) -> bytes: ...


@dataclass
class LogFile:
    text: str
    polls_until_ready: int


@dataclass
class Site:
    """The provider behind the endpoints."""

    market: SandboxMarket
    consoles: Consoles
    quota: RowQuota
    base_url: str = ""
    account_id: int = 123
    log_polls: int = 1
    list_lag_s: float = 0.0
    private_images: tuple[PrivateImage, ...] = ()
    log_files: dict[str, LogFile] = field(default_factory=dict)


@dataclass(frozen=True)
class Call:
    site: Site
    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Json
    scope: int | None
    """The only instance that the caller's key is good for; ``None``: the whole account."""
    fault: InjectedFault | None

    @property
    def market(self) -> SandboxMarket:
        return self.site.market

    def has_fault(self, kind: str) -> bool:
        return self.fault is not None and self.fault.kind == kind

    def instance(self) -> Contract:
        """The live instance that the path names. Raises ``Failure`` (404, or 403 out of scope)."""
        instance_id = self.instance_id()
        instance = self.market.instances.get(instance_id)
        if instance is None or instance.destroyed_at is not None:
            raise no_such_instance()
        return instance

    def instance_id(self) -> int:
        text = self.path["id"]
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise no_such_instance()
        if self.scope is not None and self.scope != int(text):
            raise not_authorized()
        return int(text)

    def json_query(self, name: str, default: str) -> object:
        """A query value that is JSON. Raises ``Failure`` (400)."""
        try:
            return json.loads(self.query.get(name, default))
        except ValueError:
            raise invalid_body() from None
