"""``autopilot doctor``: everything that must be right before money is spent, checked from here, without the daemon."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import stat
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from autopilot.api.key_hint import replace_keys
from autopilot.blobs.listener import KEPT_FREE_BYTES
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.blobs.probe import NoPresigned, ProbeFailed, probe, probe_address
from autopilot.blobs.shares import SMALL_ROOM_BYTES, free_bytes
from autopilot.clock import SystemClock
from autopilot.config.paths import SYSTEM_SOCKET, client_socket, credential_dirs, system_state_dir
from autopilot.config.settings import PAPER_PREFIX, Settings, load_settings
from autopilot.domain.drift import Drift, DriftKey
from autopilot.domain.errors import UserError
from autopilot.domain.instance import AccountQuota
from autopilot.domain.money import show
from autopilot.domain.reported_time import CLOCK_TOLERANCE, ReportedTime, find_clock_error
from autopilot.domain.time import show_duration
from autopilot.engine.store_look import list_noted
from autopilot.markets.installed import facts_of
from autopilot.planning.asleep import SHORT, tell_permit
from autopilot.planning.card import advise, judge_card
from autopilot.planning.market_notes import tell_market
from autopilot.ports.blobs import BlobUnavailable
from autopilot.ports.provider import MarketUnknown, Provider, RefusalCode
from autopilot.ports.store import StoreUnavailable
from autopilot.service.certificates import examine_certificates
from autopilot.service.identity import prepare_state_dir
from autopilot.service.watched import read_watched
from autopilot.service.wiring import bucket, connect_markets
from autopilot.store.care import ledger_as_it_is
from autopilot.store.health import examine
from autopilot.telemetry.logging import configure_logging
from autopilot.tunnels.board import read_tunnels
from autopilot.tunnels.place import TunnelsPlace
from autopilot.words.certificates import tell_command
from autopilot.words.tunnels import tell_fault, tell_remedy

LOW_DISK_BYTES = 1 << 30
CHECKPOINTS_NEED_BYTES = KEPT_FREE_BYTES + SMALL_ROOM_BYTES
"""With less the local mailbox takes heartbeats, and no checkpoint."""
LOW_CREDIT = 5
DRIFT_LASTS = timedelta(days=7)
"""What no answer has shown for so long is over."""
MOST_NAMED = 3
MOST_COMPARED = 100
"""Open jobs, the newest."""


@dataclass(frozen=True, slots=True)
class Check:
    """``ok`` None: cannot be said, or only a warning."""

    name: str
    ok: bool | None
    detail: str
    hint: str = ""


def run(config: Path | None) -> list[Check]:
    """All checks, in the order in which their failures should be mended. Never raises for what it checks."""
    python = ".".join(map(str, sys.version_info[:3]))
    checks = [Check("python", (3, 11) <= sys.version_info < (3, 15), python, "use Python 3.11 to 3.14")]
    try:
        settings = load_settings(config)
        configure_logging(settings.log.format, "warning", settings.secret_values())
        settings.check_clock()
    except UserError as problem:
        return [*checks, Check("settings", False, problem.message, problem.hint)]
    checks.append(Check("settings", True, f"state in {settings.state_dir}"))
    checks += [_state_dir(settings), *_other_state(settings)]
    checks += [_ledger(settings), asyncio.run(check_mailbox(settings)), _daemon()]
    checks += asyncio.run(_markets(settings)) + asyncio.run(_certificates(settings))
    return checks + asyncio.run(check_watched(settings)) + asyncio.run(check_behind(settings))


async def check_behind(settings: Settings) -> list[Check]:
    """Whether the store has machines that the ledger does not know; nothing if it has not, or cannot be asked."""
    place = MailboxPlace(settings.mailbox_dir)
    try:
        blobs = bucket(settings) if settings.blobs.url else LocalBlobStore(place.objects, b"", "")
        async with ledger_as_it_is(settings.ledger_url) as uow:
            jobs = [job for job in await uow.jobs.list_open() if not job.is_array and job.array_id is None]
        # The store is listed before the ledger is read again: a lease is committed before it is noted.
        noted = {job.id: await list_noted(blobs, job.id) for job in jobs[-MOST_COMPARED:]}
        async with ledger_as_it_is(settings.ledger_url) as uow:
            known = {lease.id for lease in await uow.leases.list_by_jobs(list(noted))}
    except (UserError, StoreUnavailable, BlobUnavailable):
        return []  # the checks of ledger and mailbox have said it
    behind = [job.spec.name for job in jobs if noted.get(job.id, set()) - known]
    if not behind:
        return []
    more = f" and {len(behind) - MOST_NAMED} more" if len(behind) > MOST_NAMED else ""
    detail = f"it has machines of {', '.join(behind[:MOST_NAMED])}{more} that the ledger does not know"
    hint = f"the ledger was put back from an older copy: autopilot resume {behind[0]} --from-store"
    return [Check("store", False, detail, hint)]


async def _certificates(settings: Settings) -> list[Check]:
    try:
        found = await examine_certificates(settings)
    except UserError:
        return []  # the ledger's own check has said it
    return [
        Check(f"certificate of {market}", ok, detail, tell_command(market)) for market, (ok, detail) in found.items()
    ]


async def check_watched(settings: Settings) -> list[Check]:
    """The floors that are to be recorded at all times."""
    now = SystemClock().now()
    try:
        async with ledger_as_it_is(settings.ledger_url) as uow:
            found = [await read_watched(uow, gpu, now) for gpu in settings.history.watched]
    except (UserError, StoreUnavailable):
        return []  # the ledger's own check has said it
    hint = "does a market list it (autopilot offers --gpu), and does the daemon run?"
    return [
        Check(f"watch {each.gpu.name}:{each.gpu.count}", True if each.is_recorded(now) else None, each.tell(now), hint)
        for each in found
    ]


def _state_dir(settings: Settings) -> Check:
    try:
        prepare_state_dir(settings.state_dir)
    except UserError as problem:
        return Check("state directory", False, problem.message, problem.hint)
    free = shutil.disk_usage(settings.state_dir).free
    detail = f"{free / (1 << 30):.1f} GiB free"
    return Check("state directory", free >= LOW_DISK_BYTES, detail, "checkpoints need room: free some space")


def _other_state(settings: Settings) -> list[Check]:
    """Where the daemon is the system's, our own directory and ledger say nothing of it."""
    expected = system_state_dir()
    if client_socket() != SYSTEM_SOCKET or settings.state_dir.resolve() == expected.resolve():
        return []
    detail = (
        f"the system's daemon keeps its state in {expected}; {settings.state_dir} was checked, which is not its own"
    )
    hint = f"to check the daemon's: sudo env AUTOPILOT_STATE_DIR={expected} autopilot doctor"
    return [Check("whose state", None, detail, hint)]


