"""``[http]``: the API over TCP and to a proxy, which the listener serves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict

from autopilot.config.hosts import check_host_and_port, is_loopback, is_wildcard
from autopilot.config.proxy import ProxySettings
from autopilot.domain.errors import UserError


def _check_name(name: str) -> str:
    is_plain = name.isascii() and name.isprintable() and not set(name) & set(" /:@?#[]")
    if not name or not is_plain:
        raise ValueError(f'not the name of a host: {name!r} (write it as "autopilot.example.org", without port)')
    return name.lower()


Location = Annotated[Path, AfterValidator(Path.expanduser)]


class HttpSettings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    listen: Annotated[str, AfterValidator(check_host_and_port)] | None = None
    cert_file: Location | None = None
    key_file: Location | None = None
    names: tuple[Annotated[str, AfterValidator(_check_name)], ...] = ()
    proxy: ProxySettings = ProxySettings()

    @property
    def is_served(self) -> bool:
        """Whether the API is served beyond the unix socket: over TCP, or to a proxy."""
        return self.listen is not None or self.proxy.listen is not None

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; None: the API is not served over TCP."""
        if self.listen is None:
            return None
        host, _, port = self.listen.rpartition(":")
        return host.strip("[]"), int(port)

    def check(self) -> None:
        """Raises ``UserError`` for what would be open to others without TLS, or could be called by no name."""
        if (self.cert_file is None) != (self.key_file is None):
            raise UserError("http.cert_file and http.key_file go together", hint="set both, or neither")
        self.proxy.check()
        if self.address is None:
            return
        host, _ = self.address
        if not is_loopback(host) and self.cert_file is None:
            raise UserError(
                f"http.listen is {self.listen}, which other machines can reach: without TLS tokens could be read",
                hint="set http.cert_file and http.key_file, or listen on 127.0.0.1 behind a proxy that terminates TLS",
            )
        if is_wildcard(host) and not self.names:
            raise UserError(
                f"http.listen is {self.listen}, and http.names does not list the names clients use for this machine",
                hint='set http.names, for instance ["autopilot.example.org"]',
            )
