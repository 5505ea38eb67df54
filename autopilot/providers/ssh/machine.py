"""One machine of one's own: requests over ``ssh``, and what was seen of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from importlib import resources
from typing import Any

from autopilot.openssh.options import call_own
from autopilot.openssh.run import run_ssh
from autopilot.ports.clock import Clock
from autopilot.ports.provider import MarketUnknown
from autopilot.providers.ssh.config import MachineSettings, SshSettings
from autopilot.providers.ssh.wire import MOST_ANSWER, SeenMachine, clean, read_answer, read_seen
from autopilot.providers.values import Unreadable

RUN = "exec python3 -I -c '{}'".format(
    "import json,sys;r=sys.stdin.readline();s=sys.stdin.read();"
    'n={"__name__":"asked","SOURCE":s};exec(s,n);n["answer"](json.loads(r))'
)
"""Of POSIX's shells and of others: nothing in it is theirs to read."""
AGAIN_S = 30.0
"""Market seconds: a machine that has not answered is not asked to show itself before."""
UNSEEN_S = 900.0
"""Market seconds from the start, until when a machine that never answered hides what may run there. After that its
agents have ended themselves, for none of their permits was renewed."""
_NEVER_BEGAN = (
    "ssh: connect to host",
    "ssh: Could not resolve",
    "Host key verification failed",
    "Permission denied (",
    "kex_exchange_identification",
    "Bad configuration option",
)
"""Words of an ``ssh`` that has started nothing. A machine may say them itself, and only its own lease suffers."""


class Unreached(Exception):
    """``has_begun``: the request may have been carried out."""

    def __init__(self, words: str, has_begun: bool) -> None:
        super().__init__(words)
        self.has_begun = has_begun


def program() -> bytes:
    return resources.files("autopilot.providers.ssh.shipped").joinpath("program.py").read_bytes()


class OwnMachine:
    def __init__(self, name: str, settings: MachineSettings, common: SshSettings, clock: Clock) -> None:
        self.name = name
        self.settings = settings
        self._common = common
        self._clock = clock
        self._since = clock.monotonic()
        self._seen: SeenMachine | None = None
        self._seen_at = 0.0
        self._gpus: SeenMachine | None = None
        self._gpus_at = 0.0
        self._failed: tuple[float, str] | None = None
        self.is_in_doubt = False
        """Whether a create has ended without an answer since it was seen last."""

    @property
    def last(self) -> SeenMachine | None:
        """As it was seen last, whenever that was."""
        return self._seen

    @property
    def may_hide(self) -> bool:
        """Whether something may run there that was never seen here."""
        return self.is_in_doubt or (self._seen is None and self._clock.monotonic() - self._since < UNSEEN_S)

    async def look(self) -> SeenMachine:
        """Its leases now. Raises ``Unreached``, ``MarketUnknown``: it answers, and not so that it can be read."""
        if self._failed is not None and self._clock.monotonic() - self._failed[0] < AGAIN_S:
            raise Unreached(self._failed[1], has_begun=False)
        return await self._look(gpus=False)

    async def look_whole(self) -> SeenMachine:
        """With its GPUs, at most as old as the settings say. Raises ``Unreached``, ``MarketUnknown``."""
        if self._gpus is not None and self._clock.monotonic() - self._gpus_at < self._common.looks_max_age_s:
            return self._gpus
        if self._failed is not None and self._clock.monotonic() - self._failed[0] < AGAIN_S:
            raise Unreached(self._failed[1], has_begun=False)
        self._gpus = await self._look(gpus=True)
        self._gpus_at = self._clock.monotonic()
        return self._gpus

    async def _look(self, *, gpus: bool) -> SeenMachine:
        try:
            answer = await self._ask({"ask": "look", "gpus": gpus})
            if "failed" in answer:
                raise MarketUnknown(f"{self.name}: {clean(answer['failed'])}")
            seen = read_seen(answer)
        except Unreached as problem:
            self._failed = self._clock.monotonic(), str(problem)
            raise
        except Unreadable as problem:
            raise MarketUnknown(f"{self.name}: {problem}") from None
        self._seen, self._seen_at, self._failed, self.is_in_doubt = seen, self._clock.monotonic(), None, False
        return seen

    async def change(self, ask: str, **more: Any) -> Mapping[str, Any]:
        """One attempt. Raises ``Unreached``; what cannot be read counts as that."""
        self._gpus = None
        try:
            return await self._ask({"ask": ask, **more})
        except Unreadable as problem:
            raise Unreached(f"{self.name}: {problem}", has_begun=True) from None

    async def _ask(self, request: Mapping[str, Any]) -> Mapping[str, Any]:
        """Raises ``Unreached``, ``Unreadable``."""
        line = json.dumps({**request, "directory": self.settings.directory}).encode() + b"\n"
        try:
            async with (
                asyncio.timeout(self._common.timeout_s),
                run_ssh(call_own(self.settings.host, RUN, self._common.config_file)) as run,
            ):
                await run.give(line + program())
                said = await run.read_to_end(MOST_ANSWER)
                errors, code = await run.end(), run.process.returncode
        except TimeoutError:
            raise Unreached(f"{self.name}: no answer within {self._common.timeout_s:g} s", has_begun=True) from None
        except OSError as problem:
            raise Unreached(f"{self.name}: ssh cannot be started: {problem.strerror}", has_begun=False) from None
        if code:
            words = clean(errors.strip().rpartition("\n")[2]) or f"ssh ended with code {code}"
            has_begun = bool(said) or not any(each in errors for each in _NEVER_BEGAN)
            raise Unreached(f"{self.name}: {words}", has_begun)
        return read_answer(said)