def _ledger(settings: Settings) -> Check:
    """What is worst of all that can be checked without writing: the daemon may be writing at this moment."""
    try:
        found = asyncio.run(examine(settings.ledger_url))
    except UserError as problem:
        return Check("ledger", False, problem.message, problem.hint)
    worst = min(found, key=lambda finding: (finding.ok is not False, finding.ok is not None))
    is_first_start = worst.ok is None and len(found) == 1
    return Check("ledger", True if is_first_start else worst.ok, worst.detail, worst.hint)


async def check_mailbox(settings: Settings) -> Check:
    """Whether machines could reach it, and a bucket by trying it out."""
    if settings.blobs.url:
        return await _bucket(settings)
    if (full := _too_full(settings)) is not None:
        return full
    if settings.blobs.public_url:
        return await _address(settings)
    try:
        settings.check_mailbox()
    except UserError as problem:
        return Check("mailbox", False, problem.message, problem.hint)
    if settings.is_over_ssh:
        return check_tunnels(settings)
    return Check("mailbox", True, f"on {settings.blobs.listen}: enough for a market on this machine")


def check_tunnels(settings: Settings) -> Check:
    """Where the daemon dials its machines: the programs that it takes, and how those that it has are reached."""
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return Check("mailbox", False, "storage goes over SSH, and there is no ssh here", "install OpenSSH's client")
    line = f"{settings.params.traffic.home_mbps:f}".removesuffix(".0")
    assumed = "" if settings.blobs.home_mbps else ", assumed: set blobs.home_mbps"
    about = f"over SSH, {line} Mbit/s for what is stored here{assumed}"
    place, now = TunnelsPlace(MailboxPlace(settings.mailbox_dir).tunnels), SystemClock().now()
    try:
        states = read_tunnels(place, now, now - timedelta(hours=1))
    except OSError as problem:
        return Check("mailbox", None, f"{about}; the connections cannot be read as this user: {problem.strerror}")
    if not states:
        hint = "autopilot certify shows with the first machine whether its SSH server forwards; else set blobs.url"
        return Check("mailbox", None, f"{about}; no machine is dialled now, so that nothing is proved", hint)
    bad = [state.fault for state in states.values() if state.fault is not None]
    if not bad:
        return Check("mailbox", True, f"{about}; {len(states)} of {len(states)} machines are connected")
    faults = "; ".join(sorted({tell_fault(fault) for fault in bad}))
    return Check("mailbox", False, f"{about}; {len(bad)} of {len(states)} machines: {faults}", tell_remedy(bad[0]))


