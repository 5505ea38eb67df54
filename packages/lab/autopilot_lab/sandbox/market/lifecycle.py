"""How one instance changes state, what that does to its meters and processes, and what the customer is told.

    seize ─► (provisioning) ─► loading ─► running ─► exited
      ▲                           │          │         │
      └──── release(cause) ◄──────┴──────────┴─────────┘      destroy from anywhere

The hardware contract flips at once; ``actual`` follows after ``status_lag_s``. GPUs are billed from the moment the
container runs until the contract flips; the disk from creation; nothing while the host is offline. A container that
exits by itself keeps its GPUs and their bill.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from autopilot_lab.sandbox.host_traits import HostTraits, StartFailure, StartStage, find_failure
from autopilot_lab.sandbox.market.agenda import Action, Agenda
from autopilot_lab.sandbox.market.instances import RUNNING, STOPPED, Cause, Container, Contract, Defect
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.metering import DISK, GPU

_PULLING = "4c7d45f7c63c: Download complete\n"
_PULL_FAILED = (
    "Error response from daemon: failed to create task for container: failed to create shim task: "
    "OCI runtime create failed: runc create failed\n"
)


@dataclass(frozen=True)
class Timings:
    """Market seconds."""

    provision_s: float = 4.0
    """From create until the row shows a status at all."""
    loading_s: float = 40.0
    """From create until the container runs."""
    resume_s: float = 20.0
    """From regaining the GPUs until the container runs again."""
    status_lag_s: float = 30.0
    """How long the reported status lags behind a stop."""
    underbid_delay_s: float = 47.0
    """From lowering a bid until the auction sees it."""
    bid_echo_lag_s: float = 16.0
    """From a changed bid until the machine's ``min_bid`` echoes it."""
    warned_for_s: float = 5.0
    """From SIGTERM to SIGKILL, where the market warns at all."""
    expiry_grace_s: float = 48 * 3600.0
    """From the contract's end until its row is deleted."""


class Containers(Protocol):
    """Runs what an instance runs. Calls return at once and take effect in order for each instance."""

    def start(self, instance: Contract) -> None: ...

    def terminate(self, instance_id: int) -> None:
        """SIGTERM to the first process; ``kill`` has to follow."""
        ...

    def kill(self, instance_id: int) -> None: ...

    def wipe(self, instance_id: int) -> None:
        """Kill, and remove the disk."""
        ...


class NoContainers:
    """Instances that run nothing: for tests of the market alone."""

    def start(self, instance: Contract) -> None: ...

    def terminate(self, instance_id: int) -> None: ...

    def kill(self, instance_id: int) -> None: ...

    def wipe(self, instance_id: int) -> None: ...


@dataclass(frozen=True)
class Notice:
    """A row of the customer's inbox. ``new_min_bid`` is known for an outbid only."""

    kind: str
    at: datetime
    instance_id: int
    machine_id: int
    price: Decimal
    new_min_bid: Decimal | None = None


