"""Mark and sweep of instances that carry our label and that no live lease wants.

Marked at one pass, destroyed at a later one, never at the first. Instances without our label are never touched.
If most of ours are unknown to the ledger, be it one of one, the ledger is in doubt and not the instances: a label is
committed before it is sent, so only a lost, restored or copied database does not know it. That is quarantine, which
stops the sweep and all launches until it has lasted ``QUARANTINE_LASTS`` or clears up.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from autopilot.domain.instance import Instance
from autopilot.domain.lease import Lease

MARK_AGE = timedelta(seconds=30)
QUARANTINE_LASTS = timedelta(minutes=30)

Found = tuple[Instance, Lease | None]


@dataclass(slots=True)
class Sweep:
    """The marks of one market. Held in memory: losing them only makes the sweep start over.

    ``quarantined_at`` outlives a restart, by a note in the ledger."""

    marked_at: dict[str, datetime] = field(default_factory=dict)
    quarantined_at: datetime | None = None

    def look(self, ours: int, instances: Iterable[Found], now: datetime) -> list[Found]:
        """Those of ``instances`` that are to be destroyed now. ``ours``: how many instances carry our label at all."""
        instances = list(instances)
        unknown = sum(1 for _, lease in instances if lease is None)
        if unknown * 2 > ours:
            self.quarantined_at = self.quarantined_at or now
        else:
            self.quarantined_at = None
        seen = {instance.instance_id for instance, _ in instances}
        self.marked_at = {id_: at for id_, at in self.marked_at.items() if id_ in seen}
        for id_ in seen:
            self.marked_at.setdefault(id_, now)
        if self.is_quarantined(now):
            return []
        return [pair for pair in instances if now - self.marked_at[pair[0].instance_id] >= MARK_AGE]

    def is_quarantined(self, now: datetime) -> bool:
        return self.quarantined_at is not None and now - self.quarantined_at < QUARANTINE_LASTS