def _too_full(settings: Settings) -> Check | None:
    try:
        free = free_bytes(MailboxPlace(settings.mailbox_dir).objects)
    except FileNotFoundError:
        return None
    if free >= CHECKPOINTS_NEED_BYTES:
        return None
    need = f"{CHECKPOINTS_NEED_BYTES >> 20} MB must be free for those"
    return Check(
        "mailbox",
        False,
        f"{free >> 20} MB free in {settings.mailbox_dir}: it takes heartbeats and no checkpoints, {need}",
        "free some space, set blobs.dir to a directory on another disk, or blobs.url to a bucket",
    )


async def _address(settings: Settings) -> Check:
    url, place = str(settings.blobs.public_url), MailboxPlace(settings.mailbox_dir)
    if place.port() is None or not place.key_path.exists():
        hint = "start it, then run autopilot doctor again"
        return Check("mailbox", None, f"{url} can be tried once the daemon has run: its listener answers there", hint)
    try:
        settings.check_mailbox()
        store = LocalBlobStore(place.objects, place.read_key(), url)
        return Check("mailbox", True, f"{url}: {await probe_address(store)}")
    except UserError as problem:
        return Check("mailbox", False, problem.message, problem.hint)
    except OSError as problem:
        return Check("mailbox", None, f"{url} cannot be tried as this user: {problem.strerror}", "")
    except ProbeFailed as problem:
        hint = f"let {url} lead to {settings.blobs.listen.rpartition(':')[0]}:{place.port()}, and the daemon run"
        return Check("mailbox", False, f"{url}: {problem}", hint)


async def _bucket(settings: Settings) -> Check:
    url = str(settings.blobs.url)
    try:
        settings.check_mailbox()
        return Check("mailbox", True, f"{url}: {await probe(bucket(settings))}")
    except UserError as problem:
        return Check("mailbox", False, problem.message, problem.hint)
    except NoPresigned as problem:
        hint = "set blobs.url to a bucket of another service (autopilot init names some), or use blobs.public_url"
        return Check("mailbox", False, f"{url}: {problem}", hint)
    except ProbeFailed as problem:
        return Check("mailbox", False, f"{url}: {problem}", "check [blobs] and the rights of its key")


async def check_quotas(name: str, provider: Provider) -> Check | None:
    """What the market lets the account have. None: it tells of nothing."""
    what = f"quotas of {name}"
    try:
        quotas = await provider.quotas()
    except MarketUnknown as problem:
        return Check(what, None, str(problem), "machines are rented all the same, as far as they go")
    if not quotas:
        return None
    full = [tell_quota(quota) for quota in quotas if quota.is_used_up]
    if not full:
        return Check(what, True, "; ".join(map(tell_quota, quotas[:MOST_NAMED])))
    more = f" and {len(full) - MOST_NAMED} more" if len(full) > MOST_NAMED else ""
    detail = f"used up: {'; '.join(full[:MOST_NAMED])}{more}"
    return Check(what, None, detail, "free some of it, or ask the market to raise it: nothing new is rented there")


async def check_card(name: str, provider: Provider, settings: Settings) -> Check:
    """Whether the account's credit is a last fuse. Every real market gets this check, with any result."""
    what, market = f"card of {name}", name.removeprefix(PAPER_PREFIX)
    word, limits = settings.markets[name].tops_up, settings.limits
    try:
        account = await provider.account()
    except MarketUnknown as problem:
        return Check(what, None, str(problem), f"look at {market}'s billing page")
    ok, detail = judge_card(account, word, limits.day, limits.month)
    return Check(what, ok, detail, advise(market, account, word))


def tell_quota(quota: AccountQuota) -> str:
    """Like ``compute.instance.count 3 of 50 in eu-north1``."""
    used, limit = (_amount(number, quota.unit) for number in (quota.used, quota.limit))
    return f"{quota.name} {used} of {limit}" + (f" in {quota.place}" if quota.place else "")


def _amount(number: int | None, unit: str) -> str:
    if number is None:
        return "?"
    return f"{number / (1 << 30):.0f} GiB" if unit.startswith("byte") else str(number)


def _daemon() -> Check:
    found = client_socket()
    try:
        if stat.S_ISSOCK(found.stat().st_mode):
            return Check("daemon", True, f"its socket is {found}")
    except FileNotFoundError:
        pass
    except OSError:
        return Check(
            "daemon", None, f"{found} may not be looked at", "join its group: sudo usermod -aG autopilot $USER"
        )
    return Check("daemon", None, "not running", "start it: autopilot serve, or systemctl start autopilot")


async def _markets(settings: Settings) -> list[Check]:
    reported: list[ReportedTime | None] = []
    checks = [check async for check in _each_market(settings, reported)]
    if not checks:
        return [Check("markets", False, "no market is configured", "autopilot init stores a key")]
    # A clock that goes faster is compared with none: markets keep another time than it.
    return [*checks, check_clock(reported, SystemClock().now())] if settings.clock.speed == 1 else checks


