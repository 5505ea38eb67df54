"""What a daemon asks of its markets before it rents there: of real ones a certificate."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

import structlog

from autopilot import __version__
from autopilot.certify.claims import weighty
from autopilot.clock import SystemClock
from autopilot.config.settings import Settings
from autopilot.domain.certificate import (
    DELETE,
    MAY_BE_TRIED,
    NO_PROOF,
    OWN_KEY,
    Certificate,
    CertificateStatus,
    ClaimFinding,
    Lack,
    UseProof,
    judge_certificate,
    judge_use,
)
from autopilot.domain.money import ZERO, show
from autopilot.engine.certification import CertifyRules, find_end
from autopilot.markets.installed import claims_of
from autopilot.ports.store import StoreUnavailable, UnitOfWork
from autopilot.store.database import unopened_store
from autopilot.store.health import is_current
from autopilot.words.certificates import tell_command

log = structlog.get_logger(__name__)


def certify_rules(settings: Settings, *, accept_unproven: bool = False, certify_only: bool = False) -> CertifyRules:
    """``accept_unproven``: a certificate is not asked for. A claim that was found broken stops its market all the same,
    until it is accepted by name. Emulators, markets on paper and the user's own machines need nothing.
    """
    real = frozenset() if settings.is_on_paper else settings.bought
    needed = frozenset() if accept_unproven else real
    return CertifyRules(minor_version(), needed, real, certify_only, settings.limits.uncertified)


async def examine_certificates(settings: Settings) -> dict[str, tuple[bool | None, str]]:
    """By real market: whether its certificate is in force (None: not, or it ends soon), in words. Reads only.

    The account is not compared: only the daemon asks the market for it.
    """
    rules, now = certify_rules(settings), SystemClock().now()
    store = unopened_store(settings.ledger_url)
    issued: dict[str, Certificate] = {}
    found: dict[str, tuple[ClaimFinding, ...]] = {}
    spent: dict[str, Decimal] = {}
    try:
        if await is_current(store):
            async with store.snapshot() as uow:
                issued = {each.provider: each for each in await uow.certificates.list_newest()}
                found = {name: await uow.certificates.list_findings_on(name) for name in rules.needed_on}
                spent = {name: await _sum_uncertified(uow, name, issued.get(name), now) for name in rules.needed_on}
    except StoreUnavailable:
        pass  # the ledger's own check says so
    finally:
        await store.close()
    told: dict[str, tuple[bool | None, str]] = {}
    for market in sorted(rules.needed_on):
        held = issued.get(market)
        account = held.account if held else ""
        status = judge_certificate(held, found.get(market, ()), weighty(claims_of(market)), account, rules.version, now)
        proof = _judge_use(found.get(market, ()), rules.version, now)
        told[market] = _tell(status, now, _tell_allowance(status, rules.allowance, spent.get(market, ZERO), proof))
    return told


async def _sum_uncertified(uow: UnitOfWork, market: str, certificate: Certificate | None, now: datetime) -> Decimal:
    """Dollars posted for its machines since the certificate ended; ever, where there was none."""
    since = None if certificate is None else (await find_end(uow, certificate, now) or now)
    return (await uow.ledger.sum_market(market, since)).posted


def _judge_use(findings: tuple[ClaimFinding, ...], version: str, now: datetime) -> UseProof:
    """On the account on which the newest of it was seen: only the daemon asks the market for that."""
    used = [each for each in findings if each.used_on]
    ends = [end for end in (OWN_KEY, DELETE) if any(each.claim == end for each in used)]
    if not ends:
        return NO_PROOF
    return judge_use(findings, ends[0], used[-1].account, version, now)


def _tell_allowance(status: CertificateStatus, allowance: Decimal | None, spent: Decimal, proof: UseProof) -> str:
    if allowance is None or (status.lack or Lack.MISSING) not in MAY_BE_TRIED:
        return ""
    told = "one machine at a time" if proof.ends_at is None else f"proved by use until {proof.ends_at:%Y-%m-%d}"
    return f": {show(spent)} of the {show(allowance)} of limits.uncertified are spent, {told}"


def _tell(status: CertificateStatus, now: datetime, allowance: str) -> tuple[bool | None, str]:
    if status.broken:
        return False, f"claims that do not hold: {', '.join(status.broken)}"
    if status.lack is not None or status.certificate is None:
        return None, f"none valid ({(status.lack or Lack.MISSING).replace('_', ' ')}){allowance}"
    ends = f"valid until {status.certificate.ends_at:%Y-%m-%d}"
    return (None, f"{ends}, which is soon") if status.ends_soon(now) else (True, ends)


def minor_version() -> str:
    """As a certificate names it: the behaviour that it proves is that of every patch of this version."""
    return ".".join(__version__.split(".")[:2])


def tell_rules(rules: CertifyRules) -> None:
    """In the log, at the start."""
    if rules.only:
        log.warning(
            "certify.only", consequence="no job rents anything; autopilot certify MARKET starts a certification"
        )
    for market in sorted(rules.needed_on):
        allowance = rules.allowance
        without = "nothing new is rented there" if allowance is None else f"at most {show(allowance)} is spent there"
        log.info(
            "certificate.needed", provider=market, consequence=f"{without} without one", remedy=tell_command(market)
        )
