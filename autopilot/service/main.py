"""``autopilot serve``: ticks until it is told to stop. APScheduler says when; the loop here does the work."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from datetime import UTC, timedelta
from pathlib import Path

import structlog
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from autopilot import __version__
from autopilot.blobs.place import MailboxPlace
from autopilot.clock import SystemClock
from autopilot.config.settings import Settings, load_settings
from autopilot.engine.certification import CertifyRules
from autopilot.listener.process import run_listener
from autopilot.planning.forecaster import FORECAST_EVERY_REAL_S
from autopilot.ports.store import StoreUnavailable
from autopilot.service.certificates import certify_rules, tell_rules
from autopilot.service.identity import check_ledger_kept
from autopilot.service.listener import listener_config
from autopilot.service.sd_notify import notify
from autopilot.service.wiring import Daemon, daemon
from autopilot.store.urls import mask_password
from autopilot.telemetry.logging import configure_logging
from autopilot.tunnels.place import TunnelsPlace
from autopilot.tunnels.process import run_tunnels

log = structlog.get_logger(__name__)

LOST = 1
"""The exit code when another daemon has taken over: the service manager restarts this one, as a standby."""
CREATE_GRACE_REAL_S = 90.0
"""How long a stop waits for calls on their way: a create that is cut off would cost a settle window."""


def serve(
    config: Path | None,
    accept_unproven: bool,
    paper: bool = False,
    record: Path | None = None,
    *,
    certify_only: bool = False,
    new_ledger: bool = False,
) -> int:
    """Run the daemon; returns the exit code. Raises ``UserError`` for what the user must mend before a start.

    ``accept_unproven``: rent on real markets without a certificate. ``certify_only``: rent for certifications alone.
    ``paper``: with simulated instances, which need no certificate and no address that machines can reach. ``record``: a
    new file for every decision with all that it saw. ``new_ledger``: begin one where the old one is missing or empty.
    """
    os.umask(0o077)  # files made from here on may hold secrets
    settings = load_settings(config)
    if paper:
        settings = settings.on_paper()
    configure_logging(settings.log.format, settings.log.level, settings.secret_values())
    if not paper:
        settings.check_mailbox()
    if not new_ledger:
        check_ledger_kept(settings)
    rules = certify_rules(settings, accept_unproven=accept_unproven, certify_only=certify_only)
    tell_rules(rules)
    if accept_unproven:
        log.warning(
            "certificates.skipped",
            consequence="real markets are rented from without a certificate and without a bound of its own",
            remedy="the next version no longer knows --i-accept-unproven: set limits.uncertified instead",
        )
    return asyncio.run(_serve(settings, record, rules))


def listen(config: Path | None) -> int:
    """Run the listener alone; returns the exit code, 0 at once where it has nothing to serve. Raises ``UserError``."""
    settings = load_settings(config)
    configure_logging(settings.log.format, settings.log.level)
    served = listener_config(settings, MailboxPlace(settings.mailbox_dir), None)
    if served.mailbox is None and served.api is None and served.proxy is None:
        log.info("listener.not_needed", mailbox=settings.blobs.url)
        return 0
    run_listener(served)
    return 0


def dial(config: Path | None) -> int:
    """Run the tunnels alone; returns the exit code, 0 at once where no machine is dialled. Raises ``UserError``."""
    settings = load_settings(config)
    configure_logging(settings.log.format, settings.log.level)
    if not settings.is_over_ssh:
        log.info("tunnels.not_needed", mailbox=settings.blobs.url or settings.blobs.public_url)
        return 0
    run_tunnels(TunnelsPlace(MailboxPlace(settings.mailbox_dir).tunnels))
    return 0


async def _serve(settings: Settings, record: Path | None, rules: CertifyRules) -> int:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(name, stopping.set)
    async with AsyncExitStack() as stack:
        running = await _unless(stopping, stack.enter_async_context(daemon(settings, record, rules)))
        if running is None:
            return 0
        scheduler = AsyncIOScheduler(
            timezone=UTC, job_defaults={"misfire_grace_time": None, "coalesce": True, "max_instances": 1}
        )

        async def wake() -> None:
            # A coroutine, because APScheduler runs plain functions in a thread, where an asyncio event may not be set.
            running.wake.set()

        scheduler.add_job(wake, "interval", seconds=settings.engine.tick_s / running.clock.speed, id="tick")
        scheduler.add_job(running.forecaster.renew, "interval", seconds=FORECAST_EVERY_REAL_S, id="forecast")
        scheduler.start()
        running.wake.set()
        log.info(
            "daemon.started",
            version=__version__,
            install_id=running.engine.config.install_id,
            markets=sorted(running.engine.watches),
            ledger=mask_password(settings.ledger_url),
            socket=str(settings.socket_path),
            speed=running.clock.speed,
        )
        notify("READY=1", f"STATUS=autopilot {__version__}")
        try:

            def wake_for_firing() -> None:
                in_real_s = running.real_s_to_firing()
                if in_real_s is not None:
                    at = SystemClock().now() + timedelta(seconds=in_real_s)
                    scheduler.add_job(wake, "date", run_date=at, id="firing", replace_existing=True)

            await _tick_until(stopping, running, 2 * settings.engine.tick_s / running.clock.speed, wake_for_firing)
        finally:
            notify("STOPPING=1")
            scheduler.shutdown(wait=False)
            log.info("daemon.stopping", calls_on_their_way=len(running.engine.calls.busy))
            await running.engine.calls.settle_for(CREATE_GRACE_REAL_S)
    log.info("daemon.stopped")
    return LOST if running.lost.is_set() else 0


async def _unless(stopping: asyncio.Event, starting: Coroutine[None, None, Daemon]) -> Daemon | None:
    """The daemon, once it leads; None when it was told to stop while it waited."""
    start, stop = asyncio.create_task(starting), asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({start, stop}, return_when=asyncio.FIRST_COMPLETED)
        if start.done():
            return start.result()
        start.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            return await start
        return None
    finally:
        stop.cancel()


async def _tick_until(
    stopping: asyncio.Event, running: Daemon, longest_s: float, after_tick: Callable[[], None]
) -> None:
    """A tick whenever it is woken, and after ``longest_s`` in any case: APScheduler goes by the wall clock, and waits
    for it to catch up once it was set back. ``after_tick``: is called after each."""
    stop, lost = asyncio.create_task(stopping.wait()), asyncio.create_task(running.lost.wait())
    while not (stopping.is_set() or running.lost.is_set()):
        wake = asyncio.create_task(running.wake.wait())
        await asyncio.wait({stop, lost, wake}, timeout=longest_s, return_when=asyncio.FIRST_COMPLETED)
        wake.cancel()
        if stopping.is_set() or running.lost.is_set():
            break
        running.wake.clear()
        await _tick(running)
        after_tick()
    stop.cancel()
    lost.cancel()
    if running.lost.is_set():
        log.error("daemon.superseded", consequence="another daemon leads this ledger; this one ends")


async def _tick(running: Daemon) -> None:
    """One tick. The watchdog is fed by a completed one only, so a daemon that cannot work is restarted."""
    has_ended, loop = False, asyncio.get_running_loop()
    began_at = loop.time()
    try:
        await running.engine.tick()
        has_ended = True
    except StoreUnavailable as problem:
        log.error("tick.failed", reason=str(problem), consequence="no creates until the database can be written")
        return
    except Exception:
        log.exception("tick.failed")
        return
    finally:
        running.metrics.note_tick(loop.time() - began_at, is_good=has_ended)
        if running.ping is not None:
            running.ping.note(is_good=has_ended and running.engine.has_read_all)
    notify("READY=1", "WATCHDOG=1")  # ready once more: the first time may have been lost
