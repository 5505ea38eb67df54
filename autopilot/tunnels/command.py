"""The words of the system's ``ssh``: nothing of the user's own configuration, keys or agent reaches a machine."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from autopilot.domain.instance import SshAddress
from autopilot.openssh.options import HARDENED
from autopilot.ports.tunnels import Dialled, TunnelFault
from autopilot.tunnels.place import TunnelsPlace

UP = "autopilot-tunnel-up"
"""What the machine says once the login and the forward are there: a forward that fails ends the connection before."""
HOLD = f"echo {UP}; exec cat >/dev/null"
"""Run on the machine: it waits for the end of this connection, and ends with it."""
FREE = """\
import glob, os, signal, sys
want = "%04X" % int(sys.argv[1])
held = set()
for name in ("/proc/net/tcp", "/proc/net/tcp6"):
    try: rows = open(name).read().splitlines()[1:]
    except OSError: rows = []
    for row in rows:
        cells = row.split()
        if cells[1].endswith(":" + want) and cells[3] == "0A": held.add("socket:[" + cells[9] + "]")
said = "nobody"
for link in glob.glob("/proc/[0-9]*/fd/*"):
    try:
        if os.readlink(link) not in held: continue
        pid = link.split("/")[2]
        name = open("/proc/" + pid + "/comm").read().strip()
        said = "sshd" if name.startswith("sshd") else "other"
        if said == "sshd": os.kill(int(pid), signal.SIGTERM)
    except (OSError, ValueError): continue
print("port:" + said)
"""
"""Run on a machine whose port is held: by an older connection of ours, which the machine does not know to be dead, or
by another program, which is left alone."""
OPTIONS = {
    **HARDENED,
    "IdentitiesOnly": "yes",
    "IdentityAgent": "none",
    "PKCS11Provider": "none",
    "GlobalKnownHostsFile": "/dev/null",
    "StrictHostKeyChecking": "accept-new",
    "VerifyHostKeyDNS": "no",
    "CheckHostIP": "no",
    "CanonicalizeHostname": "no",
    "ProxyCommand": "none",
    "ProxyJump": "none",
    "ExitOnForwardFailure": "yes",
}
"""``ClearAllForwardings`` is not among them: it clears those of the command line as well."""
_SAID = (
    ("Host key verification failed", TunnelFault.HOST_KEY_CHANGED),
    ("HOST IDENTIFICATION HAS CHANGED", TunnelFault.HOST_KEY_CHANGED),
    ("Permission denied", TunnelFault.LOGIN_REFUSED),
    ("Too many authentication failures", TunnelFault.LOGIN_REFUSED),
    ("remote port forwarding failed", TunnelFault.FORWARDING_REFUSED),
)


@dataclass(frozen=True, slots=True)
class SshRoute:
    """One machine by one of its addresses."""

    address: SshAddress
    lease_id: str
    known_hosts: Path
    key: Path


def route_to(place: TunnelsPlace, machine: Dialled, address: SshAddress) -> SshRoute:
    """The machine's key is kept by start and by address: at another address another key may be shown, once."""
    text = f"{machine.generation} {address.host} {address.port}"
    name = f"{machine.lease_id}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    return SshRoute(address, machine.lease_id, place.hosts / name, place.key)


def ssh_words(route: SshRoute, remote: str, forward: tuple[int, str] | None = None) -> list[str]:
    """``forward``: the port of the machine's loopback, and HOST:PORT here that it leads to."""
    options = {
        **OPTIONS,
        "IdentityFile": str(route.key),
        "UserKnownHostsFile": str(route.known_hosts),
        "HostKeyAlias": route.lease_id,
    }
    words = ["ssh", "-F", "none", "-T"]
    words += [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    if forward is not None:
        words += ["-R", f"127.0.0.1:{forward[0]}:{forward[1]}"]
    return [*words, "-p", str(route.address.port), "-l", route.address.user, "--", route.address.host, remote]


def fault_of(said: str) -> TunnelFault:
    """What the words of an ``ssh`` that has ended mean. A machine may have said them itself: no more than its own
    connection depends on it."""
    return next((fault for words, fault in _SAID if words in said), TunnelFault.UNREACHABLE)
