"""The sinks that the settings name, and a try of each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from autopilot.clock import SystemClock
from autopilot.config.keys import read_private
from autopilot.config.notices import NoticesSettings, SinkSettings, check_url
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.errors import UserError
from autopilot.ids import UlidIds
from autopilot.notices.mail import DrawJob, MailServer, MailSink
from autopilot.notices.message import Message, Sink, SinkFailed, message_of
from autopilot.notices.outbox import Subscription
from autopilot.notices.ping import DeadManSwitch
from autopilot.notices.services import ServiceSink
from autopilot.notices.webhook import WebhookSink, read_keys
from autopilot.ports.store import PendingNotice
from autopilot.telemetry.redaction import scrubber

ON_PAPER = "On paper: "


def wall_now() -> datetime:
    """The wall clock as it is at this moment: receivers compare a signature's time with theirs."""
    return SystemClock().now().astimezone(UTC)


def sinks_of(settings: NoticesSettings, draw: DrawJob | None = None) -> dict[str, Sink]:
    """``draw``: what draws a job for a letter. Raises ``UserError`` for a sink whose files, address or key cannot be
    used.
    """
    return {name: _sink(name, sink, draw) for name, sink in settings.sinks.items()}


def subscriptions_of(settings: NoticesSettings) -> dict[str, Subscription]:
    return {name: Subscription(sink.kinds, sink.default) for name, sink in settings.sinks.items()}


def scrub_of(settings: Settings) -> Callable[[str], str]:
    """Takes every secret that the settings lead to out of a text. Raises ``UserError``."""
    scrub = scrubber(settings.secret_values())
    return lambda text: str(scrub(text))


def switch_of(settings: NoticesSettings) -> DeadManSwitch | None:
    """Raises ``UserError``."""
    ping = settings.ping
    return None if ping is None else DeadManSwitch(ping.read_checked_url(), ping.every, local=ping.local)


def check_named(sinks: Mapping[str, object], names: Sequence[str] | None) -> None:
    """Raises ``UserError`` for a job that names a sink that is not there."""
    for name in names or ():
        if name not in sinks:
            known = ", ".join(sorted(sinks)) or "none"
            raise UserError(f"there is no sink named {name!r}", hint=f"the settings have these: {known}")


def _sink(name: str, sink: SinkSettings, draw: DrawJob | None) -> Sink:
    try:
        if sink.type == "mail":
            password = "" if sink.password_file is None else read_private(sink.password_file)
            server = MailServer(sink.host, sink.mail_port, sink.security, sink.user, password, sink.local)
            return MailSink(server, sink.sender or "", sink.to, wall_now, draw)
        if sink.type == "service":
            return ServiceSink(sink.read_url(), local=sink.local)
        assert sink.secret_file is not None, "a webhook has one"
        url = check_url(sink.read_url(), local=sink.local)
        return WebhookSink(url, read_keys(read_private(sink.secret_file)), wall_now, local=sink.local)
    except UserError as problem:
        raise UserError(f"notices.sinks.{name}: {problem.message}", hint=problem.hint) from None
    except ValueError as problem:
        raise UserError(f"notices.sinks.{name}: {problem}") from None


def try_sinks(config: Path | None, names: Sequence[str]) -> list[tuple[str, str, str]]:
    """Send each sink, or those named, a message. Returns (name, where it leads, why it failed or nothing).

    Raises ``UserError``.
    """
    settings = load_settings(config)
    sinks = sinks_of(settings.notices)
    if not sinks:
        raise UserError("no sink is configured", hint="add a table [notices.sinks.NAME] to the settings")
    check_named(sinks, names)
    scrub = scrub_of(settings)
    chosen = {name: sink for name, sink in sinks.items() if not names or name in names}
    return asyncio.run(_try_all(chosen, scrub))


async def _try_all(sinks: Mapping[str, Sink], scrub: Callable[[str], str]) -> list[tuple[str, str, str]]:
    now = wall_now()
    message_id = UlidIds(SystemClock()).new()

    async def try_one(name: str, sink: Sink) -> tuple[str, str, str]:
        try:
            await sink.send(_trial(message_id, name, now))
        except SinkFailed as problem:
            return name, sink.place, scrub(str(problem))
        return name, sink.place, ""

    return await asyncio.gather(*(try_one(name, sink) for name, sink in sinks.items()))


def _trial(message_id: str, sink: str, now: datetime) -> Message:
    text = f"A test by autopilot notify test. Notices for {sink} arrive here. No action is needed."
    return message_of([PendingNotice(message_id, sink, "test", now, None, None, "A test of notices", text, now)])
