"""What must hold of a token's money: its jobs together stay within its allowance, by the markets' own books."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from decimal import Decimal

from autopilot.domain.token import Token
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import Ground


class Allowances:
    """Reads tokens and jobs as they are committed, and what the machines of those jobs bill, excuses apart."""

    def __init__(self, ground: Ground, add_violation: Callable[[str, str], None]) -> None:
        self._ground = ground
        self._add_violation = add_violation
        self._told: set[tuple[int, str]] = set()

    def look(self) -> None:
        for token, period, spent in self.spent():
            assert token.allowance is not None, "others have no period"
            if spent > token.allowance and (token.number, period) not in self._told:
                self._told.add((token.number, period))
                self._add_violation("S27", f"token {token.name}, {period}: {spent:.6f} of {token.allowance}")

    def spent(self) -> Iterator[tuple[Token, str, Decimal]]:
        """Of each token that has an allowance, for each of its periods: dollars."""
        committed, books = self._ground.committed, self._ground.books
        owned: dict[int, list[str]] = defaultdict(list)
        for job in committed.get("jobs", {}).values():
            owned[job.owner].append(job.id)
        for token in committed.get("tokens", {}).values():
            job_ids = owned.get(token.owner)
            if not job_ids or token.allowance is None:
                continue
            if not token.is_monthly:
                yield token, "for life", dollars(sum(books.by_job[job_id] for job_id in job_ids))
                continue
            mine, by_period = set(job_ids), defaultdict[str, int](int)
            for (job_id, year, month), amount in list(books.by_job_month.items()):
                if job_id in mine:
                    by_period[_period(token, year, month)] += amount
            for period, amount in by_period.items():
                yield token, period, dollars(amount)


def _period(token: Token, year: int, month: int) -> str:
    """The month whose allowance pays for that month's spend: once the token has ended, there is no new one."""
    ends = [at for at in (token.expires_at, token.revoked_at) if at is not None]
    last = min(((at.year, at.month) for at in ends), default=(year, month))
    return "{}-{:02}".format(*min((year, month), last))
