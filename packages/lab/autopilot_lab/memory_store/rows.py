"""Tables in memory, and how a transaction or a snapshot sees them: what is committed, beneath changes of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_UNCHANGED: Any = object()


class Rows(Generic[K, V]):
    """One table as one unit of work sees it. ``changes`` by key; None marks a row that is not there."""

    __slots__ = ("_committed", "changes")

    def __init__(self, committed: dict[K, V]) -> None:
        self._committed = committed
        self.changes: dict[K, V | None] = {}

    def get(self, key: K) -> V | None:
        found = self.changes.get(key, _UNCHANGED)
        return self._committed.get(key) if found is _UNCHANGED else found

    def put(self, key: K, row: V) -> None:
        self.changes[key] = row

    def remove(self, key: K) -> None:
        self.changes[key] = None

    def __iter__(self) -> Iterator[K]:
        for key in self._committed:
            if key not in self.changes:
                yield key
        for key, row in self.changes.items():
            if row is not None:
                yield key

    def values(self) -> Iterator[V]:
        if not self.changes:
            yield from self._committed.values()
            return
        for key, row in self._committed.items():
            if key not in self.changes:
                yield row
        for changed in self.changes.values():
            if changed is not None:
                yield changed

    def keep_as_it_is(self, keys: Iterator[K]) -> None:
        """Keep showing these rows as they are now, regardless of later commits."""
        for key in keys:
            self.changes.setdefault(key, self._committed.get(key))

    def commit(self) -> None:
        for key, row in self.changes.items():
            if row is None:
                self._committed.pop(key, None)
            else:
                self._committed[key] = row
