"""How one pod changes state, what that does to its meters and processes, and what its records say.

    start ─► creating ─► running ⇄ restarting        stop, evict: SIGTERM, grace, SIGKILL, container disk wiped
      ▲                     │                        terminate from anywhere: everything but a network volume goes
      └───── stopped ◄──────┘

GPUs are billed while the pod is RUNNING, from the very rental on; a command that ends by itself is started again for
ever and changes nothing about the bill; a stopped pod's volume costs double; nothing costs while the host is down.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Protocol

from autopilot_lab.sandbox.host_traits import (
    NO_NETWORK_TRIES_S,
    NO_NETWORK_WORDS,
    HostTraits,
    StartFailure,
    StartStage,
    find_failure,
)
from autopilot_lab.sandbox.market.agenda import Action, Agenda
from autopilot_lab.sandbox.market.journal import Journal
from autopilot_lab.sandbox.market.metering import DISK, GPU
from autopilot_lab.sandbox.runpod.pods import Cause, Container, Defect, Pod, Status

_BOOT_FAILURE_S = (2.0, 6.0)
_TRIED_AGAIN_S = 30.0
"""From a container that cannot be made until it is tried again."""
_OTHER_SHARE = Fraction(4, 5)
"""Of its price, that a pod is billed where a pod is not billed at its price."""


@dataclass(frozen=True)
class Timings:
    """Market seconds."""

    pull_s: float = 40.0
    """From renting until the container runs."""
    resume_s: float = 15.0
    """From resuming until the container runs again: the image is there."""
    restart_s: float = 2.0
    """From the end of a container's command until it is started again."""
    grace_s: float = 5.0
    """From SIGTERM to SIGKILL."""
    stale_runtime_s: float = 20.0
    """How long a stopped pod still shows its runtime."""


class PodContainers(Protocol):
    """Runs what a pod runs. Calls return at once and take effect in order for each pod."""

    def start(self, pod: Pod) -> None: ...

    def terminate(self, pod: Pod) -> None:
        """SIGTERM."""
        ...

    def kill(self, pod: Pod) -> None: ...

    def wipe_container(self, pod: Pod) -> None:
        """Kill, and remove the container disk."""
        ...

    def wipe(self, pod: Pod) -> None:
        """Kill, and remove every disk of its own."""
        ...


class NoPodContainers:
    """Pods that run nothing."""

    def start(self, pod: Pod) -> None: ...

    def terminate(self, pod: Pod) -> None: ...

    def kill(self, pod: Pod) -> None: ...

    def wipe_container(self, pod: Pod) -> None: ...

    def wipe(self, pod: Pod) -> None: ...