def check_clock(reported: Sequence[ReportedTime | None], now: datetime) -> Check:
    """By what the markets' answers said of the time just now."""
    known = [each for each in reported if each is not None]
    if not known:
        return Check("clock", None, "no market has told the time", "see that it is kept right: timedatectl")
    error = find_clock_error(known, now)
    if error is not None:
        way = "slow" if error > timedelta(0) else "fast"
        hint = "set it (timedatectl shows it), then restart the daemon: it rents nothing until the two agree"
        return Check(
            "clock", False, f"{show_duration(abs(error))} {way}, as every market says that tells the time", hint
        )
    apart = [each for each in known if abs(each.ahead) > CLOCK_TOLERANCE]
    if apart:
        return Check(
            "clock", None, "the markets do not agree on the time: no evidence against ours", "compare it yourself"
        )
    return Check("clock", True, "right to within a minute, as the markets say")


async def _each_market(settings: Settings, reported: list[ReportedTime | None]) -> AsyncIterator[Check]:
    for name in settings.markets:
        try:
            provider = connect_markets(settings.only(name), SystemClock())[name]
        except UserError as problem:
            yield Check(name, False, problem.message, problem.hint)
            continue
        try:
            market = await _market(name, provider, _valid_key(name, settings))
            yield market
            if market.ok is not False and (quotas := await check_quotas(name, provider)) is not None:
                yield quotas
            if settings.permit.ttl > SHORT:
                is_proved = None if name in settings.bought else True
                told = tell_permit(settings.permit.ttl, provider.capabilities, is_proved)
                yield Check(f"permit of {name}", True, f"without the daemon a machine works on for {told}")
            if market.ok is not False and name in settings.bought:
                yield await check_card(name, provider, settings)
            yield await _answers(name, provider, settings)
            reported.append(provider.reported_time())
        finally:
            await provider.close()


async def _answers(name: str, provider: Provider, settings: Settings) -> Check:
    """What the two reads have shown, and what the daemon has seen lately."""
    since = SystemClock().now() - DRIFT_LASTS
    drifts: dict[DriftKey, Drift] = {}
    with contextlib.suppress(UserError, StoreUnavailable):
        async with ledger_as_it_is(settings.ledger_url) as uow:
            kept = await uow.drifts.list(provider=name.removeprefix(PAPER_PREFIX))
            drifts = {drift.key: drift for drift in kept}
    drifts |= {drift.key: drift for drift in provider.drifts()}
    recent = sorted(
        (drift for drift in drifts.values() if drift.last_seen_at >= since),
        key=lambda drift: (not drift.is_money, drift.key),
    )
    changed = [f"{drift.answer}: {drift.field} ({drift.kind})" for drift in recent if drift.is_read]
    others = len(recent) - len(changed)
    if not changed:
        but = f", but for {_fields(others)} not read" if others else ""
        return Check(f"{name} answers", True, f"as known{but}")
    more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
    has = "has" if len(changed) == 1 else "have"
    named = ", ".join(changed[:MOST_NAMED])
    detail = f"{_fields(len(changed))} read {has} changed: {named}{more}"
    return Check(f"{name} answers", None, detail, "autopilot drift shows how; look for a newer version")


def _fields(number: int) -> str:
    return "1 field that is" if number == 1 else f"{number} fields that are"


def _valid_key(name: str, settings: Settings) -> str:
    """How to replace a refused key: ``init`` does it only where ``init`` has stored it."""
    file = settings.markets[name].api_key_file
    if file is None or file.parent in credential_dirs():
        return replace_keys([name])
    return f"put a valid key into {file}: the daemon reads it at its next look"


def _hint_unanswered(name: str) -> str:
    facts = facts_of(name)
    if facts is not None and facts.is_own:
        return "log in there as the daemon's user: it must need neither a password nor an answer"
    return f"check the network and providers.{name}.base_url"


async def _market(name: str, provider: Provider, valid_key: str) -> Check:
    """Two reads, as the daemon makes them: the account and the list of instances."""
    try:
        credit = (await provider.account()).credit
        instances = await provider.instances()
    except MarketUnknown as problem:
        is_refused = problem.code is RefusalCode.NO_RIGHTS
        hint = valid_key if is_refused else _hint_unanswered(name)
        return Check(name, False, str(problem), hint)
    able = provider.capabilities
    kinds = " and ".join(kind for kind, has in (("spot", able.spot), ("on-demand", able.on_demand)) if has)
    stated = "not reported by this market" if credit is None else show(credit)
    if not able.spot:
        kinds += f" (no spot: {able.spot_note})" if able.spot_note else " (no spot)"
    detail = f"{kinds}; credit {stated}; {len(instances)} instances on the account"
    if notes := tell_market(able):
        detail += f"; {notes}"
    if credit is not None and credit < LOW_CREDIT:
        return Check(name, None, detail, "credit is low: pay in, or nothing will be rented")
    return Check(name, True, detail)
