"""What a job waits for, said each time that it changes, until there is something else to see of it."""

from __future__ import annotations

import re
import sys

from autopilot.answers.jobs import Job
from autopilot.words import reasons, text

STAGES = {
    "": "it has started, and its agent has not reported yet",
    "waiting": "it waits for its orders",
    "restoring": "it downloads the checkpoint",
    "setting_up": "it downloads code and inputs, and runs setup",
    "running": "the command runs",
    "saving": "it saves",
    "finished": "the command has ended",
    "expired": "it had no permit any more, and ends",
    "left": "it is released",
}
"""By what the agent reports, of a machine that runs."""
STATUSES = {
    "provisioning": "it loads the image and starts",
    "stopped": "it is stopped",
    "offline": "its host does not answer",
}
"""Of a machine that does not run."""
_NUMBERS = re.compile(r"[\d.,]+")


class StageLines:
    """Of one or several jobs. A line that differs in its numbers alone is not printed again."""

    def __init__(self) -> None:
        self._said: dict[str, str] = {}

    def tell(self, job: Job) -> None:
        """``job``: as the daemon shows it now."""
        line = tell_stage(job)
        if (kind := _NUMBERS.sub("#", line)) != self._said.get(job.id):
            self._said[job.id] = kind
            print(f"{text.plain(job.name)}: {line}", file=sys.stderr, flush=True)


def tell_stage(job: Job) -> str:
    """``vastai machine 4711: it loads the image and starts``; without a machine, why there is none yet."""
    main = job.main
    if main is None:
        state = text.words(job.status)
        why = reasons.brief(job) or (text.words(job.reason) if job.reason else "")
        return f"{state}: {why}" if why else state
    place = text.place({"provider": main.provider, "machine_id": main.machine_id})
    if main.state == "intent":
        return f"{place}: asked for"
    if (said := STATUSES.get(main.status)) is not None:
        cause = f" ({text.words(main.pause_cause)})" if main.pause_cause else ""
        return f"{place}: {said}{cause}"
    return f"{place}: {STAGES.get(main.agent_state, text.words(main.agent_state))}"
