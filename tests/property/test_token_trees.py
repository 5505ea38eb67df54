"""Random trees of tokens: none spends, sees, names or confirms more than any that made it, and each ends with them.

Tokens are made, revoked and recognised as the API does it, on a store in memory. Who made whom is kept beside it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from autopilot.answers.models.account import TokenBody
from autopilot.api.access import ApiCaller, NotAllowed, Unauthorised, check_spec, recognise
from autopilot.api.bearer import hash_token
from autopilot.api.certify import CertifyService
from autopilot.api.confirmations import ConfirmFirst, PlanBook
from autopilot.api.tokens import TokenService
from autopilot.clock import ManualClock
from autopilot.domain.delegation import NO_LIMITED_USERS, Settled
from autopilot.domain.job import JobSpec, JobStatus
from autopilot.domain.money import ZERO
from autopilot.domain.params import Params
from autopilot.domain.token import MOST_MADE, Scope, Token
from autopilot.engine.engine import Engine
from autopilot.engine.purses import read_purses
from autopilot.ids import UlidIds
from autopilot.policy.purse import Purse
from autopilot_lab.memory_store.store import MemoryStore
from tests.builders import a_spec
from tests.store_records import START, a_job, a_lease, an_entry

ROOT, LIMITED = 0, 4711
"""Users of the socket."""
SECRETS = ("aws", "hf", "wandb")
Act = tuple[Any, ...]

wishes = st.fixed_dictionaries(
    {
        "scope": st.sampled_from([Scope.ADMIN, Scope.ADMIN, Scope.ADMIN, *Scope]),
        "sees_all": st.booleans(),
        "secrets": st.sets(st.sampled_from(SECRETS)).map(lambda names: tuple(sorted(names))),
        "expires": st.sampled_from(["", "", "1h", "1d", "2d"]),
        "allow": st.sampled_from(["", "", "$1", "$2", "$3", "$2/month", "$5/month"]),
        "ask_above": st.sampled_from(["", "", "$1", "$2"]),
    }
)
acts: st.SearchStrategy[Act] = st.one_of(
    *[st.tuples(st.just("make"), st.integers(0, 30), wishes, st.booleans())] * 6,
    st.tuples(st.just("revoke"), st.integers(0, 30)),
    st.tuples(st.just("wait"), st.sampled_from([timedelta(minutes=30), timedelta(hours=20)])),
)
limited = st.fixed_dictionaries(
    {
        "sees_all": st.booleans(),
        "secrets": st.sets(st.sampled_from(SECRETS)).map(lambda names: tuple(sorted(names))),
        "allowance": st.sampled_from([None, Decimal(4)]),
        "is_monthly": st.booleans(),
        "ask_above": st.sampled_from([None, Decimal(2)]),
    }
)


def bounding(limit: dict[str, Any]) -> Settled:
    user = Token(-LIMITED, "limited", "", Scope.ADMIN, False, (), START, None)
    return Settled((replace(user, **limit),))


settings_of_a_user = st.just(NO_LIMITED_USERS) | limited.map(bounding)
stories = st.lists(acts, min_size=4, max_size=18)


@dataclass
class Made:
    """A token as its maker got it."""

    row: dict[str, Any]
    secret: str
    makers: tuple[int, ...]
    """All above it, the nearest first; the last is a user."""
    is_revoked: bool = False

    @property
    def owner(self) -> int:
        return -int(self.row["number"])

    def is_in_force(self, now: datetime) -> bool:
        end = self.row["expires_at"]
        return not self.is_revoked and (end is None or now < datetime.fromisoformat(end))


@dataclass
class Tree:
    settled: Settled
    made: dict[int, Made] = field(default_factory=dict)
    """By owner."""

    def __post_init__(self) -> None:
        self.store = MemoryStore()
        self.clock = ManualClock(START)
        self.service = TokenService(self.store, self.clock, lambda: None, None, self.settled)

    @property
    def now(self) -> datetime:
        return self.clock.now()

    async def caller(self, owner: int) -> ApiCaller:
        """Raises ``Unauthorised``."""
        if owner >= 0:
            return ApiCaller(owner, self.settled.user(owner))
        return await recognise(self.store, hash_token(self.made[owner].secret), self.now, self.settled)

    async def act(self, act: Act) -> None:
        if act[0] == "wait":
            self.clock.advance(act[1].total_seconds())
        elif act[0] == "make":
            await self.make(*act[1:])
        elif self.made:
            await self.revoke(act[1])

    async def make(self, who: int, wish: dict[str, Any], is_meek: bool) -> None:
        """``is_meek``: it asks for no more than its maker has; else most wishes below the first are refused."""
        owners = [ROOT, LIMITED, *self.made]
        await self.make_by(owners[-1 - who % len(owners)], wish, is_meek=is_meek)

    async def make_by(self, maker: int, wish: dict[str, Any], *, is_meek: bool = True) -> None:
        try:
            caller = await self.caller(maker)
            if caller.scope is not Scope.ADMIN:
                return
            if is_meek and caller.token is not None:
                wish = wish | {"secrets": caller.token.secrets, "allow": "", "expires": "", "ask_above": ""}
            answer = await self.service.create(TokenBody(name=f"t{len(self.made)}", **wish), caller)
        except NotAllowed as refused:
            event("refused: " + str(refused).partition(" would have ")[2][:8])
            return
        except Unauthorised:
            event("its maker has ended")
            return
        above = self.made[maker].makers if maker < 0 else ()
        made = Made(answer["token"], answer["secret"], (maker, *above))
        self.made[made.owner] = made
        event(f"made, {len(made.makers)} deep")

    async def revoke(self, which: int) -> None:
        owner = list(self.made)[which % len(self.made)]
        if not self.made[owner].is_revoked:
            await self.service.revoke(str(self.made[owner].row["name"]), parks_all=False, by=ROOT)
            for each in self.made.values():
                each.is_revoked |= owner in (each.owner, *each.makers)

    def line(self, owner: int) -> tuple[int, ...]:
        return (owner, *(self.made[owner].makers if owner < 0 else ()))

    def family(self, owner: int) -> list[int]:
        return [owner, *(each.owner for each in self.made.values() if owner in each.makers)]

    def allowance(self, owner: int) -> Decimal | None:
        """By itself."""
        if owner >= 0:
            user = self.settled.user(owner)
            return None if user is None else user.allowance
        row = self.made[owner].row
        return None if row["allowance"] is None else Decimal(row["allowance"])

    def has_ended(self, owner: int) -> bool:
        return any(not self.made[each].is_in_force(self.now) for each in self.line(owner) if each < 0)


def grow(runner: asyncio.Runner, settled: Settled, story: list[Act]) -> Tree:
    tree = Tree(settled)
    for act in story:
        runner.run(tree.act(act))
    return tree


@given(settings_of_a_user, stories)
def test_none_may_more_than_any_that_made_it_and_each_ends_with_them(settled: Settled, story: list[Act]) -> None:
    with asyncio.Runner() as runner:
        tree = grow(runner, settled, story)
        for each in tree.made.values():
            try:
                caller = runner.run(tree.caller(each.owner))
            except Unauthorised:
                assert tree.has_ended(each.owner), "it ends with one of its line, and not before"
                continue
            assert not tree.has_ended(each.owner)
            assert caller.makers == set(each.makers)
            for owner in each.makers:
                above = runner.run(tree.caller(owner))  # Unauthorised: it has outlived its maker
                assert_no_wider(caller, above)


def assert_no_wider(caller: ApiCaller, above: ApiCaller) -> None:
    token, maker = caller.token, above.token
    assert token is not None
    assert above.scope.covers(caller.scope)
    assert above.sees_all or not caller.sees_all
    if maker is None:
        return
    assert set(token.secrets) <= set(maker.secrets)
    assert maker.expires_at is None or (token.expires_at is not None and token.expires_at <= maker.expires_at)
    assert maker.ask_above is None or (token.ask_above is not None and token.ask_above <= maker.ask_above)
    if maker.allowance is not None:
        assert token.allowance is not None
        assert token.allowance <= maker.allowance
        assert maker.is_monthly or not token.is_monthly
    for name in SECRETS:
        spec = a_spec(secrets=(("A", name),))
        assert may_name(spec, maker) or not may_name(spec, token)


def may_name(spec: JobSpec, token: Token) -> bool:
    try:
        check_spec(spec, token)
    except NotAllowed:
        return False
    return True


@given(settings_of_a_user, stories, st.sampled_from(["0.50", "1.50", "2.50", "9"]))
def test_none_confirms_for_who_made_it_nor_more_than_it_may_spend_unasked(
    settled: Settled, story: list[Act], total: str
) -> None:
    with asyncio.Runner() as runner:
        tree = grow(runner, settled, story)
        callers = list(all_in_force(runner, tree))
    book, spec = PlanBook(tree.clock, UlidIds(tree.clock)), a_spec(budget=Decimal(total))
    for asker in callers:
        plan = ask(book, asker, spec)
        if plan is None:
            continue
        for confirmer in callers:
            try:
                book.confirm(plan, confirmer)
            except NotAllowed:
                continue
            event("confirmed")
            assert confirmer.owner not in tree.family(asker.owner)
            assert ask(book, confirmer, spec) is None, "it would have to ask for as much itself"


def all_in_force(runner: asyncio.Runner, tree: Tree) -> Iterator[ApiCaller]:
    for owner in (ROOT, LIMITED, *tree.made):
        try:
            yield runner.run(tree.caller(owner))
        except Unauthorised:
            continue


def ask(book: PlanBook, caller: ApiCaller, spec: JobSpec) -> str | None:
    """The plan that waits; None: no confirmation is asked for."""
    try:
        with book.asking(caller.token, "submit", spec, [], ""):
            return None
    except ConfirmFirst as asked:
        return asked.plan_id


@pytest.mark.slow
@given(settings_of_a_user, stories, st.sampled_from(["0.50", "1.50", "4"]))
def test_a_certification_needs_the_confirmation_that_a_job_of_the_same_cost_needs(
    settled: Settled, story: list[Act], total: str
) -> None:
    with asyncio.Runner() as runner:
        tree = grow(runner, settled, story)
        book, spec = PlanBook(tree.clock, UlidIds(tree.clock)), a_spec(budget=Decimal(total))
        for caller in list(all_in_force(runner, tree)):
            plan = runner.run(certify(tree, book, caller, Decimal(total)))
            assert (plan is None) == (ask(book, caller, spec) is None)
            event("asked" if plan else "begun unasked")
            for owner in tree.line(caller.owner)[1:]:
                above = runner.run(tree.caller(owner))
                assert plan or ask(book, above, spec) is None, "its maker would have to ask"


async def certify(tree: Tree, book: PlanBook, caller: ApiCaller, budget: Decimal) -> str | None:
    """The plan that waits; None: it was begun, as a job of the caller."""
    engine = SimpleNamespace(watches={"vastai": None}, config=SimpleNamespace(params=Params()))
    service = CertifyService(cast(Engine, engine), tree.store, tree.clock, UlidIds(tree.clock), lambda: None, book)
    try:
        answer = await service.begin("vastai", budget, (), owner=caller.owner, token=caller.token)
    except ConfirmFirst as asked:
        return asked.plan_id
    async with tree.store.transaction() as uow:
        job = await uow.jobs.find(answer["job"]["id"])
        assert job is not None
        assert (job.owner, job.spec.budget) == (caller.owner, budget), "its money is the caller's"
        await uow.jobs.save(replace(job, status=JobStatus.CANCELLED, finished_at=tree.now))
    return None


@pytest.mark.slow
@given(st.integers(1, 3), st.integers(0, 3))
def test_a_line_of_tokens_holds_a_bounded_number_of_them(deep: int, revoked: int) -> None:
    wish = {"scope": Scope.ADMIN, "sees_all": False, "secrets": (), "expires": "", "allow": "", "ask_above": ""}
    with asyncio.Runner() as runner:
        tree = Tree(NO_LIMITED_USERS)
        for _ in range(deep):
            runner.run(tree.make(0, wish, is_meek=True))
        first, last = max(tree.made), min(tree.made)
        while len(tree.family(first)) - 1 < MOST_MADE:
            runner.run(tree.make_by(last, wish))
        before = len(tree.made)
        runner.run(tree.make_by(last, wish))
        assert len(tree.made) == before, "refused"
        for number in range(revoked):
            runner.run(tree.revoke(before - 1 - number))
            runner.run(tree.make_by(last, wish))
        assert len(tree.made) == before + revoked


@pytest.mark.slow
@given(settings_of_a_user, stories, st.lists(st.sampled_from(["0", "0.25", "0.75", "1.5"]), min_size=20, max_size=20))
def test_what_is_left_is_the_least_that_any_of_the_line_has_left(
    settled: Settled, story: list[Act], spends: list[str]
) -> None:
    with asyncio.Runner() as runner:
        tree = grow(runner, settled, story)
        owners = [ROOT, LIMITED, *tree.made]
        spent = dict(zip(owners, map(Decimal, spends), strict=False))
        jobs = [a_job(f"job-{at}", name=f"job-{at}", owner=owner) for at, owner in enumerate(owners)]
        purses = runner.run(spend_all(tree, jobs, spent))
    for job in jobs:
        rooms = [purse.left_for(job, (), Params()) for purse in purses.get(job.id, ())]
        least = min((room for room in rooms if room is not None), default=None)
        if tree.has_ended(job.owner):
            assert least is not None
            assert least <= ZERO, "nothing begins any more"
            continue
        bounds = [(allowance, each) for each in tree.line(job.owner) if (allowance := tree.allowance(each)) is not None]
        lefts = [allowance - sum(spent[of] for of in tree.family(owner)) for allowance, owner in bounds]
        assert least == min(lefts, default=None)


async def spend_all(tree: Tree, jobs: list[Any], spent: dict[int, Decimal]) -> dict[str, tuple[Purse, ...]]:
    async with tree.store.transaction() as uow:
        for job in jobs:
            lease = a_lease(f"lease-{job.id}", job.id)
            await uow.jobs.save(job)
            await uow.leases.save(lease)
            await uow.ledger.post([an_entry(f"e-{job.id}", spent[job.owner], lease=lease)])
    async with tree.store.snapshot() as uow:
        return await read_purses(uow, jobs, {}, tree.now, Params(), tree.settled)
