"""``autopilot sandbox``: a local market that costs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Flag = Parameter(negative="")


def sandbox(
    *,
    port: int = 0,
    seed: int = 1,
    speed: float = 1.0,
    churn: Annotated[bool, Flag] = False,
    duds: float | None = None,
    state_dir: Path | None = None,
    port_file: Path | None = None,
) -> int:
    """Run a local market that implements a real market's API and costs nothing.

    Parameters
    ----------
    port
        Port on 127.0.0.1; 0 picks a free one.
    seed
        The same seed gives the same market.
    speed
        Market seconds per real second.
    churn
        Prices move and rivals come and go.
    duds
        Share of the hosts that never boot, on markets whose hosts differ; default: all are sound and alike.
    state_dir
        Where rented machines keep their disks; default: a temporary directory.
    port_file
        Write the port to this file once the market answers.
    """
    from autopilot_lab.sandbox.__main__ import main

    argv = ["--port", str(port), "--seed", str(seed), "--speed", str(speed)]
    if churn:
        argv.append("--churn")
    if duds is not None:
        argv += ["--duds", str(duds)]
    if state_dir is not None:
        argv += ["--state-dir", str(state_dir)]
    if port_file is not None:
        argv += ["--port-file", str(port_file)]
    return main(argv)
