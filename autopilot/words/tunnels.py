"""What is wrong with a connection to a machine that is dialled, and what can be done."""

from __future__ import annotations

from collections.abc import Mapping

_A_BUCKET = "a bucket needs no connection from here: blobs.url"
FAULTS: Mapping[str, tuple[str, str]] = {
    "unreachable": ("no answer at its addresses", "the daemon keeps dialling"),
    "login_refused": (
        "it refuses the daemon's key",
        f"the daemon attaches the key again every two minutes; if that does not help, {_A_BUCKET}",
    ),
    "host_key_changed": (
        "another host key answers than at its start: nothing is sent there",
        "if you have not changed the machine yourself, somebody else answers in its place: end the job",
    ),
    "forwarding_refused": ("its SSH server does not forward", _A_BUCKET),
    "port_taken": (
        "another program on the machine holds the port of the mailbox",
        f"end what listens on ports 28470 and 28471 there; {_A_BUCKET}",
    ),
    "no_ssh": ("there is no ssh on this machine", "install OpenSSH's client"),
    "no_process": (
        "the process that dials does not run",
        "look at its log; under systemd: systemctl status autopilot-tunnels",
    ),
}
"""By fault: what is seen, and who does what next."""


def tell_fault(fault: object) -> str:
    return FAULTS[str(fault)][0] if str(fault) in FAULTS else str(fault or "not known why").replace("_", " ")


def tell_remedy(fault: object) -> str:
    return FAULTS[str(fault)][1] if str(fault) in FAULTS else "the daemon keeps dialling"
