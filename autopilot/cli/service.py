"""Commands that start or check something here: serve, doctor, sandbox, demo, version."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from autopilot.cli import views
from autopilot.cli.exits import Exit
from autopilot.cli.output import console, print_json

Flag = Parameter(negative="")


def serve(
    *,
    config: Path | None = None,
    paper: Annotated[bool, Flag] = False,
    i_accept_unproven: Annotated[bool, Flag] = False,
    record: Path | None = None,
) -> int:
    """Run the daemon until SIGTERM or Ctrl-C.

    Parameters
    ----------
    config
        A configuration file, read after the system's and the user's own.
    paper
        Real offers and prices, simulated machines: spends nothing, and has a ledger and a socket of its own.
    i_accept_unproven
        Rent on real markets, although this version has not been proven with real money.
    record
        Write every decision with all that it saw into this new file, for autopilot backtest --replay.
    """
    from autopilot.service.main import serve as run

    return run(config, i_accept_unproven, paper, record)


def doctor(*, config: Path | None = None, json: Annotated[bool, Flag] = False) -> int:
    """Check settings, keys, markets, disk and storage, and say what to mend.

    Parameters
    ----------
    config
        A configuration file, read after the system's and the user's own.
    json
        Print the checks as JSON.
    """
    from autopilot.service.doctor import run

    checks = [{"name": check.name, "ok": check.ok, "detail": check.detail, "hint": check.hint} for check in run(config)]
    if json:
        print_json({"checks": checks})
    else:
        console().print(views.check_list(checks))
    return Exit.FAILED if any(check["ok"] is False for check in checks) else Exit.OK


def sandbox(
    *,
    port: int = 0,
    seed: int = 1,
    speed: float = 1.0,
    churn: Annotated[bool, Flag] = False,
    state_dir: Path | None = None,
    port_file: Path | None = None,
) -> int:
    """Run a market of our own on this machine: it speaks a real market's language and costs nothing.

    Parameters
    ----------
    port
        Port on 127.0.0.1; 0 takes a free one.
    seed
        The same seed gives the same market.
    speed
        Market seconds per real second.
    churn
        Prices move and rivals come and go.
    state_dir
        Where rented machines keep their disks; a temporary directory when left out.
    port_file
        Write the port into this file once the market answers.
    """
    from autopilot.sandbox.__main__ import main

    argv = ["--port", str(port), "--seed", str(seed), "--speed", str(speed)]
    if churn:
        argv.append("--churn")
    if state_dir is not None:
        argv += ["--state-dir", str(state_dir)]
    if port_file is not None:
        argv += ["--port-file", str(port_file)]
    return main(argv)


def demo(
    *,
    keep: Annotated[bool, Flag] = False,
    seed: int = 1,
    plain: Annotated[bool, Flag] = False,
    picture: Path | None = None,
) -> int:
    """Watch a real job being bid for, outbid, moved, resumed and billed in the sandbox, in about a minute.

    Parameters
    ----------
    keep
        Leave the sandbox and the daemon running at the end.
    seed
        Another seed, another course of events.
    plain
        Plain lines in place of the live view; always so where there is no terminal.
    picture
        Also draw the end into this SVG file.
    """
    from autopilot.cli.demo.main import run

    return run(keep=keep, seed=seed, plain=plain or not sys.stdout.isatty(), picture=picture)


def version() -> int:
    """Print the version."""
    from importlib.metadata import version as installed

    print(f"autopilot {installed('gpu-autopilot')}")
    return Exit.OK
