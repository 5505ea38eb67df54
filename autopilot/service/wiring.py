"""Joining the parts of a daemon from its settings, and taking them apart again in the right order."""

from __future__ import annotations

import asyncio
import contextlib
import grp
import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import aiohttp
import structlog
from aiohttp import web

from autopilot.agent.artifact import agent_key, agent_sha256, agent_source
from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.api.access import check_spec
from autopilot.api.app import create_app
from autopilot.api.certify import CertifyService
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService, ParseJob
from autopilot.api.tokens import TokenService
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.blobs.local import LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.config.secret_files import read_secret, registry_password
from autopilot.config.settings import PAPER_PREFIX, Settings
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.params import Params
from autopilot.domain.token import Token
from autopilot.engine.certification import CertifyRules
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.engine.history import Retention
from autopilot.engine.registry_logins import RegistryAccess
from autopilot.ids import UlidIds
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.notices.courier import Courier
from autopilot.notices.outbox import Announcer, AnnouncingStore
from autopilot.notices.ping import DeadManSwitch
from autopilot.policy.guard import Limits
from autopilot.ports.blobs import BlobStore, BlobUnavailable
from autopilot.ports.clock import Clock
from autopilot.ports.ids import Ids
from autopilot.ports.provider import Provider
from autopilot.ports.store import Store, StoreUnavailable
from autopilot.providers import registry
from autopilot.providers.paper.adapter import PaperProvider, PaperSettings
from autopilot.providers.paper.bootstrap import PaperBootstrap
from autopilot.service.certificates import certify_rules
from autopilot.service.crashes import note_beginning, note_end
from autopilot.service.identity import close_to_others, install_id, open_clock, prepare_state_dir, registry_key
from autopilot.service.leadership import (
    CREATE_TIMEOUT_REAL_S,
    FencedProvider,
    id_from_a_server,
    shared_install_id,
    stand_by,
)
from autopilot.service.listener import ListenerChild
from autopilot.service.notices import ON_PAPER, check_named, scrub_of, sinks_of, subscriptions_of, switch_of
from autopilot.service.recording import FileRecorder
from autopilot.store.leader import leading

log = structlog.get_logger(__name__)

SOCKET_GROUP = "autopilot"
LISTENER_WITHIN_S = 15.0
SOCKET_BACKLOG = 1024
"""Callers that may wait for the control socket at once; one more would be refused."""
_ANSWER_TIMEOUT = aiohttp.ClientTimeout(total=5)
MEND_DISK = "free some space, mend the file's owner or mode, or restore it from a backup"


@dataclass(frozen=True, slots=True)
class Daemon:
    settings: Settings
    engine: Engine
    clock: Clock
    wake: asyncio.Event
    """Set it and a tick runs at once."""
    lost: asyncio.Event
    """Set once another daemon has taken the ledger over: this one must end."""
    ping: DeadManSwitch | None = None


@asynccontextmanager
async def daemon(
    settings: Settings, record: Path | None = None, rules: CertifyRules | None = None
) -> AsyncIterator[Daemon]:
    """A daemon whose sockets answer and whose first tick has not run. Raises ``UserError``.

    On a ledger that another daemon leads this waits, as a standby, until its turn comes. ``record``: a new file for
    every decision with all that it saw. ``rules``: what is asked of the markets; None: of real ones a certificate.
    """
    prepare_state_dir(settings.state_dir)
    close_to_others(settings.mailbox_dir, 0o007)
    async with AsyncExitStack() as stack:
        try:
            joined = await _join(settings, record, rules or certify_rules(settings), stack)
        except BlobUnavailable as problem:
            hint = "autopilot doctor tries it out" if settings.blobs.url else MEND_DISK
            raise UserError(str(problem), hint=hint) from None
        except StoreUnavailable as problem:
            raise UserError(str(problem), hint=MEND_DISK) from None
        except OSError as problem:
            raise UserError(f"{problem.filename or settings.state_dir}: {problem.strerror}", hint=MEND_DISK) from None
        yield joined


