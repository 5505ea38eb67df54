"""A confirmed plan pays once: what was refused leaves it, what may have been committed does not."""

from __future__ import annotations

from decimal import Decimal

import pytest

from autopilot.api.access import ApiCaller, NotAllowed
from autopilot.api.confirmations import ConfirmFirst, PlanBook
from autopilot.clock import SystemClock
from autopilot.domain.errors import UserError
from autopilot.domain.token import Scope, Token
from autopilot.ids import UlidIds
from autopilot.ports.store import StoreUnavailable
from tests.builders import a_spec

CLOCK = SystemClock()
TOKEN = Token(1, "agent", "0" * 64, Scope.SUBMIT, False, (), CLOCK.now(), None, ask_above=Decimal(1))
SPEC = a_spec(budget=Decimal(5))


def a_confirmed_plan(book: PlanBook) -> str:
    with pytest.raises(ConfirmFirst) as first, book.asking(TOKEN, "submit", SPEC, [], ""):
        pass
    book.confirm(first.value.plan_id, ApiCaller(1000))
    return first.value.plan_id


def fail(book: PlanBook, plan_id: str, problem: Exception) -> None:
    with pytest.raises(type(problem)), book.asking(TOKEN, "submit", SPEC, [], plan_id):
        raise problem


def test_a_refusal_leaves_the_plan() -> None:
    book = PlanBook(CLOCK, UlidIds(CLOCK))
    plan_id = a_confirmed_plan(book)
    fail(book, plan_id, UserError("the same job is open"))
    with book.asking(TOKEN, "submit", SPEC, [], plan_id):
        pass
    with pytest.raises(NotAllowed), book.asking(TOKEN, "submit", SPEC, [], plan_id):
        pass


def test_a_commit_with_unknown_outcome_uses_it_up() -> None:
    book = PlanBook(CLOCK, UlidIds(CLOCK))
    plan_id = a_confirmed_plan(book)
    fail(book, plan_id, StoreUnavailable("the connection was lost at the commit"))
    with pytest.raises(NotAllowed, match="there is no plan"), book.asking(TOKEN, "submit", SPEC, [], plan_id):
        pass
