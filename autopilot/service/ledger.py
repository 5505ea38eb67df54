"""``autopilot db``: what is asked of the ledger's database, and what is told of it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.engine.accounts import forget_account
from autopilot.ports.store import StoreUnavailable
from autopilot.service.identity import prepare_state_dir
from autopilot.store import care
from autopilot.store.health import examine
from autopilot.store.urls import mask_password
from autopilot.telemetry.logging import configure_logging


@dataclass(frozen=True, slots=True)
class LedgerChange:
    """``rows`` by table, where rows were copied; ``checks`` as ``doctor`` tells its own."""

    lines: Sequence[str] = ()
    rows: dict[str, int] = field(default_factory=dict)
    checks: list[dict[str, Any]] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        return {"checks": self.checks} if self.checks else {"done": list(self.lines), "rows": self.rows}


def run(
    action: str, config: Path | None, *, file: Path | None, to: str | None, market: str | None = None
) -> LedgerChange:
    """Raises ``UserError``."""
    settings = load_settings(config)
    configure_logging(settings.log.format, "warning", settings.secret_values())
    try:
        return asyncio.run(_run(action, settings, file, to, market))
    except StoreUnavailable as problem:
        raise UserError(str(problem), hint="run autopilot db check for details") from None


async def _run(action: str, settings: Settings, file: Path | None, to: str | None, market: str | None) -> LedgerChange:
    url = settings.ledger_url
    match action:
        case "check":
            found = await examine(url)
            return LedgerChange(
                checks=[{"name": f.name, "ok": f.ok, "detail": f.detail, "hint": f.hint} for f in found]
            )
        case "upgrade":
            prepare_state_dir(settings.state_dir)
            return LedgerChange([f"{mask_password(url)} is at revision {await care.upgrade(url)}"])
        case "backup" if file is not None:
            await care.back_up(url, file)
            return LedgerChange([f"{file} is a copy of {mask_password(url)}"])
        case "export" if file is not None:
            counts = await care.export(url, file)
            return LedgerChange([f"{sum(counts.values())} rows of {len(counts)} tables written to {file}"], counts)
        case "move" if to is not None:
            copied = await care.move(url, to)
            rows = {each.table: each.rows for each in copied}
            proof = [f"{each.table}: {each.rows} rows, {each.digest[:16]}" for each in copied]
            return LedgerChange([*proof, f"all read back the same; now set ledger.url to {mask_password(to)}"], rows)
        case "take-account" if market is not None:
            async with care.ledger_without_daemon(url) as store, store.transaction() as uow:
                was_known = await forget_account(uow, market)
            if not was_known:
                raise UserError(f"the ledger has no account of {market}", hint="there is nothing to do")
            return LedgerChange([f"the account that answers next is taken as that of {market}"])
    raise UserError(f"not an action: {action}", hint="see autopilot db --help")