class Lifecycle:
    def __init__(
        self,
        timings: Timings,
        agenda: Agenda,
        journal: Journal,
        containers: Containers,
        now: Callable[[], datetime],
        burn_changed: Callable[[], None],
        floor_of: Callable[[Contract], Decimal],
        broken: set[str],
        bill_pull: Callable[[Contract], None],
        traits_of: Callable[[Contract], HostTraits],
    ) -> None:
        """``broken``: claims about the market that it breaks; see ``Exchange``."""
        self._floor_of = floor_of
        self._traits_of = traits_of
        self._broken = broken
        self._bill_pull = bill_pull
        self._timings = timings
        self._agenda = agenda
        self._journal = journal
        self._containers = containers
        self._now = now
        self._burn_changed = burn_changed
        self.notices: list[Notice] = []

    def seize(self, instance: Contract) -> None:
        """The instance holds its GPUs from now on and begins to load."""
        resumed = instance.boots > 0
        if resumed and "disk-kept" in self._broken:
            self._containers.wipe(instance.id)
            self._record("disk.lost", instance)
        instance.holding, instance.cause = True, None
        instance.intended = instance.cur_state = instance.next_state = RUNNING
        self._load(instance, first_time=not resumed)
        self._record("instance.resumed" if resumed else "instance.started", instance, price=instance.price)

    def release(self, instance: Contract, cause: Cause, new_min_bid: Decimal | None = None) -> None:
        """The instance loses its GPUs now: billing ends, its processes die, the reported status lags."""
        now = self._now()
        instance.holding, instance.cause = False, cause
        instance.intended = instance.cur_state = instance.next_state = STOPPED
        instance.epoch += 1
        instance.ran_at = None
        instance.meter.halt(GPU, now)
        if instance.container is not Container.ABSENT:
            self._end_container(instance)
        self._later(instance, self._timings.status_lag_s, lambda: self._report_stopped(instance))
        voluntary = cause in (Cause.USER, Cause.EXPIRED)
        self._record("instance.stopped" if voluntary else "instance.paused", instance, cause=str(cause))
        lost = cause in (Cause.OUTBID, Cause.DISPLACED)
        self._notify("outbid" if lost else "stopped", instance, new_min_bid)
        self._burn_changed()

    def _end_container(self, instance: Contract) -> None:
        """Abruptly, or with a warning where that claim is broken."""
        instance.container = Container.ABSENT
        if "no-sigterm" not in self._broken:
            self._containers.kill(instance.id)
            return
        self._containers.terminate(instance.id)
        self._record("container.warned", instance)
        self._later(instance, self._timings.warned_for_s, lambda: self._containers.kill(instance.id))

    def bill_gpus(self, instance: Contract) -> None:
        """From now on at its price, as it is now."""
        price = self._floor_of(instance) if "bid-is-paid" in self._broken else instance.price
        instance.meter.run(GPU, Fraction(price), self._now())

    def bill_disk(self, instance: Contract) -> None:
        factor = 2 if "disk-is-billed" in self._broken else 1
        instance.meter.run(DISK, factor * instance.storage_rate, self._now())

    def park(self, instance: Contract, cause: Cause) -> None:
        """An instance that holds no GPUs stays, or becomes, stopped."""
        instance.intended = instance.cur_state = instance.next_state = STOPPED
        instance.cause = cause
        if instance.actual is None:
            instance.actual = STOPPED

    def queue(self, instance: Contract) -> None:
        """A start that has to wait for GPUs."""
        instance.intended = instance.next_state = RUNNING
        instance.cur_state = STOPPED
        self._record("instance.start_queued", instance)

    def reboot(self, instance: Contract) -> None:
        self._containers.kill(instance.id)
        instance.meter.halt(GPU, self._now())
        self._load(instance, first_time=False)
        self._record("instance.rebooted", instance)
        self._burn_changed()

    def container_exited(self, instance: Contract, exit_code: int) -> None:
        instance.container = Container.EXITED
        instance.actual = "exited"
        self._record("container.exited", instance, exit_code=exit_code)

    def host_lost(self, instance: Contract) -> None:
        instance.epoch += 1
        instance.ran_at = None
        instance.meter.halt_all(self._now())
        if instance.container is not Container.ABSENT:
            self._containers.kill(instance.id)
            instance.container = Container.LOADING
        self._record("instance.offline", instance)
        self._notify("offline", instance)
        self._burn_changed()

    def host_returned(self, instance: Contract) -> None:
        self.bill_disk(instance)
        if instance.holding:
            self._load(instance, first_time=False)
        else:
            self._report_stopped(instance)
        self._record("instance.online", instance)
        self._notify("online", instance)
        self._burn_changed()

    def expire(self, instance: Contract) -> None:
        instance.wants_gpus = False
        if instance.holding:
            self.release(instance, Cause.EXPIRED)
        else:
            self.park(instance, Cause.EXPIRED)
        instance.epoch += 1
        instance.actual = STOPPED

    def destroy(self, instance: Contract, by: str) -> None:
        now = self._now()
        instance.holding = instance.wants_gpus = False
        instance.epoch += 1
        instance.container = Container.ABSENT
        instance.meter.halt_all(now)
        instance.destroyed_at = now
        self._containers.wipe(instance.id)
        self._record("instance.destroyed", instance, by=by)
        self._burn_changed()

    def _load(self, instance: Contract, *, first_time: bool) -> None:
        instance.epoch += 1
        instance.container = Container.LOADING
        instance.ran_at = None
        if first_time:
            self._later(instance, self._timings.provision_s, lambda: self._report_loading(instance))
            delay_s = self._timings.loading_s
        else:
            self._report_loading(instance)
            delay_s = self._timings.resume_s
        refused = instance.order.pull_refusal
        if refused is not None and "refused-pull-is-told" in self._broken:
            pass  # it loads for ever
        elif refused is not None:
            self._later(instance, self._timings.provision_s, lambda: self._report_failed(instance, refused))
        elif instance.order.defect is None:
            self._start_on_host(instance, delay_s)
        elif instance.order.defect is Defect.PULL_FAILED:
            self._later(instance, delay_s, lambda: self._report_failed(instance, _PULL_FAILED))

    def _start_on_host(self, instance: Contract, delay_s: float) -> None:
        failure = find_failure(self._traits_of(instance), instance.order.image)
        if failure is None:
            self._later(instance, delay_s, lambda: self._run(instance))
        elif failure.stage is not StartStage.LOADING:
            self._later(instance, delay_s, lambda: self._report_failed(instance, _words(failure)))

    def _run(self, instance: Contract) -> None:
        now = self._now()
        instance.container = Container.RUNNING
        instance.actual = RUNNING
        instance.status_msg = f"success, running {instance.order.image}\n"
        instance.ran_at = now
        instance.boots += 1
        if instance.boots == 1:
            self._bill_pull(instance)
        self.bill_gpus(instance)
        if self._traits_of(instance).has_network:
            self._containers.start(instance)
        self._record("instance.running", instance, boot=instance.boots, price=instance.price)
        self._notify("instance_started" if instance.boots == 1 else "instance_resumed", instance)
        self._burn_changed()

    def _report_loading(self, instance: Contract) -> None:
        instance.actual, instance.status_msg = "loading", _PULLING

    def _report_failed(self, instance: Contract, words: str) -> None:
        instance.actual, instance.status_msg = "created", words

    def _report_stopped(self, instance: Contract) -> None:
        instance.actual = "exited" if instance.boots else STOPPED

    def _later(self, instance: Contract, delay_s: float, action: Action) -> None:
        """Run ``action`` after ``delay_s``, unless the instance has moved on by then."""
        epoch = instance.epoch

        def act() -> None:
            if instance.epoch == epoch:
                action()

        self._agenda.at(self._now() + timedelta(seconds=delay_s), act)

    def _record(self, kind: str, instance: Contract, **fields: object) -> None:
        identity = {"instance_id": instance.id, "machine_id": instance.machine_id, "label": instance.label}
        self._journal.record(self._now(), kind, **identity, **fields)

    def _notify(self, kind: str, instance: Contract, new_min_bid: Decimal | None = None) -> None:
        self.notices.append(Notice(kind, self._now(), instance.id, instance.machine_id, instance.price, new_min_bid))


def _words(failure: StartFailure) -> str:
    """As its host tells them."""
    return f"{'Error response from daemon: ' * (failure.stage is StartStage.CREATE)}{failure.words}\n"
