"""Where the daemon may call on a user's word: public addresses alone, unless the settings say that it is near.

The address of the connection itself is checked. A name may lead elsewhere the next moment.
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Any

_NAT64 = ip_network("64:ff9b::/96")

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]
"""As ``socket.getaddrinfo`` gives it."""


class AddressRefused(OSError):
    """A name leads to this machine or its network."""


def is_public(address: str) -> bool:
    """Whether the IP address is one of the internet's; False for what is no address."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    inner = _inner(ip)
    if inner is not None:
        return is_public(str(inner))
    special = ip.is_private or ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_reserved
    return ip.is_global and not special and not ip.is_unspecified


def _inner(ip: IPv4Address | IPv6Address) -> IPv4Address | None:
    """The IPv4 address that an IPv6 address represents."""
    if not isinstance(ip, IPv6Address):
        return None
    if ip in _NAT64:
        return IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)


def check_address(address: str, *, local: bool) -> None:
    """Raises ``AddressRefused``. ``local``: what is called may be on this machine or in its network."""
    if not local and not is_public(address):
        raise AddressRefused(f"{address} is an address of this machine or its network: set local = true if it is meant")


def socket_factory(*, local: bool) -> Callable[[Any], socket.socket]:
    """For aiohttp: makes the socket of each connection, once its address is known and may be called."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, address = info
        check_address(str(address[0]), local=local)
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made

    return make


def connect(host: str, port: int, timeout_s: float, *, local: bool) -> socket.socket:
    """A connection to the first address of ``host`` that may be called and answers. Raises ``OSError``."""
    problem: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            check_address(str(address[0]), local=local)
            made = socket.socket(family, kind, protocol)
        except OSError as refused:
            problem = refused
            continue
        try:
            made.settimeout(timeout_s)
            made.connect(address)
            return made
        except OSError as failed:
            made.close()
            problem = failed
    raise problem
