"""Joining the parts of a daemon from its settings, and taking them apart again in the right order."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path

import structlog

from autopilot.agent.artifact import agent_key, agent_sha256, agent_source
from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.api import submissions
from autopilot.api.access import check_spec
from autopilot.api.app import Api
from autopilot.api.certify import CertifyService
from autopilot.api.code import CodeService
from autopilot.api.jobs import JobService
from autopilot.api.metrics import Metrics
from autopilot.api.page_sessions import PageSessions
from autopilot.api.proxied_users import ProxiedUsers
from autopilot.api.tokens import TokenService
from autopilot.api.uploads import Uploads
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.blobs.local import LocalBlobStore
from autopilot.config.job_changes import change_spec
from autopilot.config.job_file import parse_job
from autopilot.config.owners import read_owners
from autopilot.config.proxy import read_proxy
from autopilot.config.secret_files import read_secret, registry_password
from autopilot.config.settings import PAPER_PREFIX, Settings
from autopilot.domain.delegation import Settled
from autopilot.domain.errors import UserError
from autopilot.domain.job import JobSpec
from autopilot.domain.token import Token
from autopilot.engine.certification import CertifyRules
from autopilot.engine.engine import Engine, EngineConfig
from autopilot.engine.history import Retention
from autopilot.engine.registry_logins import RegistryAccess
from autopilot.host.artifact import host_key, host_sha256, host_source
from autopilot.host.user_data import user_data
from autopilot.ids import UlidIds
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.orders import ORDERS_URL_VALID_FOR
from autopilot.notices.courier import Courier
from autopilot.notices.outbox import Announcer, AnnouncingStore
from autopilot.notices.ping import DeadManSwitch
from autopilot.planning.forecaster import Forecaster
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
from autopilot.service.job_pictures import JobPictures
from autopilot.service.job_receipts import JobReceipts
from autopilot.service.leadership import (
    CREATE_TIMEOUT_REAL_S,
    FencedProvider,
    id_from_a_server,
    shared_install_id,
    stand_by,
)
from autopilot.service.market_keys import KeyedProvider
from autopilot.service.meeting_place import (
    has_listener,
    local_mailbox,
    mailbox_here,
    prepare_place,
    tell_page_sessions,
    tell_tokens,
)
from autopilot.service.notices import ON_PAPER, check_named, scrub_of, sinks_of, subscriptions_of, switch_of
from autopilot.service.output_secrets import read_market_key, read_output_secrets
from autopilot.service.page_address import PageAddress
from autopilot.service.recording import FileRecorder
from autopilot.service.sleep import keeping_awake
from autopilot.service.sockets import serve_listener, serve_users
from autopilot.service.tunnels import open_tunnels
from autopilot.store.leader import leading

log = structlog.get_logger(__name__)

MEND_DISK = "free some space, correct the file's owner or mode, or restore it from a backup"


@dataclass(frozen=True, slots=True)
class Daemon:
    settings: Settings
    engine: Engine
    clock: Clock
    wake: asyncio.Event
    """Set it and a tick runs at once."""
    lost: asyncio.Event
    """Set once another daemon has taken the ledger over: this one must end."""
    metrics: Metrics
    forecaster: Forecaster
    ping: DeadManSwitch | None = None

    def real_s_to_firing(self) -> float | None:
        """Real seconds until a schedule's next firing is due; None: none is."""
        due = self.engine.firings.next_due
        if due is None:
            return None
        return max((due - self.clock.now()).total_seconds(), 0.0) / self.clock.speed


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
    place, is_own_mailbox = await prepare_place(settings, is_shared=shared is not None, stack=stack)
    blobs = bucket(settings) if settings.blobs.url else local_mailbox(settings, place)
    bootstrap = PaperBootstrap(blobs) if settings.is_on_paper else await AgentBootstrap.prepare(blobs, clock.speed)
    recorder = None
    if record is not None:
        recorder = FileRecorder(record)
        stack.callback(recorder.close)
    users = read_owners(settings.owners, clock.now(), os.getuid())
    proxied = ProxiedUsers(read_proxy(settings.http.proxy), store, clock, users)
    await proxied.open()
    settled = Settled(tuple(users.values()), proxied.of_users())
    config = replace(engine_config(settings, own_id, rules), settled=settled)
    unpacker = AgentUnpacker()
    registry = RegistryAccess(registry_password, registry_key(settings.state_dir))
    outside = providers, store, blobs, bootstrap, unpacker, clock, ids
    tunnels = await open_tunnels(settings, place, stack)
    engine = Engine(config, *outside, read_secret, recorder, registry, is_own_mailbox, tunnels)
    if tunnels is not None:
        await stack.enter_async_context(keeping_awake(engine.has_machines))
    wake = asyncio.Event()
    parse = _parser(settings)
    for_clients = mailbox_here(settings, place) if tunnels is not None else blobs
    code = CodeService(store, for_clients, unpacker, clock, ids)
    jobs = JobService(
        engine,
        store,
        for_clients,
        clock,
        ids,
        parse,
        change_spec,
        wake.set,
        code,
        partial(read_output_secrets, settings),
    )
    certify = CertifyService(engine, store, clock, ids, wake.set, jobs.plans)
    uploads = Uploads(settings.state_dir / "receiving", place.receiving)
    tell = partial(tell_tokens, place) if settings.http.listen else None
    tokens = TokenService(store, clock, wake.set, tell, settled)
    await tokens.open(install_id(settings.state_dir) if shared is not None else "")
    is_own = not settings.blobs.public_url
    own_store = for_clients.base_url if isinstance(for_clients, LocalBlobStore) and is_own else ""
    metrics = Metrics(engine, store, clock)
    sessions = PageSessions(settings.state_dir / "page-logins.json", clock, partial(tell_page_sessions, place))
    find_page = PageAddress(settings, place).find
    api = Api(
        jobs, engine, store, clock, certify, tokens, uploads, metrics, sessions, find_page, own_store, settled, proxied
    )
    await serve_users(settings.socket_path, api.app(), is_shared=shared is not None, stack=stack)
    if settings.http.listen:
        await tokens.announce()
    if has_listener(settings):
        await serve_listener(place, api.app(is_listeners=True), stack)
        await sessions.open()
        stack.callback(sessions.close)
    await _note_life(store, clock, stack)
    lost = shared.fence.lost if shared else asyncio.Event()
    forecaster = Forecaster(engine, store, clock)
    return Daemon(settings, engine, clock, wake, lost, metrics, forecaster, await _open_switch(settings, stack))