async def _join(settings: Settings, record: Path | None, rules: CertifyRules, stack: AsyncExitStack) -> Daemon:
    """All parts, each closed by ``stack``."""
    lead = await stack.enter_async_context(leading(settings.ledger_url, on_standby=stand_by))
    clock, shared = open_clock(settings), lead.shared
    ids = UlidIds(clock)
    store = await _open_outbox(settings, lead.store, clock, ids, stack)
    await _check_markets_held(store, settings)
    providers = connect_markets(settings, clock)
    for provider in providers.values():
        stack.push_async_callback(provider.close)
    own_id = install_id(settings.state_dir)
    if shared is None:
        own_id = await id_from_a_server(store) or own_id
    else:
        own_id = await shared_install_id(store, own_id, shared.home)
        hold_s = CREATE_TIMEOUT_REAL_S if shared.is_takeover else 0.0
        providers = {
            name: FencedProvider(provider, store, hold_creates_real_s=hold_s) for name, provider in providers.items()
        }
    blobs = bucket(settings) if settings.blobs.url else await _open_mailbox(settings, shared is not None, stack)
    bootstrap = PaperBootstrap(blobs) if settings.is_on_paper else await AgentBootstrap.prepare(blobs, clock.speed)
    recorder = None
    if record is not None:
        recorder = FileRecorder(record)
        stack.callback(recorder.close)
    config = engine_config(settings, own_id, rules)
    unpacker = AgentUnpacker()
    registry = RegistryAccess(registry_password, registry_key(settings.state_dir))
    engine = Engine(config, providers, store, blobs, bootstrap, unpacker, clock, ids, read_secret, recorder, registry)
    wake = asyncio.Event()
    parse = _parser(settings)
    code = CodeService(store, blobs, unpacker, clock, ids, settings.state_dir / "receiving")
    jobs = JobService(engine, store, blobs, clock, ids, parse, change_spec, wake.set, code)
    certify = CertifyService(engine, store, clock, ids, wake.set)
    app = create_app(jobs, engine, store, clock, certify, TokenService(store, clock, wake.set))
    await _serve_api(settings.socket_path, app, shared is not None, stack)
    await _note_life(store, clock, stack)
    lost = shared.fence.lost if shared else asyncio.Event()
    return Daemon(settings, engine, clock, wake, lost, await _open_switch(settings, stack))


async def _open_outbox(settings: Settings, store: Store, clock: Clock, ids: Ids, stack: AsyncExitStack) -> Store:
    """``store``, whose events become notices, and a task that delivers them."""
    sinks, scrub = sinks_of(settings.notices), scrub_of(settings)
    courier = Courier(store, sinks, clock, ids, scrub)
    announcer = Announcer(
        subscriptions_of(settings.notices), ids, scrub, prefix=ON_PAPER if settings.is_on_paper else ""
    )
    await stack.enter_async_context(courier.delivering())
    return AnnouncingStore(store, announcer, courier.wake)


async def _open_switch(settings: Settings, stack: AsyncExitStack) -> DeadManSwitch | None:
    switch = switch_of(settings.notices)
    if switch is not None:
        pinging = asyncio.create_task(switch.run(), name="ping")
        stack.callback(pinging.cancel)
    return switch


