"""Mail over a real SMTP server: what arrives, over TLS or not, and a server that is hostile."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email import message_from_bytes, policy
from email.message import EmailMessage
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from autopilot.notices import mail
from autopilot.notices.mail import DrawJob, MailSecurity, MailServer, MailSink
from autopilot.notices.message import SinkFailed, message_of
from autopilot.ports.store import PendingNotice

NOW = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
TITLE, TEXT = "Job trän has failed", "It cost $4.20.\nNext: look."
NOTICE = PendingNotice("01N", "ops", "job_failed", NOW, None, None, TITLE, TEXT, NOW)


class Letters:
    def __init__(self, answer: str = "250 OK") -> None:
        self.taken: list[EmailMessage] = []
        self.answer = answer

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        letter = message_from_bytes(envelope.content, policy=policy.default)
        assert isinstance(letter, EmailMessage)
        self.taken.append(letter)
        return self.answer


@asynccontextmanager
async def a_mail_server(
    letters: Letters, tls_from_the_first_byte: ssl.SSLContext | None = None, **options: Any
) -> AsyncIterator[int]:
    server = await asyncio.get_running_loop().create_server(
        lambda: SMTP(letters, hostname="mail.example.org", **options), "127.0.0.1", 0, ssl=tls_from_the_first_byte
    )
    async with server:
        yield server.sockets[0].getsockname()[1]


def a_certificate(directory: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2020, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=40_000))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    certificate, key_file = directory / "certificate.pem", directory / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    key_file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return certificate, key_file


def a_sink(
    port: int, security: MailSecurity = MailSecurity.NONE, draw: DrawJob | None = None, **options: Any
) -> MailSink:
    server = MailServer("127.0.0.1", port, security, **({"local": True} | options))
    return MailSink(server, "autopilot@example.org", ("me@example.org", "you@example.org"), lambda: NOW, draw)


async def refusal(sink: MailSink) -> str:
    with pytest.raises(SinkFailed) as refused:
        await sink.send(message_of([NOTICE]))
    return str(refused.value)


async def test_a_notice_arrives_as_a_letter_with_its_id() -> None:
    letters = Letters()
    async with a_mail_server(letters) as port:
        await a_sink(port).send(message_of([NOTICE]))
    (letter,) = letters.taken
    assert letter["Message-ID"] == "<01N@autopilot>"
    assert letter["Subject"] == "[autopilot] Job trän has failed"
    assert letter["To"] == "me@example.org, you@example.org"
    assert letter.get_content().splitlines()[:2] == ["It cost $4.20.", "Next: look."]


async def test_a_server_that_refuses_is_a_failure() -> None:
    async with a_mail_server(Letters("451 later")) as port:
        assert "451" in await refusal(a_sink(port))
    assert "refused" in await refusal(a_sink(port))


async def test_a_mail_server_on_this_machine_is_called_only_where_the_settings_say_so() -> None:
    letters = Letters()
    async with a_mail_server(letters) as port:
        assert "local = true" in await refusal(a_sink(port, MailSecurity.TLS, local=False))
    assert letters.taken == []


@pytest.mark.parametrize("security", [MailSecurity.TLS, MailSecurity.STARTTLS])
async def test_the_password_goes_over_tls_alone_to_the_server_that_is_named(
    security: MailSecurity, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, key = a_certificate(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    logins: list[Any] = []

    def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
        assert isinstance(data, LoginPassword)
        logins.append((data.login, data.password))
        return AuthResult(success=True)

    options: dict[str, Any] = {"authenticator": check, "auth_required": True}
    options |= (
        {"tls_from_the_first_byte": context, "auth_require_tls": False}
        if security is MailSecurity.TLS
        else {"tls_context": context, "require_starttls": True}
    )
    letters = Letters()
    async with a_mail_server(letters, **options) as port:
        sink = a_sink(port, security, user="me", password="correct horse")
        with pytest.raises(SinkFailed, match="certificate"):
            await sink.send(message_of([NOTICE]))
        assert (letters.taken, logins) == ([], [])
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        await sink.send(message_of([NOTICE]))
    assert len(letters.taken) == 1
    assert logins == [(b"me", b"correct horse")]


@asynccontextmanager
async def a_dripping_server() -> AsyncIterator[tuple[int, asyncio.Event]]:
    """Says a line of its greeting now and then, and never ends it."""
    gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                writer.write(b"220-welcome\r\n")
                await writer.drain()
                await asyncio.sleep(0.01)
        except OSError:
            gone.set()
        finally:
            writer.close()

    server = await asyncio.start_server(drip, "127.0.0.1", 0, family=socket.AF_INET)
    yield server.sockets[0].getsockname()[1], gone
    server.close()


async def test_a_server_that_never_ends_its_greeting_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "WAIT_REAL_S", 0.2)
    async with a_dripping_server() as (port, gone):
        with pytest.raises(SinkFailed, match=r"within 0\.2 s"):
            await a_sink(port).send(message_of([NOTICE]))
        await gone.wait()
