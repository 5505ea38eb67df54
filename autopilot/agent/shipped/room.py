"""The directory in which agent and job leave each other files. The job may write beneath ``home`` only."""

from __future__ import annotations

import os
import re
import sys
import zipfile

from .disk import clear, read_start

HELPER = "helper/"
RUN_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Room:
    def __init__(self, agent_home: str) -> None:
        self.directory = agent_home + "-job"
        self.home = os.path.join(self.directory, "home")
        self.progress = os.path.join(self.home, "progress.json")
        self.run_named = os.path.join(self.home, "mlflow-run")
        self.run_restored = os.path.join(self.directory, "mlflow-run")
        self.save_request = os.path.join(self.directory, "save-request")
        self.helper = os.path.join(self.directory, "helper")
        os.makedirs(self.home, exist_ok=True)

    def furnish(self) -> None:
        """Put the module there that a job may import. Raises ``OSError``."""
        with zipfile.ZipFile(sys.argv[0]) as agent:
            agent.extractall(self.directory, [name for name in agent.namelist() if name.startswith(HELPER)])

    def forget_task(self) -> None:
        """What the job said by files is of the task before. Raises ``OSError``."""
        for path in (self.progress, self.run_named, self.run_restored, self.save_request):
            clear(path)

    def variables(self) -> dict[str, str]:
        found = {
            "AUTOPILOT_PROGRESS_FILE": self.progress,
            "AUTOPILOT_SAVE_REQUEST": self.save_request,
            "AUTOPILOT_MLFLOW_RUN": self.run_named,
        }
        run = self.mlflow_run()
        return {**found, "MLFLOW_RUN_ID": run} if run else found

    def mlflow_run(self) -> str:
        """Which the job has named, on this machine or, by its checkpoint, on one before; empty: none."""
        for path in (self.run_named, self.run_restored):
            try:
                run = run_id(read_start(path, 100))
            except (OSError, ValueError):
                continue
            if run:
                return run
        return ""

    def keep_mlflow_run(self, run: str) -> None:
        with open(self.run_restored, "w") as file:
            file.write(run)


def run_id(text: object) -> str:
    """A stranger's checkpoint may name a run, and must not say more than that."""
    return text.strip() if isinstance(text, str) and RUN_ID.fullmatch(text.strip()) else ""