async def _note_life(store: Store, clock: Clock, stack: AsyncExitStack) -> None:
    await note_beginning(store, clock)

    async def end(kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await note_end(store)

    stack.push_async_exit(end)


async def _check_markets_held(store: Store, settings: Settings) -> None:
    """A market on which we still rent cannot be left out: nobody would see, or end, what bills there."""
    async with store.snapshot() as uow:
        leases = [lease for job in await uow.jobs.list_open() for lease in job.leases] + list(
            await uow.leases.list_orphans()
        )
    missing = sorted({lease.provider for lease in leases if not lease.is_over} - settings.markets.keys())
    if missing:
        raise UserError(
            f"there are still machines on {', '.join(missing)}, which is not configured or not enabled",
            hint="enable it until they are released: autopilot cancel ends a job's machines",
        )


def connect_markets(settings: Settings, clock: Clock) -> dict[str, Provider]:
    """One provider per enabled market, on paper around the real one.

    Raises ``UserError``: no market, no SDK, no key, bad settings.
    """
    if not settings.markets:
        raise UserError("no market is configured", hint="autopilot init writes a configuration and stores your key")
    providers: dict[str, Provider] = {}
    for name, market in settings.markets.items():
        key = settings.key_for(name)
        options = market.options | ({"api_key": key.get_secret_value()} if key else {})
        if not settings.is_on_paper:
            providers[name] = registry.connect(name, options, clock)
            continue
        real = registry.connect(name.removeprefix(PAPER_PREFIX), options, clock)
        paper = PaperSettings(settings.state_dir / f"{name}.json", settings.paper.credit, settings.paper.set_up)
        providers[name] = PaperProvider(name, real, paper, clock)
    return providers


def engine_config(settings: Settings, own_id: str, rules: CertifyRules) -> EngineConfig:
    limits = settings.limits
    return EngineConfig(
        install_id=own_id,
        limits=Limits(
            day=limits.day,
            month=limits.month,
            max_hourly=limits.max_hourly,
            max_instances=limits.max_instances,
            launches_per_job_10min=limits.max_launches_per_job,
            launches_per_hour=limits.max_launches_per_hour,
        ),
        params=Params(),
        permit_ttl_s=round(settings.permit.ttl.total_seconds()),
        settle_delay=settings.ledger.settle_after,
        poll_intervals={
            name: timedelta(seconds=market.poll_interval_s)
            for name, market in settings.markets.items()
            if market.poll_interval_s is not None
        },
        retention=Retention(
            raw=timedelta(days=settings.history.raw_days),
            prices=timedelta(days=settings.history.keep_days),
            events=timedelta(days=settings.history.events_days),
        ),
        certify=rules,
    )


class AgentBootstrap:
    """Start commands that fetch the pinned agent from the blob store. URLs live as long as the store can sign."""

    def __init__(self, blobs: BlobStore, key: str, speed: float) -> None:
        self._blobs = blobs
        self._key = key
        self._speed = speed

    @classmethod
    async def prepare(cls, blobs: BlobStore, speed: float = 1) -> AgentBootstrap:
        """Puts this version's agent where machines can fetch it. ``speed``: of the clock by which they are to go."""
        key = agent_key()
        if await blobs.size(key) is None:
            await blobs.put(key, agent_source())
        return cls(blobs, key, speed)

    def onstart(self, job_id: str, lease_id: str) -> str:
        return onstart(
            self._blobs.sign_get(self._key, ORDERS_URL_VALID_FOR),
            agent_sha256(),
            self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR),
            self._speed,
        )


def bucket(settings: Settings) -> BucketBlobStore:
    """The bucket that is configured. Raises ``UserError``."""
    assert settings.blobs.url is not None, "asked for only when it is set"
    name, secret = settings.bucket_key()
    blobs = settings.blobs
    return BucketBlobStore(
        Bucket(settings.blobs.url, name, secret, blobs.endpoint, blobs.region, blobs.role, blobs.token_service)
    )


def _parser(settings: Settings) -> ParseJob:
    def parse(text: str, source: str, now: datetime, token: Token | None) -> JobSpec:
        spec = parse_job(text, source=source, now=now)
        check_spec(spec, token)
        for _, name in spec.secrets:
            read_secret(name)  # a job that names one that is not there would rent machines that cannot begin
        if spec.registry is not None:
            registry_password(spec.registry.secret, spec.registry.server)
        check_named(settings.notices.sinks, spec.notify)
        return spec

    return parse


