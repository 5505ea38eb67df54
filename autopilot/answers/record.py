"""What an answer is made of: a dataclass that is cheap to make, because a command makes a hundred of them at its start.

``dataclass`` compiles six methods for a frozen class, some 0.8 ms in all. All but ``__init__`` are here, once for all
answers. That an answer is not changed is the type checker's to hold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["record"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass as record
else:

    def record(*, frozen: bool, kw_only: bool) -> Callable[[type[T]], type[T]]:
        """``dataclass`` with those options."""

        def make(kind: type[T]) -> type[T]:
            kind.__eq__, kind.__hash__, kind.__repr__ = _is_equal, _hash, _describe
            bases = (getattr(base, "__dataclass_params__", None) for base in kind.__mro__[1:])
            # Only a frozen one may be made of a frozen one.
            must_be = frozen and any(of is not None and of.frozen for of in bases)
            return dataclass(kind, frozen=must_be, kw_only=kw_only, eq=False, repr=False)

        return make


def _values(answer: Any) -> tuple[Any, ...]:
    return tuple(getattr(answer, name) for name in answer.__dataclass_fields__)


def _is_equal(answer: Any, other: object) -> bool:
    return _values(answer) == _values(other) if type(other) is type(answer) else NotImplemented


def _hash(answer: Any) -> int:
    return hash(_values(answer))


def _describe(answer: Any) -> str:
    members = (f"{name}={getattr(answer, name)!r}" for name in answer.__dataclass_fields__)
    return f"{type(answer).__qualname__}({', '.join(members)})"
