"""What a job may rent, cheapest to the end first, and priced no further than somebody looks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import merge
from itertools import islice

from autopilot.domain.offer import CapacityType
from autopilot.pricing.rule.cost import Candidate, Place


class Candidates:
    """An ordered collection. Each of its members is worked out once, when it is first looked at."""

    __slots__ = ("_streams",)

    def __init__(self, streams: Mapping[CapacityType, Iterable[tuple[Place, Candidate]]]) -> None:
        """``streams``: of each capacity type, in ascending order of place."""
        self._streams = {kind: _Kept(stream) for kind, stream in streams.items()}

    @classmethod
    def of(cls, ordered: Iterable[Candidate]) -> Candidates:
        """Candidates that are all priced and in order."""
        streams: dict[CapacityType, list[tuple[Place, Candidate]]] = {kind: [] for kind in CapacityType}
        for number, candidate in enumerate(ordered):
            streams[candidate.capacity_type].append(((candidate.sort_key, number), candidate))
        return cls(streams)

    def __iter__(self) -> Iterator[Candidate]:
        return (candidate for _, candidate in merge(*self._streams.values(), key=lambda placed: placed[0]))

    def __bool__(self) -> bool:
        return any(True for stream in self._streams.values() for _ in islice(stream, 1))

    def best(self, capacity_type: CapacityType | None = None) -> Candidate | None:
        """The cheapest to the end, of that type or of all; None if there is none."""
        if capacity_type is None:
            return next(iter(self), None)
        return next((candidate for _, candidate in self._streams[capacity_type]), None)

    def of_type(self, capacity_type: CapacityType) -> Iterator[Candidate]:
        return (candidate for _, candidate in self._streams[capacity_type])

    def where(self, holds: Callable[[Candidate], bool]) -> Candidates:
        """Those of which it holds."""
        return Candidates(
            {
                kind: ((place, candidate) for place, candidate in stream if holds(candidate))
                for kind, stream in self._streams.items()
            }
        )


class _Kept:
    """An iterable that may be gone through again: what an iterator has given is kept."""

    __slots__ = ("_given", "_source")

    def __init__(self, source: Iterable[tuple[Place, Candidate]]) -> None:
        self._source = iter(source)
        self._given: list[tuple[Place, Candidate]] = []

    def __iter__(self) -> Iterator[tuple[Place, Candidate]]:
        at = 0
        while True:
            if at == len(self._given):
                following = next(self._source, None)
                if following is None:
                    return
                self._given.append(following)
            yield self._given[at]
            at += 1