async def _open_mailbox(settings: Settings, is_shared: bool, stack: AsyncExitStack) -> LocalBlobStore:
    """The local store. A listener serves it, a process of its own, under the port that it had before.

    A ledger of our own waits until the listener has its port, so that a wrong address is an error at once. On a shared
    one the daemon that led before may still hold it: ticks do not wait for that.
    """
    place = MailboxPlace(settings.mailbox_dir)
    _check_moved(MailboxPlace(settings.state_dir), place)
    key = place.read_or_make_key()
    host, _, port_text = settings.blobs.listen.rpartition(":")
    token = place.announce()
    child = ListenerChild(settings, place, token) if settings.blobs.own_listener else None
    if child is not None:
        await stack.enter_async_context(child.kept_running())
    port = int(port_text) or (place.port() if is_shared or child is None else None)
    try:
        async with asyncio.timeout(LISTENER_WITHIN_S):
            if child is not None and not is_shared:
                await child.serves.wait()
            while (port := port or place.port()) is None:  # noqa: ASYNC110 - another process writes it
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise UserError(
            f"the mailbox cannot listen on {settings.blobs.listen}", hint="set blobs.listen to a free address"
        ) from None
    return LocalBlobStore(place.objects, key, settings.blobs.public_url or f"http://{host}:{port}")


def _check_moved(old: MailboxPlace, place: MailboxPlace) -> None:
    """Raises ``UserError`` for a mailbox that was left in the state directory: its checkpoints would be forgotten."""
    if old.key_path.exists() and not place.key_path.exists():
        raise UserError(
            f"the mailbox lies in {old.root}, and blobs.dir says {place.root}",
            hint="move blobs, mailbox.key and mailbox-port there, for the group of daemon and listener",
        )


def _check_silent(path: Path) -> None:
    """Raises ``UserError`` when another daemon has the socket: it may have work."""
    with socket.socket(socket.AF_UNIX) as other, contextlib.suppress(OSError):
        other.settimeout(1)
        other.connect(str(path))
        raise UserError(
            f"another daemon answers at {path}", hint="stop it first, or set api.socket to a path of this one's own"
        )


def _make_room(path: Path) -> None:
    """Remove the socket of a daemon that is gone."""
    if not path.parent.exists():
        path.parent.mkdir(parents=True)
        path.parent.chmod(0o750)
    path.unlink(missing_ok=True)


async def _serve_api(path: Path, app: web.Application, is_shared: bool, stack: AsyncExitStack) -> None:
    """The control socket: 0660, of group ``autopilot`` where we are a member of it, in a directory of 0750.

    On a shared ledger the daemon that led before may still answer there, for as long as it takes to notice. Ticks do
    not wait for that.
    """
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    if not is_shared:
        _check_silent(path)
        await _open_socket(path, runner)
    elif await _answers(path):
        log.info("socket.awaited", path=str(path), reason="another daemon answers there")
        opening = asyncio.create_task(_open_in_turn(path, runner), name="control socket")
        stack.callback(opening.cancel)
    else:
        await _open_socket(path, runner)


async def _answers(path: Path) -> bool:
    """Whether a daemon works at the other end: one that was stopped accepts calls and answers none."""
    connector = aiohttp.UnixConnector(str(path))
    try:
        async with (
            aiohttp.ClientSession(connector=connector, timeout=_ANSWER_TIMEOUT) as http,
            http.get("http://localhost/v1/status"),
        ):
            return True
    except (aiohttp.ClientError, OSError, TimeoutError):
        return False


async def _open_in_turn(path: Path, runner: web.AppRunner) -> None:
    while await _answers(path):  # noqa: ASYNC110 - another process ends
        await asyncio.sleep(1)
    await _open_socket(path, runner)
    log.info("socket.opened", path=str(path))


async def _open_socket(path: Path, runner: web.AppRunner) -> None:
    """In the place of one where no daemon works any more. Raises ``UserError``."""
    _make_room(path)
    old_mask = os.umask(0o117)
    try:
        await web.UnixSite(runner, str(path), backlog=SOCKET_BACKLOG).start()
    except OSError as problem:
        raise UserError(
            f"the control socket {path} cannot be opened: {problem.strerror}", hint="set api.socket"
        ) from None
    finally:
        os.umask(old_mask)
    with contextlib.suppress(KeyError, PermissionError):
        os.chown(path, -1, grp.getgrnam(SOCKET_GROUP).gr_gid)