async def _open_outbox(settings: Settings, store: Store, clock: Clock, ids: Ids, stack: AsyncExitStack) -> Store:
    """``store``, whose events become notices, and a task that delivers them."""
    pictures = JobPictures(store, clock, settings.params, limits_of(settings))
    sinks, scrub = sinks_of(settings.notices, pictures.draw), scrub_of(settings)
    courier = Courier(store, sinks, clock, ids, scrub, JobReceipts(store, clock).tell)
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
    """A market on which we still rent cannot be left out: its machines would bill unseen and without end."""
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
    for name in settings.markets:
        real = _open_market(settings, name.removeprefix(PAPER_PREFIX), name, clock)
        if not settings.is_on_paper:
            providers[name] = real
            continue
        paper = PaperSettings(settings.state_dir / f"{name}.json", settings.paper.credit, settings.paper.set_up)
        providers[name] = PaperProvider(name, real, paper, clock)
    return providers


def _open_market(settings: Settings, market: str, name: str, clock: Clock) -> Provider:
    """``name``: under which its settings stand. Raises ``UserError``."""
    options = settings.markets[name].options
    if settings.markets[name].api_key_file is None:
        return registry.connect(market, options, clock)

    return KeyedProvider(
        partial(read_market_key, settings, name),
        lambda key: registry.connect(market, options | {"api_key": key}, clock),
    )


def limits_of(settings: Settings) -> Limits:
    """The account's own."""
    limits = settings.limits
    return Limits(
        day=limits.day,
        month=limits.month,
        max_hourly=limits.max_hourly,
        max_instances=limits.max_instances,
        launches_per_job_10min=limits.max_launches_per_job,
        launches_per_hour=limits.max_launches_per_hour,
    )


def engine_config(settings: Settings, own_id: str, rules: CertifyRules) -> EngineConfig:
    return EngineConfig(
        install_id=own_id,
        limits=limits_of(settings),
        params=settings.params,
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
        watched=settings.history.watched,
    )


class AgentBootstrap:
    """Texts that fetch the pinned agent or host program. Their URLs live as long as the store can sign."""

    def __init__(self, blobs: BlobStore, speed: float) -> None:
        self._blobs = blobs
        self._speed = speed

    @classmethod
    async def prepare(cls, blobs: BlobStore, speed: float = 1) -> AgentBootstrap:
        """Puts this version's programs where machines can fetch them. ``speed``: of the clock they go by."""
        for key, source in ((agent_key(), agent_source()), (host_key(), host_source())):
            if await blobs.size(key) is None:
                await blobs.put(key, source)
        return cls(blobs, speed)

    def onstart(self, job_id: str, lease_id: str) -> str:
        return onstart(
            self._blobs.sign_get(agent_key(), ORDERS_URL_VALID_FOR),
            agent_sha256(),
            self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR),
            self._speed,
        )

    def host_script(self, job_id: str, lease_id: str, *, stays: bool) -> str:
        return user_data(
            self._blobs.sign_get(host_key(), ORDERS_URL_VALID_FOR),
            host_sha256(),
            self._blobs.sign_get(orders_key(job_id, lease_id), ORDERS_URL_VALID_FOR),
            self._speed,
            stays=stays,
        )


def bucket(settings: Settings) -> BucketBlobStore:
    """The bucket that is configured. Raises ``UserError``."""
    assert settings.blobs.url is not None, "asked for only when it is set"
    name, secret = settings.bucket_key()
    blobs = settings.blobs
    return BucketBlobStore(
        Bucket(settings.blobs.url, name, secret, blobs.endpoint, blobs.region, blobs.role, blobs.token_service)
    )


def _parser(settings: Settings) -> submissions.ParseJob:
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
