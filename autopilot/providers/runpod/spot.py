"""Whether spot can be rented: the market is withdrawing it, so it is asked for at start, daily, and by experience."""

from __future__ import annotations

from collections.abc import Callable

import structlog

from autopilot.ports.clock import Clock
from autopilot.providers.reading import NoReply
from autopilot.providers.runpod.graphql import GraphqlMarket
from autopilot.providers.runpod.queries import SPOT_OPERATION
from autopilot.providers.runpod.reply import Answer, Fault

log = structlog.get_logger(__name__)

PROBE_EVERY_S = 86_400.0
RETRY_S = 60.0
"""Between probes while the market has not given a clear answer."""
UNKNOWN_S = 900.0
"""Without a clear answer for so long from the start there is none."""
REFUSALS_IN_A_ROW = 3
"""So many spot rentals refused for want of capacity, with none granted between, and there is no supply."""
NO_SUPPLY_S = 21_600.0
"""For how long no supply is believed."""
NO_SUPPLY = f"the market refused {REFUSALS_IN_A_ROW} spot rentals in a row for want of capacity"


class SpotProbe:
    """``available`` and ``reason``: what was found last, in words for people."""

    def __init__(self, graphql: GraphqlMarket, clock: Clock, on_change: Callable[[], None]) -> None:
        self.available = False
        self.reason = "not probed yet"
        self.is_known = False
        self.graphql_withdrawn = False
        self._graphql = graphql
        self._clock = clock
        self._on_change = on_change
        self._began_at = self._due_at = clock.monotonic()
        self._refusals = 0

    async def refresh(self) -> None:
        """Probe if it is time to. Never raises: without a clear answer what is known stays."""
        now = self._clock.monotonic()
        if now < self._due_at:
            return
        self._due_at = now + RETRY_S
        try:
            answer = await self._graphql.probe_spot()
        except NoReply as error:
            log.info("spot.probe_failed", reason=str(error))
            self._unclear(str(error))
            return
        self._take_in(answer)

    def _take_in(self, answer: Answer) -> None:
        fault = answer.fault
        if fault is Fault.WITHDRAWN:
            self.withdraw_graphql()
        elif fault is None or SPOT_OPERATION in answer.message:
            self.graphql_withdrawn = False
            self._refusals = 0
            self._due_at = self._clock.monotonic() + PROBE_EVERY_S
            found = "the market takes spot requests" if fault is None else f"not in the API any more: {answer.message}"
            self._set(fault is None, found)
        else:
            self._unclear(f"the probe was answered: {answer.summary}")

    def _unclear(self, reason: str) -> None:
        """What is known stays; what was never known is taken for none, after a while."""
        if not self.available:
            is_known = self.is_known or self._clock.monotonic() - self._began_at >= UNKNOWN_S
            self._set(False, reason, is_known=is_known)

    def withdraw_graphql(self) -> None:
        """GraphQL answered 410; it is asked again with the next probe."""
        self.graphql_withdrawn = True
        self._due_at = self._clock.monotonic() + PROBE_EVERY_S
        self._set(False, "the GraphQL API, the only one with spot, is withdrawn")

    def withdraw(self, reason: str) -> None:
        """A spot request was not even understood."""
        self._due_at = self._clock.monotonic() + PROBE_EVERY_S
        self._set(False, reason)

    def note_granted(self) -> None:
        self._refusals = 0

    def note_refused(self) -> None:
        """A spot request was refused for want of capacity, or because the bid was too low: the market mixes these."""
        self._refusals += 1
        if self._refusals >= REFUSALS_IN_A_ROW:
            self._due_at = self._clock.monotonic() + NO_SUPPLY_S
            self._set(False, NO_SUPPLY)

    def _set(self, available: bool, reason: str, *, is_known: bool = True) -> None:
        before = self.available, self.reason, self.is_known
        self.available, self.reason, self.is_known = available, reason, is_known
        if before != (available, reason, is_known):
            log.info("spot.became_available" if available else "spot.became_unavailable", reason=reason)
            self._on_change()
