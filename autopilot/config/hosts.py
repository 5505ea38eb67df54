"""What an address of a host says by itself. Standard library only."""

from __future__ import annotations

from ipaddress import ip_address


def check_host_and_port(listen: str) -> str:
    """Raises ``ValueError``."""
    host, _, port = listen.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise ValueError(f'not a host and port: {listen!r} (write it as "127.0.0.1:0")')
    return listen


def is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False
