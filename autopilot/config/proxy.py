"""``[http.proxy]``: the listener for a reverse proxy that has signed its users in, and what those may do."""

from __future__ import annotations

import hashlib
import pwd
import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from autopilot.config.hosts import check_host_and_port, is_loopback
from autopilot.config.keys import read_private
from autopilot.config.owners import MOST, OwnerSettings, read_bounds
from autopilot.domain.errors import UserError
from autopilot.domain.proxied import ProxiedUser, ProxyRules, is_proxied_name
from autopilot.domain.token import Scope

UNIX = "unix:"
SHORTEST_SECRET = 32
SECRET_HEADER = "Autopilot-Proxy-Secret"  # noqa: S105 - a header's name
_HEADER = re.compile(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", re.ASCII)
_TAKEN = re.compile(
    r"(Autopilot|Sec|Content|Accept|Access-Control|Transfer|Proxy)-.*"
    r"|Accept|Authorization|Cookie|Connection|Forwarded|Host|Idempotency-Key|Last-Event-ID|Origin|Referer|TE|Upgrade",
    re.ASCII | re.IGNORECASE,
)
"""Headers that mean something else."""


def _check_listen(listen: str) -> str:
    if not listen.startswith(UNIX):
        return check_host_and_port(listen)
    if not listen.removeprefix(UNIX).startswith("/"):
        raise ValueError(f'not the path of a socket: {listen!r} (write it as "unix:/run/autopilot-proxy/http.sock")')
    return listen


def _check_header(name: str) -> str:
    if len(name) > 60 or not _HEADER.fullmatch(name) or _TAKEN.fullmatch(name):
        raise ValueError(f'not the header of a proxy\'s user: {name!r} (write it as "Remote-User")')
    return name


class ProxyUserSettings(OwnerSettings):
    owner: str | None = None


class ProxyOthersSettings(OwnerSettings):
    scope: Scope = Scope.READ


class ProxySettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Annotated[str, AfterValidator(_check_listen)] | None = None
    user_header: Annotated[str, AfterValidator(_check_header)] = "Remote-User"
    secret_file: Annotated[Path, AfterValidator(Path.expanduser)] | None = None
    users: dict[str, ProxyUserSettings] = {}
    others: ProxyOthersSettings | None = None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port, where it listens on TCP."""
        if self.listen is None or self.socket is not None:
            return None
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    @property
    def socket(self) -> Path | None:
        """The unix socket, where it listens on one."""
        if self.listen is None or not self.listen.startswith(UNIX):
            return None
        return Path(self.listen.removeprefix(UNIX))

    def check(self) -> None:
        """Raises ``UserError`` for a listener on which callers could claim any name, or that admits no user."""
        if self.listen is None:
            return
        if self.address is not None and not is_loopback(self.address[0]):
            raise UserError(
                f"http.proxy.listen is {self.listen}, which other machines can reach",
                hint="run the proxy on this machine, and listen on 127.0.0.1 or a unix socket",
            )
        if self.address is not None and self.secret_file is None:
            raise UserError(
                f"http.proxy.listen is {self.listen}, and every user of this machine could claim to be the proxy",
                hint=f"set http.proxy.secret_file, and have the proxy send its text as {SECRET_HEADER}",
            )
        if not self.users and self.others is None:
            raise UserError(
                "http.proxy.listen is set, and no users are listed",
                hint='add [http.proxy.users."NAME"], or [http.proxy.others] for every name',
            )

    def read_secret(self) -> str:
        """What the proxy has to send along; empty: nothing. Raises ``UserError``."""
        if self.secret_file is None:
            return ""
        secret, shortest = read_private(self.secret_file), SHORTEST_SECRET
        if len(secret) < shortest or not secret.isascii() or not secret.isprintable() or " " in secret:
            raise UserError(
                f"{self.secret_file} does not contain a secret: one word of at least {shortest} characters",
                hint=f"openssl rand -hex 32 > {self.secret_file}",
            )
        return secret


def read_proxy(settings: ProxySettings) -> ProxyRules:
    """Raises ``UserError`` for users who cannot be admitted like that."""
    if len(settings.users) > MOST:
        raise UserError(f"[http.proxy.users] has {len(settings.users)} users, and {MOST} is the limit")
    users = {name: _read(name, said) for name, said in settings.users.items()}
    others = settings.others
    if others is not None and others.scope is Scope.ADMIN:
        raise UserError(
            "http.proxy.others: everyone the proxy lets in would be an admin",
            hint="name the admins in [http.proxy.users]",
        )
    secret = settings.read_secret() if settings.listen is not None else ""
    return ProxyRules(
        users,
        None if others is None else read_bounds("http.proxy.others", others),
        settings.listen is not None,
        hashlib.sha256(secret.encode()).hexdigest() if secret else "",
    )


def _read(name: str, said: ProxyUserSettings) -> ProxiedUser:
    place = f"http.proxy.users.{name[:120]!r}"
    if not is_proxied_name(name):
        hint = "1 to 100 printable characters as in a user's name or a mail address"
        raise UserError(f"{place}: not a valid name for a user of a proxy", hint=hint)
    bounds = read_bounds(place, said)
    if said.owner is None:
        return ProxiedUser(bounds)
    if said.allow is not None:
        raise UserError(
            f"{place}: its jobs are {said.owner}'s, whose allowance is not set here",
            hint=f"set allow in [owners.{said.owner}], or omit owner",
        )
    try:
        return ProxiedUser(bounds, pwd.getpwnam(said.owner).pw_uid)
    except (KeyError, ValueError):
        hint = "name a user of this machine, or leave owner out: then the jobs are the proxy's user's own"
        raise UserError(f"{place}: this machine has no user {said.owner!r}", hint=hint) from None
