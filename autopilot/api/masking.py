"""Secrets out of a job's output, wherever it is read: its own values, and what its machines should never have."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator

from autopilot.domain.job import JobSpec

MASK = b"[secret]"
SHORTEST = 6
"""Characters. What is shorter occurs in most outputs by chance."""
MOST_CHUNKS_BACK = 4
"""Read before a chunk, at the most, to see what began there."""

ReadSecrets = Callable[[JobSpec], tuple[list[str], list[str]]]
"""Values that a job of that file has, and those that it should not have. It may read files."""


class OutputMask:
    """``own``: values that the job has. It may print a part of one at the end of a chunk, and the rest in the next, so
    the beginning of one is always masked there.

    ``others``: values that it does not have. Those are masked only as a whole: if parts were masked, a job could find
    them out character by character.
    """

    def __init__(self, own: Iterable[str] = (), others: Iterable[str] = ()) -> None:
        self._own, all_others = _values(own), _values(others)
        self._all = self._own | all_others
        self.reach = max(map(len, self._all), default=1) - 1
        """How many bytes before a chunk matter to it."""

    def hide(self, before: bytes | None, data: bytes) -> bytes:
        """``data`` without them. ``before``: what came just before it, as it was; None: it was deleted."""
        behind = self.keep_end(before or b"")
        text, begins = behind + data, len(behind)
        found = [*self._find_whole(text), *self._find_begun(text)]
        if before is None:
            found += self._find_ended(text)
        shown, at = [], begins
        for start, end in _merge(found):
            if end > begins:
                shown += [text[at : max(start, at)], MASK]
                at = end
        return b"".join((*shown, text[at:]))

    def keep_end(self, text: bytes) -> bytes:
        """What of it matters to a chunk that follows."""
        return text[-self.reach :] if self.reach else b""

    def _find_whole(self, text: bytes) -> Iterator[tuple[int, int]]:
        for value in self._all:
            at = text.find(value)
            while at >= 0:
                yield at, at + len(value)
                at = text.find(value, at + 1)

    def _find_begun(self, text: bytes) -> Iterator[tuple[int, int]]:
        for value in self._own:
            longest = next((n for n in _parts(value, text) if text.endswith(value[:n])), 0)
            if longest:
                yield len(text) - longest, len(text)

    def _find_ended(self, text: bytes) -> Iterator[tuple[int, int]]:
        for value in self._own:
            longest = next((n for n in _parts(value, text) if text.startswith(value[-n:])), 0)
            if longest:
                yield 0, longest


async def mask_for(spec: JobSpec, read: ReadSecrets) -> OutputMask:
    return OutputMask(*await asyncio.to_thread(read, spec))


def _values(texts: Iterable[str]) -> frozenset[bytes]:
    return frozenset(text.encode() for text in texts if len(text) >= SHORTEST)


def _parts(value: bytes, text: bytes) -> range:
    """Lengths of parts that are long enough to be masked, the longest first."""
    return range(min(len(value) - 1, len(text)), SHORTEST - 1, -1)


def _merge(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start < merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
