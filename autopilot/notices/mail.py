"""Mail by SMTP, over TLS unless the server is near."""

from __future__ import annotations

import asyncio
import contextlib
import smtplib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime
from email.message import EmailMessage
from email.utils import format_datetime
from enum import StrEnum
from typing import Any

import structlog

from autopilot.addresses import connect
from autopilot.notices.message import Message, SinkFailed

log = structlog.get_logger(__name__)

WAIT_REAL_S = 30.0
DRAWN_WITHIN_REAL_S = 15.0
MOST_PICTURES = 3
"""In one letter."""
LARGEST_PICTURE = 1_000_000
STEP_REAL_S = 15.0

DrawJob = Callable[[str], Awaitable[str | None]]
"""The picture of a job as SVG, by its id; None if there is no such job."""


class MailSecurity(StrEnum):
    TLS = "tls"
    STARTTLS = "starttls"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    security: MailSecurity
    user: str = ""
    password: str = ""
    local: bool = False


class MailSink:
    def __init__(
        self,
        server: MailServer,
        sender: str,
        recipients: tuple[str, ...],
        wall_now: Callable[[], datetime],
        draw: DrawJob | None = None,
    ) -> None:
        """``draw``: None: letters have no pictures."""
        self._server = server
        self._sender = sender
        self._recipients = recipients
        self._wall_now = wall_now
        self._draw = draw

    @property
    def place(self) -> str:
        return f"mail to {', '.join(self._recipients)} by {self._server.host}"

    async def send(self, message: Message) -> None:
        """In a thread, whose connection is cut at the timeout, in any state."""
        line, letter = _Line(), self._letter(message)
        await self._add_pictures(letter, message)
        try:
            async with asyncio.timeout(WAIT_REAL_S):
                await asyncio.to_thread(_deliver, self._server, letter, line)
        except TimeoutError:
            raise SinkFailed(f"no answer within {WAIT_REAL_S:g} s") from None
        except smtplib.SMTPResponseException as problem:
            raise SinkFailed(f"it answered {problem.smtp_code}") from None
        except smtplib.SMTPRecipientsRefused:
            raise SinkFailed("it refused every recipient") from None
        except (OSError, ValueError) as problem:  # smtplib's own are OSErrors
            raise SinkFailed(str(problem) or type(problem).__name__) from None
        finally:
            line.cut()

    def _letter(self, message: Message) -> EmailMessage:
        letter = EmailMessage()
        letter["From"] = self._sender
        letter["To"] = ", ".join(self._recipients)
        letter["Subject"] = f"[autopilot] {message.title}"
        letter["Date"] = format_datetime(self._wall_now())
        letter["Message-ID"] = f"<{message.id}@autopilot>"
        letter["Auto-Submitted"] = "auto-generated"
        letter.set_content(message.text)
        return letter

    async def _add_pictures(self, letter: EmailMessage, message: Message) -> None:
        """Of the jobs that it is about. A letter that was not taken goes without: servers may refuse such a file, and
        what cannot be drawn keeps no notice back.
        """
        if self._draw is None or message.notices[0].attempts:
            return
        jobs = dict.fromkeys(notice.job_id for notice in message.notices if notice.job_id)
        for job_id in list(jobs)[:MOST_PICTURES]:
            try:
                async with asyncio.timeout(DRAWN_WITHIN_REAL_S):
                    drawn = await self._draw(job_id)
            except Exception as problem:
                log.warning("notice.without_picture", job_id=job_id, reason=type(problem).__name__)
                continue
            if drawn is not None and len(drawn) <= LARGEST_PICTURE:
                name = f"{job_id}.svg"
                letter.add_attachment(
                    drawn.encode(), "image", "svg+xml", disposition="inline", filename=name, cid=f"<{name}@autopilot>"
                )


class _Line:
    """The connection of one delivery, so that another thread can cut it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: socket.socket | None = None
        self._is_cut = False

    def hold(self, connected: socket.socket) -> None:
        # A duplicate: TLS takes the original over, and the connection that both share is shut down.
        with self._lock:
            self._held = connected.dup()
            is_late = self._is_cut
        if is_late:
            self.cut()

    def cut(self) -> None:
        with self._lock:
            self._is_cut = True
            held, self._held = self._held, None
        if held is not None:
            with contextlib.suppress(OSError):
                held.shutdown(socket.SHUT_RDWR)
            held.close()


def _deliver(server: MailServer, letter: EmailMessage, line: _Line) -> None:
    context = ssl.create_default_context()

    def open_line(host: str, port: int, timeout_s: Any) -> socket.socket:
        connected = connect(host, port, STEP_REAL_S, local=server.local)
        line.hold(connected)
        return connected

    class Plain(smtplib.SMTP):
        def _get_socket(self, host: str, port: int, timeout: Any) -> socket.socket:
            return open_line(host, port, timeout)

    class Encrypted(smtplib.SMTP_SSL):
        def _get_socket(self, host: str, port: int, timeout: Any) -> socket.socket:
            return context.wrap_socket(open_line(host, port, timeout), server_hostname=host)

    kind = Encrypted if server.security is MailSecurity.TLS else Plain
    with kind(server.host, server.port, local_hostname="autopilot", timeout=STEP_REAL_S) as smtp:
        if server.security is MailSecurity.STARTTLS:
            smtp.starttls(context=context)
        if server.user:
            smtp.login(server.user, server.password)
        smtp.send_message(letter)
