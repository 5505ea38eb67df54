"""``GET /v1/drift``: how the markets' answers differ from what their adapters were written for."""

from __future__ import annotations

from dataclasses import asdict

from autopilot.answers.models.account import DriftQuery
from autopilot.ports.store import Store
from autopilot.render import Json, plain


async def drift(store: Store, query: DriftQuery) -> Json:
    """``provider``: one market only."""
    async with store.snapshot() as uow:
        drifts = await uow.drifts.list(provider=query.provider)
    return {"drifts": [{name: plain(value) for name, value in asdict(each).items()} for each in drifts]}
