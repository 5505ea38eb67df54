"""What must always hold (S) and what must hold in the end (L), read from the markets' own books and the store's rows.

Each checker has a name of its own in ``CHECKERS``; a violation names it, and a run with any has failed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from autopilot.domain.job import Checkpoint, Job, JobStatus
from autopilot.domain.labels import is_ours
from autopilot.domain.lease import Lease, LeaseState
from autopilot.domain.ledger import LedgerEntry
from autopilot.domain.money import to_nano
from autopilot_lab.memory_store.tables import MemoryTables
from tests.simulation.checks.allowances import Allowances
from tests.simulation.checks.arrays import Arrays
from tests.simulation.checks.bids import Bids
from tests.simulation.checks.conduct import CHECKED_EVERY_S, Conduct
from tests.simulation.checks.dependants import Dependants
from tests.simulation.checks.firings import Firings
from tests.simulation.checks.holds import Holds
from tests.simulation.checks.hosts import Hosts
from tests.simulation.checks.leftovers import Leftovers
from tests.simulation.checks.notices import Notices
from tests.simulation.checks.pacing import Pacing
from tests.simulation.checks.uncertified import Uncertified
from tests.simulation.ground.books import dollars
from tests.simulation.ground.ground import DARK, Ground
from tests.simulation.ground.machines import REUSED_LABEL, Box, State
from tests.simulation.ground.wire import STALE_S, Request
from tests.simulation.markets.market import SimulatedMarket
from tests.simulation.product.blobs import Objects
from tests.simulation.product.daemon import INSTALL_ID, SENTINEL_KEY
from tests.simulation.virtual.clock import at

CHECKERS = {
    "S1": "no create without a committed intent, and none sent twice",
    "S2": "no machine computes for ten minutes that no lease wants, no run goes on twice",
    "S3": "true spend stays below every limit at every instant, excused spend apart",
    "S4": "what has no label of ours is never changed",
    "S5": "a lease is GONE only when the market has no such instance",
    "S6": "the ledger is only added to, in whole nano-dollars",
    "S7": "nothing is rented on a market whose list is not known",
    "S8": "the newest checkpoint is whole, of the run's own epoch, and never lost; no run begins before it",
    "S9": "no key leaves the daemon",
    "S10": "with the daemon dead every running machine ends itself within its permit and two minutes",
    "S11": "what is to go and is still there is told so again within 25 minutes",
    "S12": "markets are not called faster than they allow, nor asked without end to rent for a job or to destroy",
    "S13": "no task ends in an unexpected error",
    "S14": "a job has SUCCEEDED only when its command ended well on some machine, and no run fails twice",
    "S15": "no machine is kept for hours at one stage of getting ready, without ever beginning the command",
    "S16": "no bid is made on a machine within an hour of losing there at that height",
    "S17": "no bid rests on a floor that echoes our own",
    "S18": "a machine that an empty account has stopped is not bid up before it was started, unless against somebody",
    "S19": "no job waits for hours beside a machine that it may have",
    "S20": "no permit of a wanted machine runs out while daemon, store and machine do their part",
    "S21": "a machine that was told to save and stop gets no newer permit",
    "S22": "no job is parked for a limit of the account of which hardly anything is spent",
    "S23": "the store takes nothing for a lease that is over and no more than its share, and refuses no honest machine",
    "S24": "no more machines are rented in an hour than the limits allow",
    "S25": "a job that was cancelled stays so",
    "S26": "no machine is held without money for all of its hold, nor beyond the hold, nor beyond its own lifetime",
    "S27": "the jobs of a token together stay within its allowance at every instant, excused spend apart",
    "S28": "nothing is rented for a job before those that it waits for have ended as it asks, and it may begin once",
    "S29": "each due instant of a schedule becomes one job at most, no earlier than it is due, and none beside another",
    "S30": "the firings of a schedule together stay within its budget at every instant, excused spend apart",
    "S31": "each task of an array is there once, and no more of them are open than the array allows",
    "S32": "a task runs on its own files: nothing of the task that had its machine before is taken for its own",
    "S33": "what the tasks of a machine have cost adds up to what is posted for it",
    "S34": "a machine that failed a task at once, or two in a row, gets no more",
    "S35": "a notice is obeyed while it is in force: what was there is saved in time, and nothing stops after it",
    "S36": "what a market keeps for a machine beside it is gone once the lease is, or is looked for and found",
    "S37": "without other bidders, each price paid stays within one markup of its market's least",
    "S38": "the bid of a stopped machine is raised only where somebody else has bid more for it",
    "S39": "on a market without a certificate all jobs stay within its allowance, on one machine until a permit lapsed",
    "S40": "asked for: no job goes back within six hours to a host on which a machine of it never came up",
    "S41": "asked for: no job fails of hosts that never come up",
    "L1": "in the end nothing of ours is rented that no job wants, and nothing is kept for what is gone",
    "L2": "in the end every intent is resolved",
    "L3": "in the end every job is over, with a reason",
    "L4": "in the end the ledger says what the market billed; where there is no bill, no less",
}

UNPLANNED_OVERLAP_S = 600.0
QUARANTINE_S = 1800.0
"""A ledger that has been put back is in doubt for so long, and what it does not know is left alone."""
MOST_DESTROYS_IN_10_MINUTES = 10
"""By one daemon: after 5 s, twice as long each time, and no longer than 5 minutes."""
MOST_RENTED_IN_10_MINUTES = 4
"""For one job: three intents, and one that was written before and waited for its turn."""
MOST_CREATES_IN_10_MINUTES = MOST_RENTED_IN_10_MINUTES + 20
"""For one job, with those from which nothing came."""
UNREADY_S = 12_600.0
"""Two hours, what a slow link takes to fill the disk, and an hour in which the daemon may not hear of it."""
DESTROY_AGAIN_S = 1500.0
"""The longest pause between two destroys of one machine, and two ticks that do not come to it."""
LANDS_AT_ONCE_S = 60.0
TAIL_S = 120.0
ON_ITS_WAY_S = 180.0
"""From the list that a decision goes by to the call that it leads to."""
SLOW_END_S = 1800.0
"""Beyond that, where its market does not carry out what it asks for."""
STAGES = ("setting_up", "restoring")
"""Of getting ready for the command."""


@dataclass(frozen=True, slots=True)
class Violation:
    checker: str
    at_s: float
    what: str


class Invariants:
    def __init__(self, ground: Ground, markets: Mapping[str, SimulatedMarket], objects: Objects) -> None:
        self.ground = ground
        self._markets = markets
        self._objects = objects
        self.violations: list[Violation] = []
        self.transitions: Counter[tuple[LeaseState, LeaseState]] = Counter()
        self.arrivals: Counter[str] = Counter()
        """Creates that arrived, by label."""
        self._looked_s: dict[str, float] = {}
        """By machine: when the daemon last asked for it alone."""
        self._unwanted_s: dict[str, float] = {}
        self._unready_s: dict[tuple[str, str], float] = {}
        """By machine and stage."""
        self._doubled_s: dict[tuple[str, int], float] = {}
        self._released_s: dict[str, float] = {}
        """By machine: when its lease ceased to want it."""
        self._undestroyed_s: dict[str, float] = {}
        """By id: for how long a machine that is to go has not been told so."""
        self._dark_s: dict[str, float] = {}
        """When each market last carried out nothing at all, of what agents ask for either, and each machine could not
        act."""
        self._newest: dict[str, Checkpoint] = {}
        self._destroys: dict[str, list[tuple[float, int]]] = defaultdict(list)
        """By id: when, and by which of the daemon's lives."""
        self._creates: dict[str, list[tuple[float, str]]] = defaultdict(list)
        """By job: when one was sent, and its label."""
        self._pacing = Pacing(ground, self.add_violation)
        self._leftovers = Leftovers(ground, markets, self._unless_old)
        self._bids = Bids(ground, markets, self._unless_old)
        self._dependants = Dependants(ground, self._unless_old)
        self._conduct = Conduct(ground, markets, objects, self._unless_old, self._dependants.is_held_up)
        self._holds = Holds(ground, markets, self._unless_old)
        self._allowances = Allowances(ground, self._unless_old)
        self._uncertified = Uncertified(ground, self._unless_old)
        self._firings = Firings(ground, self._unless_old)
        self._hosts = Hosts(ground, markets, self._unless_old)
        self._arrays = Arrays(ground, self._boxes, self._unless_old)
        notices = self._notices = Notices(ground, self._unless_old)
        self.give_notice, self.end_notice, self.take_away = notices.give, notices.end, notices.take_away
        self.stop_for_notice = notices.stop
        self.is_ledger_old = False
        """An old copy of it was put back: what was forgotten cannot be held against the daemon."""

    def add_violation(self, checker: str, what: str) -> None:
        if len(self.violations) < 50:
            self.violations.append(Violation(checker, self.ground.now_s, what))
        self.ground.trace("violated", checker, what)

    def _unless_old(self, checker: str, what: str) -> None:
        """What cannot be held against a daemon whose ledger has forgotten it."""
        if not self.is_ledger_old:
            self.add_violation(checker, what)

    def _boxes(self) -> Iterator[Box]:
        for market in self._markets.values():
            yield from list(market.boxes.values())

    # --- at the market

    def send_request(self, asked: Request) -> None:
        """A request of the daemon leaves now."""
        if asked.kind == "destroy" and not asked.by_agent:
            self._note_destroy(asked.box_id)
        if asked.kind != "create":
            return
        label = asked.body.get("label") or asked.body.get("name") or ""
        lease_id, job_id = self.ground.owner_of(label)
        if lease_id is None and not self.is_ledger_old:
            self.add_violation("S1", f"create of {label!r}, which no committed intent names")
        if job_id is None:
            return
        # By when they were sent: a request that dawdles on its way may arrive minutes later, beside newer ones.
        now_s = self.ground.now_s
        lately = self._creates[job_id] = [sent for sent in self._creates[job_id] if sent[0] > now_s - 600]
        lately.append((now_s, label))
        if len(lately) > MOST_CREATES_IN_10_MINUTES:
            self.add_violation("S12", f"{len(lately)} creates for job {job_id[-1]} in ten minutes")
        landed = {box.label for box in self._boxes()}
        rented = 1 + sum(1 for _, other in lately[:-1] if other in landed)
        if rented > MOST_RENTED_IN_10_MINUTES:
            self.add_violation("S12", f"{rented} machines for job {job_id[-1]} in ten minutes")

    def receive_request(self, provider: str, asked: Request, *, client: object, is_late: bool) -> None:
        """A request of ours takes effect now."""
        ground = self.ground
        if asked.kind == "create":
            self._create_arrived(provider, asked)
        if asked.kind in ("drop_cap", "drop_disk"):
            self._dropped(provider, asked)
        if asked.kind in ("bid", "start", "stop", "destroy"):
            box = self._markets[provider].boxes.get(asked.box_id)
            if box is not None and not is_ours(box.label, INSTALL_ID) and not (asked.by_agent or self._is_news(box)):
                self.add_violation("S4", f"{asked.kind} of {box.key}, labelled {box.label!r}")
        if asked.kind == "show" and not asked.by_agent:
            self._looked_s[f"{provider}/{asked.box_id}"] = ground.now_s
        if not asked.by_agent and not is_late:
            self._pacing.arrive(provider, asked, client)

    def _dropped(self, provider: str, asked: Request) -> None:
        """What belongs to a machine, and is told to go beside it."""
        market = self._markets[provider]
        kept = market.kept.get(asked.box_id)
        if kept is None:
            return
        box = market.boxes.get(kept.box_id)
        if not is_ours(kept.label, INSTALL_ID) and (box is None or not self._is_news(box)):
            self.add_violation("S4", f"{asked.kind} of {asked.box_id}, labelled {kept.label!r}")
        if box is not None and box.destroy_sent_s is None and market.needs(box, asked.box_id):
            self.add_violation("S4", f"{asked.kind} of {asked.box_id}, which {box.key} needs")

    def _is_news(self, box: Box) -> bool:
        """Whether it was ours, or its id was, and no list need have told yet that this is over."""
        if box.relabelled_s is None and box.label != REUSED_LABEL:
            return False
        return box.shown_as_others_s is None or self.ground.now_s - box.shown_as_others_s < ON_ITS_WAY_S

    def read_list(self, provider: str) -> None:
        """The daemon gets a list that can be read, which may be as old as lists get."""
        for box in self._markets[provider].boxes.values():
            if box.shown_as_others_s is None and not is_ours(box.label, INSTALL_ID):
                since_s = box.created_s if box.relabelled_s is None else box.relabelled_s
                if self.ground.now_s - since_s >= STALE_S:
                    box.shown_as_others_s = self.ground.now_s

    def _create_arrived(self, provider: str, asked: Request) -> None:
        label = asked.body.get("label") or asked.body.get("name") or ""
        self.arrivals[label] += 1
        if self.arrivals[label] > 1:
            self.add_violation("S1", f"create of {label!r} was sent {self.arrivals[label]} times")
        if SENTINEL_KEY in str(asked.body):
            self.add_violation("S9", f"the key is in the create of {label!r}")

    def _note_destroy(self, box_id: str) -> None:
        self._undestroyed_s.pop(box_id, None)
        now_s, life = self.ground.now_s, self.ground.lives
        lately = [told for told in self._destroys[box_id] if told[0] > now_s - 600 and told[1] == life]
        self._destroys[box_id] = [*lately, (now_s, life)]
        if len(lately) >= MOST_DESTROYS_IN_10_MINUTES:
            self.add_violation("S12", f"{len(lately) + 1} destroys of {box_id} in ten minutes")

    # --- in the ledger

    def commit(self, tables: MemoryTables) -> None:
        """A transaction is about to become durable."""
        for lease_id, lease in tables.leases.changes.items():
            if lease is not None:
                before = self.ground.committed.get("leases", {}).get(lease_id)
                self._lease_changed(before, lease)
                self._bids.change(before, lease)
                self._conduct.change_lease(before, lease, tables)
                self._holds.change(before, lease, tables)
                self._dependants.change_lease(before, lease, tables)
                self._arrays.change_lease(before, lease, tables)
        for job in tables.jobs.changes.values():
            if job is not None:
                self._job_changed(job, tables)
        for entry_id, entry in tables.entries.changes.items():
            self._entry_written(entry_id, entry)
        for checkpoint in tables.checkpoints.changes.values():
            if checkpoint is not None:
                self._checkpoint_named(checkpoint, tables)
        for key, kept in tables.checkpoints.changes.items():
            if kept is None:
                self._removed(key)

    def _job_changed(self, job: Job, tables: MemoryTables) -> None:
        before = self.ground.committed.get("jobs", {}).get(job.id)
        self._conduct.change_job(before, job)
        self._dependants.change_job(before, job, tables)
        self._firings.change_job(before, job, tables)
        self._arrays.change_job(before, job, tables)
        if job.status is JobStatus.SUCCEEDED and not self._arrays.is_finished(job):
            self.add_violation("S14", f"job {job.id[-1]} is a success, but its work was never finished")
        reported = sum(1 for known, _ in self.ground.failed_runs if known == job.id)
        if not self.is_ledger_old and job.failures > reported:
            self.add_violation("S14", f"{job.failures} failures of job {job.id[-1]}, {reported} runs failed")

    def _entry_written(self, entry_id: str, entry: LedgerEntry | None) -> None:
        known = self.ground.committed.get("entries", {}).get(entry_id)
        if entry is None or (known is not None and known != entry):
            self.add_violation("S6", f"entry {entry_id} was changed")
            return
        try:
            assert isinstance(entry.amount, Decimal), "a float"
            to_nano(entry.amount)
        except (AssertionError, ValueError) as problem:
            self.add_violation("S6", f"entry {entry_id}: {problem}")

    def _lease_changed(self, before: Lease | None, after: Lease) -> None:
        was = before.state if before is not None else None
        if was is not None and was is not after.state:
            self.transitions[was, after.state] += 1
        if was is None and after.state is LeaseState.INTENT:
            self._intended(after)
        if before is not None and before.is_wanted and not after.is_wanted:
            self._released_s[f"{after.provider}/{after.instance_id}"] = self.ground.now_s
        if after.state is LeaseState.ABANDONED and was is LeaseState.INTENT:
            self._given_up(after)
        if after.state is LeaseState.GONE and was is not LeaseState.GONE:
            box = self._markets[after.provider].boxes.get(after.instance_id or "")
            if box is not None and box.label == after.label and box.back_s <= self._looked_s.get(box.key, 0.0):
                self.add_violation("S5", f"lease {after.id} is gone, but {box.key} is {box.state.value}")
            self._leftovers.end(after)

    def is_just_released(self, box: Box) -> bool:
        """Whether its lease wanted it until a moment ago, so that its destroy may still be on its way."""
        released_s = self._released_s.get(box.key)
        return released_s is not None and self.ground.now_s - released_s < ON_ITS_WAY_S

    def _intended(self, lease: Lease) -> None:
        if self.ground.is_unreadable(lease.provider):
            self.add_violation("S7", f"an intent for {lease.provider}, whose last list could not be read")

    def _given_up(self, lease: Lease) -> None:
        """An intent is abandoned although its create took effect at once, or the market has shown or said so."""
        for box in self._markets[lease.provider].boxes.values():
            if box.label != lease.label or box.lease_id != lease.id:
                continue
            landed_s = (at(box.created_s) - lease.intended_at).total_seconds()
            if box.is_reported or landed_s < LANDS_AT_ONCE_S:
                self.add_violation("S5", f"lease {lease.id} is abandoned, but {box.key} is {box.state.value}")

    def _checkpoint_named(self, checkpoint: Checkpoint, tables: MemoryTables) -> None:
        before = self.ground.committed["jobs"].get(checkpoint.job_id)
        job, lease = tables.jobs.get(checkpoint.job_id), tables.leases.get(checkpoint.lease_id)
        objects = self._objects
        # The very transaction that takes the last checkpoint of a run may raise the epoch for the next.
        epochs = {known.run_epoch for known in (before, job) if known is not None}
        if checkpoint.run_epoch not in epochs:
            self.add_violation("S8", f"checkpoint of epoch {checkpoint.run_epoch} in epoch {max(epochs, default=0)}")
        problem = objects.fault_of(checkpoint) if lease is not None else "of no lease"
        if problem:
            self.add_violation("S8", f"checkpoint {checkpoint.number} of {checkpoint.lease_id} is named: {problem}")
        newest = self._newest.get(checkpoint.job_id)
        if newest is None or checkpoint.order > newest.order:
            self._newest[checkpoint.job_id] = checkpoint

    def _removed(self, key: tuple[str, int]) -> None:
        """Forgotten on purpose: as surplus, or because it was found harmed."""
        for job_id, newest in list(self._newest.items()):
            if (newest.lease_id, newest.number) == key:
                if not self._objects.fault_of(newest):
                    self.add_violation("S8", f"the newest checkpoint of {job_id} was forgotten although it is whole")
                del self._newest[job_id]

    def forget_ledger(self) -> None:
        """From now on it does not know what it knew: only leaks and what is sent can be held against the daemon."""
        self.is_ledger_old = True
        self._newest.clear()

    # --- in the object store

    def write_object(self, key: str, data: bytes) -> None:
        if SENTINEL_KEY.encode() in data:
            self.add_violation("S9", f"the key is in {key}")

    def delete_object(self, key: str) -> None:
        for job_id, newest in self._newest.items():
            if key in self._objects.keys_of(newest):
                self.add_violation("S8", f"{key} of the newest checkpoint of {job_id} was deleted")

    def take_object(self, box: Box) -> None:
        """A machine has put something."""
        self._conduct.take_object(box)

    def refuse_object(self, box: Box) -> None:
        """The store lets a machine put no more."""
        self._conduct.refuse_object(box)

    # --- on the machines

    def end_permit(self, box: Box) -> None:
        self._conduct.end_permit(box)

    def restore(self, box: Box, lease_id: str, number: int) -> None:
        """A machine goes on from that checkpoint."""
        checkpoint = self.ground.committed.get("checkpoints", {}).get((lease_id, number))
        fault = "" if checkpoint is None else self._objects.fault_of(checkpoint)
        if fault:
            self.add_violation("S8", f"{box.key} goes on from checkpoint {number} of {lease_id}: {fault}")

    def begin_run(self, box: Box, epoch: int, step: int) -> None:
        """The user's command starts from so many steps."""
        if box.disk.owner not in (None, box.job_id):
            self.add_violation("S32", f"{box.key} runs {box.job_id} on the files of {box.disk.owner}")
        newest = None if self.is_ledger_old else self._newest.get(box.job_id or "")
        job = self.ground.committed.get("jobs", {}).get(box.job_id)
        if newest is None or job is None or job.run_epoch != epoch:
            return
        if step < newest.step and not self._objects.fault_of(newest):
            self.add_violation("S8", f"{box.key} begins at step {step} although {newest.step} are saved")

    # --- everywhere

    def report_error(self, where: str, problem: object) -> None:
        self.add_violation("S13", f"{where}: {problem!r}")

    def look(self) -> None:
        """Every minute, and whenever something ends."""
        ground = self.ground
        ground.books.settle_all(ground.now_s)
        if not self.is_ledger_old:
            self._limits()
        self._bids.look()
        self._conduct.look()
        self._holds.look()
        self._allowances.look()
        self._uncertified.look()
        self._firings.look()
        self._arrays.look()
        self._hosts.look()
        self._leftovers.look()
        self._machines()
        self._unready()
        self._check_destroys()
        self._left_alone()

    def _limits(self) -> None:
        ground, books = self.ground, self.ground.books
        firings = {job.id: job.spec for job in ground.committed.get("jobs", {}).values() if job.schedule_id}
        for job_id, spec in (ground.scenario.jobs | firings).items():
            spent = dollars(sum(books.by_job[each] for each in self._arrays.with_tasks(job_id)))
            if spec.budget is not None and spent > spec.budget:
                self._overrun(f"job {job_id[-1]}", spent, spec.budget)
        limits, today = ground.scenario.limits, at(ground.now_s).date()
        if limits.day is not None and dollars(books.by_day[today]) > limits.day:
            self._overrun(f"the day {today}", dollars(books.by_day[today]), limits.day)
        month = today.year, today.month
        if limits.month is not None and dollars(books.by_month[month]) > limits.month:
            self._overrun(f"the month {month}", dollars(books.by_month[month]), limits.month)

    def _overrun(self, scope: str, spent: Decimal, limit: Decimal) -> None:
        if not any(v.checker == "S3" and v.what.startswith(scope) for v in self.violations):
            self.add_violation("S3", f"{scope}: {spent:.6f} of {limit}")

    def _machines(self) -> None:
        """Machines that compute although no lease wants them, and runs that go on twice."""
        ground = self.ground
        leases = ground.committed.get("leases", {})
        unwanted: dict[str, float] = {}
        at_work: Counter[tuple[str, int]] = Counter()
        wanted_at_work: Counter[str] = Counter()
        for box in self._boxes():
            if box.job_id is None or box.state is not State.RUNNING or not is_ours(box.label, INSTALL_ID):
                continue  # what its user has given another label is its user's
            if box.agent is not None and box.agent.is_at_work:
                at_work[box.job_id, box.agent.machine.epoch] += 1
            lease = leases.get(box.lease_id)
            is_held = lease is not None and lease.instance_id == box.id and lease.is_wanted
            if is_held and box.agent is not None and box.agent.is_at_work:
                wanted_at_work[box.job_id] += 1
            if (not is_held or box.is_not_as_asked) and not self._markets[box.provider].excuse_for(box):
                passed_s = CHECKED_EVERY_S if ground.is_able(box.provider) else 0.0
                unwanted[box.key] = self._unwanted_s.get(box.key, 0.0) + passed_s
                if unwanted[box.key] > UNPLANNED_OVERLAP_S + QUARANTINE_S * self.is_ledger_old:
                    self.add_violation("S2", f"{box.key} computes for no job since {unwanted[box.key]:.0f} s")
                    unwanted[box.key] = 0.0
        self._unwanted_s = unwanted
        self._find_doubled(at_work)
        for job_id, number in wanted_at_work.items():
            if number > 1:
                self.add_violation("S2", f"both machines of job {job_id[-1]} are at work")

    def _find_doubled(self, at_work: Counter[tuple[str, int]]) -> None:
        """``at_work``: machines by job and epoch of its run."""
        doubled = {
            run: self._doubled_s.get(run, 0.0) + CHECKED_EVERY_S for run, number in at_work.items() if number > 1
        }
        for (job_id, epoch), for_s in doubled.items():
            # A ledger that was put back counts its runs again; machines that it does not know end with their permits.
            if not self.is_ledger_old or for_s > QUARANTINE_S:
                self.add_violation("S2", f"{at_work[job_id, epoch]} machines run epoch {epoch} of job {job_id[-1]}")
        self._doubled_s = doubled

    def _unready(self) -> None:
        """Machines that we hold and whose agents are busy getting ready all the time."""
        ground, before = self.ground, self._unready_s
        leases = ground.committed.get("leases", {})
        self._unready_s = {}
        for box in self._boxes():
            lease, agent = leases.get(box.lease_id), box.agent
            if lease is None or lease.instance_id != box.id or not lease.is_wanted or agent is None or not agent.is_on:
                continue
            if box.shown_otherwise_s and ground.now_s - box.shown_otherwise_s <= CHECKED_EVERY_S:
                continue  # by what is shown, it starts again
            stage = box.key, agent.machine.state()
            if stage[1] in STAGES and not self.is_ledger_old:
                passed_s = CHECKED_EVERY_S if ground.is_able(box.provider) else 0.0
                self._unready_s[stage] = before.get(stage, 0.0) + passed_s
                if self._unready_s[stage] > UNREADY_S:
                    self.add_violation("S15", f"{box.key} is {stage[1]} for {self._unready_s[stage]:.0f} s")
                    self._unready_s[stage] = 0.0

    def _check_destroys(self) -> None:
        ground, undestroyed_s = self.ground, self._undestroyed_s
        leases = ground.committed.get("leases", {})
        self._undestroyed_s = {}
        for box in self._boxes():
            lease = leases.get(box.lease_id)
            if lease is None or lease.instance_id != box.id or lease.label != box.label:
                continue
            if lease.state not in (LeaseState.DESTROY_REQUESTED, LeaseState.DESTROY_SENT):
                continue
            passed_s = CHECKED_EVERY_S if ground.is_able(box.provider) else 0.0
            self._undestroyed_s[box.id] = undestroyed_s.get(box.id, 0.0) + passed_s
            if self._undestroyed_s[box.id] > DESTROY_AGAIN_S:
                self.add_violation("S11", f"{box.key} was not told to go for {self._undestroyed_s[box.id]:.0f} s")
                self._undestroyed_s[box.id] = 0.0

    def _left_alone(self) -> None:
        """With the daemon out for long, machines that run and could end themselves."""
        ground = self.ground
        for name in self._markets:
            if any(ground.faults.ends_at(row, name, ground.now_s) > ground.now_s for row in DARK):
                self._dark_s[name] = ground.now_s
        since_s = ground.out_since_s
        for box in self._boxes():
            agent = box.agent
            if agent is None or not agent.is_on or box.is_suspended or box.state is not State.RUNNING:
                self._dark_s[box.key] = ground.now_s + CHECKED_EVERY_S  # it may come back just before the next look
                continue
            if since_s is None or box.relabelled_s is not None:
                continue
            able_s = max(self._dark_s.get(name, 0.0) for name in (box.provider, box.key))
            left_alone_s = ground.now_s - max(since_s, box.permit_until_s, able_s)
            is_asked = box.destroy_sent_s is not None
            if left_alone_s > TAIL_S + SLOW_END_S * is_asked:
                self.add_violation("S10", f"{box.key} still runs {left_alone_s:.0f} s after its permit")

    def outlive(self, box: Box, for_s: float) -> None:
        """A machine has run for so long since the daemon's death, or since its last boot."""
        is_late = box.relabelled_s is None and for_s > self.ground.permit_ttl_s + TAIL_S
        if is_late and not any(v.what.startswith(box.key) for v in self.violations):
            self.add_violation("S10", f"{box.key} still runs {for_s:.0f} s after the daemon's death")
