"""The market's own record of everything that happened: what a ledger is compared with."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal


@dataclass(frozen=True)
class JournalEntry:
    seq: int
    at: datetime
    kind: str
    fields: dict[str, object]

    def as_json(self) -> dict[str, object]:
        """Decimals become strings, so that no digit is lost."""
        shown = {name: str(value) if isinstance(value, Decimal) else value for name, value in self.fields.items()}
        return {"seq": self.seq, "at": self.at.isoformat(), "kind": self.kind, **shown}


@dataclass
class Journal:
    entries: list[JournalEntry] = field(default_factory=list)

    def record(self, at: datetime, kind: str, **fields: object) -> None:
        self.entries.append(JournalEntry(len(self.entries), at, kind, fields))
