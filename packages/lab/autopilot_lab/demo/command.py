"""``autopilot demo``: a job survives the sandbox market while you watch."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

Flag = Parameter(negative="")


def demo(
    *,
    all_markets: Annotated[bool, Flag] = False,
    keep: Annotated[bool, Flag] = False,
    seed: int = 1,
    plain: Annotated[bool, Flag] = False,
    picture: Path | None = None,
    job_picture: Path | None = None,
) -> int:
    """Watch a real job being outbid, moved, resumed and billed in the sandbox, in one to three minutes.

    Parameters
    ----------
    all_markets
        Another job, from vast.ai to Mithril to Nebius, in two to three minutes; needs the extra nebius.
    keep
        Leave the sandbox and the daemon running at the end.
    seed
        Another seed gives another sequence of events.
    plain
        Plain lines instead of the live view; always so without a terminal.
    picture
        Also draw the end into this SVG file.
    job_picture
        Also draw the job into this SVG file, as its page does.
    """
    from autopilot_lab.demo.main import run
    from autopilot_lab.demo.stories import STORIES

    return run(
        STORIES["all-markets" if all_markets else "two-markets"],
        keep=keep,
        seed=seed,
        plain=plain or not sys.stdout.isatty(),
        picture=picture,
        job_picture=job_picture,
    )
