"""Commands that start or check something here: serve, listen, dial, doctor, version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot import __version__
from autopilot.cli import views
from autopilot.cli.exits import Exit
from autopilot.cli.output import FOR_PEOPLE, Output, console

Flag = Parameter(negative="")


def serve(
    *,
    config: Path | None = None,
    paper: Annotated[bool, Flag] = False,
    i_accept_unproven: Annotated[bool, Flag] = False,
    certify_only: Annotated[bool, Flag] = False,
    record: Path | None = None,
    new_ledger: Annotated[bool, Flag] = False,
    print_unit: Annotated[bool, Flag] = False,
) -> int:
    """Run the daemon until SIGTERM or Ctrl-C.

    Parameters
    ----------
    config
        A configuration file, read after the system's and your own.
    paper
        Real offers and prices, simulated machines: spends nothing, and uses a separate ledger and socket.
    i_accept_unproven
        Until the next version: rent on real markets without a certificate. Set limits.uncertified instead.
    certify_only
        Rent only for certifications; no job gets a machine. For the first autopilot certify on a real market.
    record
        Record every decision and its inputs in this new file, for autopilot backtest --replay.
    new_ledger
        Start a new ledger if the old one is missing or empty; this month's spend is forgotten.
    print_unit
        Print what starts your daemon at each login, for systemd --user or on macOS for launchd, and do not start it.
    """
    if print_unit:
        from autopilot.cli.login_item import tell_steps, write_unit
        from autopilot.config.paths import default_state_dir

        print(write_unit(str(default_state_dir() / "daemon.log")), end="", flush=True)
        print(tell_steps(), file=sys.stderr)
        return Exit.OK
    from autopilot.service.main import serve as run

    return run(config, i_accept_unproven, paper, record, certify_only=certify_only, new_ledger=new_ledger)


def listen(*, config: Path | None = None) -> int:
    """Serve storage to rented machines, and the API over TCP, in a separate process, until SIGTERM or Ctrl-C.

    For the service manager; a daemon with blobs.own_listener does this itself.

    Parameters
    ----------
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.service.main import listen as run

    return run(config)


def dial(*, config: Path | None = None) -> int:
    """Dial rented machines by SSH in a separate process, until SIGTERM or Ctrl-C.

    For the service manager, where storage goes over SSH; a daemon with blobs.own_listener does this itself.

    Parameters
    ----------
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.service.main import dial as run

    return run(config)


def doctor(*, config: Path | None = None, output: Output = FOR_PEOPLE) -> int:
    """Check settings, keys, markets, disk and storage, and show what to fix.

    Parameters
    ----------
    config
        A configuration file, read after the system's and your own.
    """
    from autopilot.service.doctor import run

    checks = [{"name": check.name, "ok": check.ok, "detail": check.detail, "hint": check.hint} for check in run(config)]
    if not output.is_for_people:
        output.print({"checks": checks}, "checks")
    else:
        console().print(views.check_list(checks))
    return Exit.FAILED if any(check["ok"] is False for check in checks) else Exit.OK


def version() -> int:
    """Print the version."""
    print(f"autopilot {__version__}")
    return Exit.OK