class Lifecycle:
    def __init__(
        self,
        timings: Timings,
        agenda: Agenda,
        journal: Journal,
        containers: PodContainers,
        seed: int,
        now: Callable[[], datetime],
        burn_changed: Callable[[], None],
        broken: set[str],
        traits_of: Callable[[Pod], HostTraits],
    ) -> None:
        """``broken``: claims about the market that it breaks; see ``Exchange``."""
        self._traits_of = traits_of
        self._broken = broken
        self._timings = timings
        self._agenda = agenda
        self._journal = journal
        self._containers = containers
        self._rng = random.Random(f"boot:{seed}")  # noqa: S311 - reproducible, no secret
        self._now = now
        self._burn_changed = burn_changed

    def start(self, pod: Pod, gpu_count: int, cost_per_hr: Decimal) -> None:
        """The pod holds its GPUs from now on, is billed for them, and its container is created."""
        now = self._now()
        resumed = pod.starts > 0
        if resumed and "volume-kept" in self._broken:
            self._containers.wipe(pod)
            self._record("volume.lost", pod)
        pod.status, pod.cause = Status.RUNNING, None
        pod.gpu_count, pod.cost_per_hr = gpu_count, cost_per_hr
        pod.starts += 1
        pod.last_started_at = now
        strange = resumed and "resumed-words" in self._broken
        pod.last_status_change = f"{'Woken' if strange else 'Rented'} by User: {javascript_date(now)}"
        self._run_meters(pod)
        self._create_container(pod, self._timings.resume_s if resumed else self._timings.pull_s)
        self._record("pod.resumed" if resumed else "pod.started", pod, cost_per_hr=cost_per_hr, gpu_count=gpu_count)
        self._burn_changed()

    def stop(self, pod: Pod, cause: Cause) -> None:
        """The GPUs are free at once; the processes get a grace period; the container disk goes, the volume stays."""
        self._leave(pod, cause)
        pod.status = Status.EXITED
        if pod.stopped_disk_rate and "disk-is-billed" not in self._broken:
            pod.meter.run(DISK, pod.stopped_disk_rate, self._now())
        else:
            pod.meter.halt(DISK, self._now())
        involuntary = cause in (Cause.OUTBID, Cause.DISPLACED)
        self._record("pod.outbid" if involuntary else "pod.stopped", pod, cause=str(cause))
        self._after_grace(pod, self._containers.wipe_container)
        self._burn_changed()

    def vanish(self, pod: Pod, cause: Cause) -> None:
        """Outbid, and the host took the pod away altogether."""
        self._leave(pod, cause)
        self._end(pod)
        self._record("pod.vanished", pod, cause=str(cause))
        self._after_grace(pod, self._containers.wipe)
        self._burn_changed()

    def terminate(self, pod: Pod, cause: Cause) -> None:
        if pod.status is Status.RUNNING:
            self._leave(pod, cause)
        self._end(pod)
        self._containers.wipe(pod)
        self._record("pod.terminated", pod, cause=str(cause))
        self._burn_changed()

    def reset(self, pod: Pod) -> None:
        """Run again from a fresh container disk: a restart, or an edit of a running pod."""
        self._run_meters(pod)
        self._after_grace(pod, self._containers.wipe_container)
        self._create_container(pod, self._timings.resume_s)
        self._record("pod.reset", pod)
        self._burn_changed()

    def container_exited(self, pod: Pod, exit_code: int) -> None:
        pod.container, pod.exited_at = Container.RESTARTING, self._now()
        self._record("container.exited", pod, exit_code=exit_code)
        self._later(pod, self._timings.restart_s, lambda: self._run(pod))

    def host_lost(self, pod: Pod) -> None:
        pod.epoch += 1
        pod.container, pod.ran_at, pod.runtime_stale_until = Container.ABSENT, None, None
        pod.meter.halt_all(self._now())
        self._containers.kill(pod)
        self._record("pod.offline", pod)
        self._burn_changed()

    def host_returned(self, pod: Pod) -> None:
        if pod.status is Status.RUNNING:
            self._run_meters(pod)
            self._create_container(pod, self._timings.resume_s)
        elif pod.stopped_disk_rate:
            pod.meter.run(DISK, pod.stopped_disk_rate, self._now())
        self._record("pod.online", pod)
        self._burn_changed()

    def _run_meters(self, pod: Pod) -> None:
        share = _OTHER_SHARE if "bid-is-paid" in self._broken else 1
        pod.meter.run(GPU, share * Fraction(pod.cost_per_hr), self._now())
        if "disk-is-billed" not in self._broken:
            pod.meter.run(DISK, pod.running_disk_rate, self._now())

    def _create_container(self, pod: Pod, delay_s: float) -> None:
        now = self._now()
        pod.epoch += 1
        pod.container, pod.ran_at, pod.runtime_stale_until = Container.CREATING, None, None
        if pod.dying_until is not None and pod.dying_until > now:
            delay_s = max(delay_s, (pod.dying_until - now).total_seconds())
        pod.write_log(now, "system", f"create container: still fetching image {pod.order.image}")
        if pod.order.pull_refusal is not None:
            if "refused-pull-is-told" not in self._broken:
                pod.write_log(now, "system", f"error pulling image: {pod.order.pull_refusal.strip()}")
        elif pod.order.defect is None:
            self._start_on_host(pod, delay_s)
        if pod.order.pull_refusal is not None or pod.order.defect is Defect.BOOT_FAILED:
            self._later(pod, self._rng.uniform(*_BOOT_FAILURE_S), lambda: self.stop(pod, Cause.BOOT_FAILED))

    def _start_on_host(self, pod: Pod, delay_s: float) -> None:
        failure = find_failure(self._traits_of(pod), pod.order.image)
        if failure is None:
            self._later(pod, delay_s, lambda: self._run(pod))
        elif failure.stage is StartStage.PULL:
            pod.write_log(self._now(), "system", f"error pulling image: {failure.words}")
            self._later(pod, self._rng.uniform(*_BOOT_FAILURE_S), lambda: self.stop(pod, Cause.BOOT_FAILED))
        elif failure.stage is StartStage.CREATE:
            self._later(pod, delay_s, lambda: self._try_in_vain(pod, failure))

    def _try_in_vain(self, pod: Pod, failure: StartFailure) -> None:
        """To make the container: for ever, and the pod is billed."""
        pod.write_log(self._now(), "system", f"start container for {pod.order.image}: begin")
        said = f"error starting container: Error response from daemon: {failure.words}"
        for line in said.splitlines():
            pod.write_log(self._now(), "system", line)
        self._later(pod, _TRIED_AGAIN_S, lambda: self._try_in_vain(pod, failure))

    def _run(self, pod: Pod) -> None:
        pod.container, pod.ran_at = Container.RUNNING, self._now()
        pod.boots += 1
        pod.write_log(self._now(), "system", "start container")
        if self._traits_of(pod).has_network:
            self._containers.start(pod)
        else:
            for delay_s in NO_NETWORK_TRIES_S:
                self._later(pod, delay_s, lambda: pod.write_log(self._now(), "container", NO_NETWORK_WORDS))
        self._record("container.started", pod, boot=pod.boots)

    def _leave(self, pod: Pod, cause: Cause) -> None:
        """What every end of a run has in common."""
        now = self._now()
        pod.epoch += 1
        pod.cause = cause
        pod.last_status_change = _status_change(cause, now)
        pod.meter.halt(GPU, now)
        if pod.container is not Container.ABSENT:
            pod.write_log(now, "system", "stop container")
        if pod.container is Container.RUNNING:
            pod.runtime_stale_until = now + timedelta(seconds=self._timings.stale_runtime_s)
        pod.container = Container.ABSENT

    def _end(self, pod: Pod) -> None:
        pod.epoch += 1
        pod.status, pod.terminated_at = Status.TERMINATED, self._now()
        pod.meter.halt_all(self._now())

    def _after_grace(self, pod: Pod, clear: Callable[[Pod], None]) -> None:
        """SIGTERM now, ``clear`` (which kills) when the grace is over, also if the pod changes meanwhile."""
        if "sigterm-five-seconds" in self._broken:
            clear(pod)
            return
        self._containers.terminate(pod)
        self._record("pod.warned", pod)
        pod.dying_until = self._now() + timedelta(seconds=self._timings.grace_s)
        self._agenda.at(pod.dying_until, lambda: clear(pod))

    def _later(self, pod: Pod, delay_s: float, action: Action) -> None:
        """Run ``action`` after ``delay_s``, unless the pod has moved on by then."""
        epoch = pod.epoch

        def act() -> None:
            if pod.epoch == epoch:
                action()

        self._agenda.at(self._now() + timedelta(seconds=delay_s), act)

    def _record(self, kind: str, pod: Pod, **fields: object) -> None:
        identity = {"pod_id": pod.id, "machine_id": pod.machine_id, "name": pod.order.name}
        self._journal.record(self._now(), kind, **identity, **fields)


def javascript_date(instant: datetime) -> str:
    return f"{instant:%a %b %d %Y %H:%M:%S} GMT+0000 (Coordinated Universal Time)"


def _status_change(cause: Cause, now: datetime) -> str:
    date = javascript_date(now)
    if cause in (Cause.OUTBID, Cause.DISPLACED):
        return f"Outbid: {date}"
    if cause is Cause.USER:
        return f"Exited by user: {date}"
    if cause is Cause.OUT_OF_BALANCE:
        return f"Exited by Runpod: {date}: Insufficient balance"
    return f"Exited by Runpod: {date}"
