"""Requests to a cluster: a shell here, or one on the login node over ``ssh``."""

from __future__ import annotations

import asyncio
import secrets

from autopilot.openssh.options import call_own
from autopilot.openssh.run import run_ssh
from autopilot.providers.slurm import commands
from autopilot.providers.slurm.config import SlurmSettings
from autopilot.providers.slurm.wire import MOST_ANSWER, UnreadableOutput, clean, read_sections


class Unreached(Exception):
    """No answer that can be read: what was asked for may have been done."""


class Sections:
    """``sections``: text and exit status of each. ``errors``: the last line that the commands have complained with."""

    def __init__(self, sections: dict[str, tuple[str, int]], errors: str) -> None:
        self.sections = sections
        self.errors = errors

    def text(self, section: str) -> str:
        """Raises ``Unreached`` if the command has failed."""
        text, status = self.sections[section]
        if status:
            raise Unreached(self.errors or f"{section} ended with code {status}")
        return text


class ClusterShell:
    def __init__(self, settings: SlurmSettings) -> None:
        self._settings = settings

    async def ask(self, text: str, *wanted: str, token: str = "") -> Sections:
        """One attempt. ``wanted``: sections without which it is no answer. Raises ``Unreached``."""
        token = token or new_token()
        body = commands.begin(self._settings, token) + text
        try:
            async with asyncio.timeout(self._settings.timeout_s), run_ssh(self._words()) as run:
                await run.give(body.encode())
                said = await run.read_to_end(MOST_ANSWER)
                errors = await run.end()
        except TimeoutError:
            raise Unreached(f"{self.place}: no answer within {self._settings.timeout_s:g} s") from None
        except OSError as problem:
            raise Unreached(f"{self.place}: a process cannot be started: {problem.strerror}") from None
        words = clean(errors.strip().rpartition("\n")[2])
        try:
            return Sections(read_sections(said, token, wanted), words)
        except UnreadableOutput as problem:
            raise Unreached(f"{self.place}: {words or problem}") from None

    @property
    def place(self) -> str:
        return self._settings.host or "this computer"

    def _words(self) -> list[str]:
        if not self._settings.host:
            return ["sh"]
        return call_own(self._settings.host, "exec sh", self._settings.ssh_config_file)


def new_token() -> str:
    return f"autopilot-{secrets.token_hex(12)}"
