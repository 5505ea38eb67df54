"""Who follows something at the moment, counted by owner: one owner's programs do not take the room of all."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator

from autopilot.domain.errors import UserError


class TooManyFollow(UserError):
    """There is no room for one more who follows."""


class Followers:
    def __init__(self, what: str) -> None:
        """``what`` they follow, as in "follow the events"."""
        self._what = what
        self._by_owner: Counter[int] = Counter()

    @contextlib.contextmanager
    def count(self, owner: int, most: int, most_of_one: int) -> Iterator[None]:
        """For as long as one of that owner follows. ``most``: of all owners. Raises ``TooManyFollow``."""
        hint = "ask for pages, with after"
        if self._by_owner[owner] >= most_of_one:
            raise TooManyFollow(f"{most_of_one} programs of this owner follow {self._what} already", hint=hint)
        if self._by_owner.total() >= most:
            raise TooManyFollow(f"{most} follow {self._what} already", hint=hint)
        self._by_owner[owner] += 1
        try:
            yield
        finally:
            self._by_owner[owner] -= 1
            if not self._by_owner[owner]:
                del self._by_owner[owner]
