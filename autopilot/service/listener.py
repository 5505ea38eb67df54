"""The listener as a child of the daemon."""

from __future__ import annotations

from pathlib import Path

from autopilot.blobs.place import API, MAILBOX, PROXY, STARTED, MailboxPlace
from autopilot.config.settings import Settings
from autopilot.listener.api_port import ApiConfig
from autopilot.listener.process import ListenerConfig
from autopilot.listener.proxy_port import ProxyConfig
from autopilot.service.child import ChildProcess


def listener_config(settings: Settings, place: MailboxPlace, token: str | None) -> ListenerConfig:
    host, _, port = settings.blobs.listen.rpartition(":")
    mailbox = None if settings.blobs.url else (host, int(port))
    http, api = settings.http, None
    if http.address is not None:
        api = ApiConfig(*http.address, http.names, http.cert_file, http.key_file)
    proxy, door = None, http.proxy
    if (at := door.socket or door.address) is not None:
        proxy = ProxyConfig(at, door.user_header, http.names, has_secret=door.secret_file is not None)
    return ListenerConfig(place, mailbox, api, proxy, token)


def _of_ports(config: ListenerConfig) -> list[str]:
    arguments = []
    if config.mailbox is not None:
        host, port = config.mailbox
        arguments += ["--mailbox", host, str(port)]
    names = [name for each in (config.api, config.proxy) if each is not None for name in each.names]
    arguments += [word for name in dict.fromkeys(names) for word in ("--name", name)]
    if (proxy := config.proxy) is not None:
        at = [str(proxy.at)] if isinstance(proxy.at, Path) else [proxy.at[0], str(proxy.at[1])]
        arguments += ["--proxy", *at, "--user-header", proxy.user_header]
        arguments += ["--proxy-has-secret"] if proxy.has_secret else []
    if (api := config.api) is not None:
        arguments += ["--api", api.host, str(api.port)]
        for option, path in (("--cert", api.cert_file), ("--key", api.key_file)):
            arguments += [] if path is None else [option, str(path)]
    return arguments


class ListenerChild(ChildProcess):
    """``serves`` a port once it has taken it for the first time; ``STARTED``: once its process is up."""

    def __init__(self, settings: Settings, place: MailboxPlace, token: str) -> None:
        config = listener_config(settings, place, token)
        arguments = [*("--place", str(place.root), "--token", token), *_of_ports(config)]
        arguments += ["--log-format", settings.log.format, "--log-level", settings.log.level]
        super().__init__("listener", "autopilot.listener", arguments, (STARTED, MAILBOX, API, PROXY))
