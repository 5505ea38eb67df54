"""Options that hold for every ``ssh`` that is started here: no question, no password, nothing of ours lent to the other
end."""

from __future__ import annotations

from pathlib import Path

CONNECT_S = 20
ALIVE_EVERY_S, ALIVE_TIMES = 15, 3
"""A line that is dead is noticed within the product of both."""
HARDENED = {
    "PreferredAuthentications": "publickey",
    "PasswordAuthentication": "no",
    "KbdInteractiveAuthentication": "no",
    "HostbasedAuthentication": "no",
    "GSSAPIAuthentication": "no",
    "BatchMode": "yes",
    "UpdateHostKeys": "no",
    "ControlMaster": "no",
    "ControlPath": "none",
    "PermitLocalCommand": "no",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "Tunnel": "no",
    "GatewayPorts": "no",
    "RequestTTY": "no",
    "EscapeChar": "none",
    "Compression": "no",
    "ConnectTimeout": str(CONNECT_S),
    "ConnectionAttempts": "1",
    "ServerAliveInterval": str(ALIVE_EVERY_S),
    "ServerAliveCountMax": str(ALIVE_TIMES),
    "TCPKeepAlive": "yes",
    "LogLevel": "ERROR",
}
_OWN = {
    **HARDENED,
    "StrictHostKeyChecking": "yes",
    "ClearAllForwardings": "yes",
    "RemoteCommand": "none",
}


def call_own(host: str, command: str, config_file: Path | None) -> list[str]:
    """Words of an ``ssh`` to a computer of the user's own. Which key, which user and which way, the user's own
    configuration says (``config_file``, or the usual one); whom to believe, its ``known_hosts``."""
    words = ["ssh", "-T"]
    if config_file is not None:
        words += ["-F", str(config_file)]
    words += [word for name, value in _OWN.items() for word in ("-o", f"{name}={value}")]
    return [*words, "--", host, command]
