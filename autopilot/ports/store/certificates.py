"""Certificates of markets, and what the certifications behind them saw."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from autopilot.domain.certificate import Certificate, ClaimFinding, StepMark


class Certificates(Protocol):
    async def save(self, certificate: Certificate) -> None:
        """Insert or, by its certification, update."""
        ...

    async def list_newest(self) -> tuple[Certificate, ...]:
        """The one that was issued last on each market, by the market's name."""
        ...

    async def save_findings(self, findings: Iterable[ClaimFinding]) -> None:
        """Insert or, by certification and claim, update; what use showed by its market and claim."""
        ...

    async def list_findings(self, job_id: str) -> tuple[ClaimFinding, ...]:
        """Of that certification, by claim."""
        ...

    async def list_findings_on(self, market: str) -> tuple[ClaimFinding, ...]:
        """Findings of all certifications of the market and of its use, oldest first."""
        ...

    async def save_marks(self, marks: Iterable[StepMark]) -> None:
        """Insert or, by certification and step, update."""
        ...

    async def list_marks(self, job_id: str) -> tuple[StepMark, ...]:
        """In the order in which they began."""
        ...

    async def newest_certifications(self) -> tuple[tuple[str, str], ...]:
        """(market, id) of the certification that was asked for last on each market, by the market's name."""
        ...
