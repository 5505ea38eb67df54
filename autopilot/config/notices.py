"""The settings of notices: sinks by name, and the address that is pinged."""

from __future__ import annotations

import re
from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt, field_validator, model_validator

from autopilot.config.keys import read_private
from autopilot.domain.errors import UserError
from autopilot.notices.kinds import BY_DEFAULT, NAMES
from autopilot.notices.mail import MailSecurity

SINK_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")
_KEYS_OF = {
    "webhook": {"url", "url_file", "secret_file"},
    "mail": {"host", "port", "security", "user", "password_file", "sender", "to"},
    "service": {"url_file"},
}
_NEEDED = {"webhook": ("secret_file",), "mail": ("host", "sender", "to"), "service": ("url_file",)}
_PORTS = {MailSecurity.TLS: 465, MailSecurity.STARTTLS: 587, MailSecurity.NONE: 25}

Location = Annotated[Path, AfterValidator(Path.expanduser)]


def check_url(url: str, *, local: bool) -> str:
    """Raises ``ValueError``."""
    parts = urlsplit(url)
    schemes = ("https", "http") if local else ("https",)
    if parts.scheme not in schemes or not parts.hostname or any(character.isspace() for character in url):
        also = "" if local else ", or set local = true for plain http in your own network"
        raise ValueError(f'not an https address (write it as "https://host/path"{also})')
    return url


def _check_mailbox(address: str) -> str:
    name, plain = parseaddr(address)
    if name or plain != address or address.count("@") != 1 or not address.isprintable() or " " in address:
        raise ValueError(f'not a mail address: {address!r} (write it as "me@example.org")')
    return address


def _check_mailboxes(addresses: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(_check_mailbox, addresses))


MailAddress = Annotated[str, AfterValidator(_check_mailbox)]
MailAddresses = Annotated[tuple[str, ...], AfterValidator(_check_mailboxes)]


class _WithUrl(BaseModel):
    """What is called at an address; where the address itself lets its bearer in, it lies in a file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    url: str | None = None
    url_file: Location | None = None
    local: bool = False

    def read_url(self) -> str:
        """Raises ``UserError``."""
        if self.url_file is None:
            assert self.url is not None, "one of them is set"
            return self.url
        return read_private(self.url_file)

    def _check_one_url(self) -> None:
        if (self.url is None) == (self.url_file is None):
            raise ValueError("needs either url or url_file")
        if self.url is not None:
            check_url(self.url, local=self.local)


class SinkSettings(_WithUrl):
    type: Annotated[str, Field(pattern=f"^({'|'.join(_KEYS_OF)})$")]
    kinds: frozenset[str] = BY_DEFAULT
    default: bool = True
    secret_file: Location | None = None
    host: str = ""
    port: PositiveInt | None = None
    security: MailSecurity = MailSecurity.TLS
    user: str = ""
    password_file: Location | None = None
    sender: MailAddress | None = None
    to: MailAddresses = ()

    @field_validator("kinds")
    @classmethod
    def _check_kinds(cls, kinds: frozenset[str]) -> frozenset[str]:
        unknown = sorted(kinds - set(NAMES))
        if unknown:
            raise ValueError(f'no notice is called "{unknown[0]}" (there are {", ".join(NAMES)})')
        return kinds

    @model_validator(mode="after")
    def _check_keys(self) -> Self:
        others = set().union(*_KEYS_OF.values()) - _KEYS_OF[self.type]
        if stranger := next((key for key in sorted(others) if key in self.model_fields_set), None):
            raise ValueError(f'{stranger} means nothing for type = "{self.type}"')
        if missing := next((key for key in _NEEDED[self.type] if not getattr(self, key)), None):
            raise ValueError(f'type = "{self.type}" needs {missing}')
        if self.type == "webhook":
            self._check_one_url()
        if self.security is MailSecurity.NONE and not self.local:
            raise ValueError("mail without TLS needs local = true: it is for a server in your own network")
        if bool(self.user) != (self.password_file is not None):
            raise ValueError("user and password_file belong together")
        return self

    @property
    def mail_port(self) -> int:
        return self.port or _PORTS[self.security]

    def secret_values(self) -> tuple[str, ...]:
        """What the log must not show of it. Raises ``UserError``."""
        files = (self.secret_file, self.password_file)
        words = [word for file in files if file is not None for word in read_private(file).split()]
        return (*words, *([self.read_url()] if self.type != "mail" else []))


class PingSettings(_WithUrl):
    every: PositiveInt = 20

    @model_validator(mode="after")
    def _check(self) -> Self:
        self._check_one_url()
        return self

    def read_checked_url(self) -> str:
        """Raises ``UserError``."""
        try:
            return check_url(self.read_url(), local=self.local)
        except ValueError as problem:
            raise UserError(f"notices.ping: {problem}") from None


class NoticesSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    sinks: dict[str, SinkSettings] = {}
    ping: PingSettings | None = None

    @field_validator("sinks")
    @classmethod
    def _check_names(cls, sinks: dict[str, SinkSettings]) -> dict[str, SinkSettings]:
        wrong = next((name for name in sinks if not SINK_NAME.fullmatch(name)), None)
        if wrong is not None:
            raise ValueError(f"not a sink's name: {wrong!r} (1 to 60 letters, digits, dashes or _)")
        return sinks

    def secret_values(self) -> tuple[str, ...]:
        """Raises ``UserError``."""
        pinged = [self.ping.read_url()] if self.ping is not None else []
        return (*pinged, *(value for sink in self.sinks.values() for value in sink.secret_values()))
