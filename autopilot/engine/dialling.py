"""Machines that the daemon dials: which of them, at what address, and whether its key may log in there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from autopilot.domain import events as e
from autopilot.domain.instance import Instance, InstanceStatus, SshAddress
from autopilot.domain.lease import Lease
from autopilot.domain.reasons import Reason
from autopilot.engine.calls import AVOID_AFTER_RELEASE, Avoid
from autopilot.engine.event_log import EventLog
from autopilot.engine.observe import Reading
from autopilot.ports.clock import Clock
from autopilot.ports.provider import Done, Provider, Refused, Unknown
from autopilot.ports.tunnels import Dialled, TunnelFault, Tunnels, TunnelState

log = structlog.get_logger(__name__)

ATTACH_AGAIN_AFTER = timedelta(minutes=2)
"""While a login is refused: keys were seen to vanish from machines, and a new one may take a while to count."""
SAID_AFTER_S = 120
"""Real seconds. A connection that is made again sooner is no trouble worth a word."""
REFUSED_FOR_S = 60
"""Real seconds in which an SSH server has not forwarded, at several tries."""
AT_ONCE_SAID = frozenset({TunnelFault.HOST_KEY_CHANGED, TunnelFault.LOGIN_REFUSED})
ATTACHES_WAIT_REAL_S = 10.0
"""How long a tick waits for the market to take keys before it goes on without."""


@dataclass(frozen=True, slots=True)
class TunnelTrouble:
    """A machine whose connection is in trouble for long enough to be said."""

    lease: Lease
    fault: TunnelFault
    down_s: int


class Dialling:
    """Keeps nothing that matters: a daemon that begins attaches its key and dials again."""

    def __init__(self, providers: Mapping[str, Provider], tunnels: Tunnels | None, clock: Clock) -> None:
        """``tunnels`` None: machines reach the store by themselves."""
        self._providers = providers
        self._tunnels = tunnels
        self._clock = clock
        self._addresses: dict[str, tuple[SshAddress, ...]] = {}
        """By lease, as its market has shown them last."""
        self._attached: dict[str, tuple[str, datetime]] = {}
        """By lease: the start of the machine for which the key was last attached, and when."""
        self._attaching: dict[str, asyncio.Task[None]] = {}
        self.states: Mapping[str, TunnelState] = {}

    @property
    def is_on(self) -> bool:
        return self._tunnels is not None

    async def follow(self, leases: Iterable[Lease], readings: Mapping[str, Reading]) -> None:
        """Dial those that run, and let the key in where it is not yet, or not any more."""
        if self._tunnels is None:
            return
        held = [lease for lease in leases if lease.instance_id is not None and not lease.is_over]
        for lease in held:
            self._look(lease, readings.get(lease.provider))
        self._forget(frozenset(lease.id for lease in held))
        self.states = await self._tunnels.states()
        await self._tunnels.dial([_make_dialled(lease, self._addresses.get(lease.id, ())) for lease in held])
        for lease in held:
            if self._addresses.get(lease.id) and self._needs_key(lease):
                self._begin(lease, self._tunnels.public_key)
        if self._attaching:
            await asyncio.wait(set(self._attaching.values()), timeout=ATTACHES_WAIT_REAL_S)

    def list_troubles(self, leases: Iterable[Lease]) -> Iterator[TunnelTrouble]:
        for lease in leases:
            state = self.states.get(lease.id)
            if state is None or state.fault is None or not self._addresses.get(lease.id):
                continue
            is_new_key = state.fault is TunnelFault.LOGIN_REFUSED and self._is_fresh(lease)
            most_s = REFUSED_FOR_S if state.fault is TunnelFault.FORWARDING_REFUSED else SAID_AFTER_S
            if (state.fault in AT_ONCE_SAID and not is_new_key) or state.down_s >= most_s:
                yield TunnelTrouble(lease, state.fault, state.down_s)

    def give_up_unreachable(self, event_log: EventLog, avoid: Avoid, now: datetime) -> None:
        """Machines that were never heard, and whose SSH servers do not forward: they would bill until they end
        themselves. A certification judges that itself."""
        for lease in event_log.job.leases:
            state = self.states.get(lease.id)
            is_refused = state is not None and state.fault is TunnelFault.FORWARDING_REFUSED
            lasts = state is not None and state.down_s >= REFUSED_FOR_S
            if is_refused and lasts and lease.is_wanted and not lease.agent.boot and not event_log.job.certifies:
                avoid.add(lease, now, AVOID_AFTER_RELEASE[Reason.BAD_MACHINE])
                event_log.apply(e.ReleaseRequested(lease.id, Reason.AGENT_SILENT, now))

    def forwards(self, lease_id: str) -> bool | None:
        """Whether the machine's SSH server does; None while that is not known."""
        state = self.states.get(lease_id)
        if state is None or not (state.is_up or state.fault is TunnelFault.FORWARDING_REFUSED):
            return None
        return state.is_up

    def _look(self, lease: Lease, reading: Reading | None) -> None:
        """Of a market that cannot be read, what it has shown last holds."""
        if reading is None or reading.instances is None:
            return
        shown: Instance | None = next(
            (each for each in reading.instances if each.instance_id == lease.instance_id), None
        )
        runs = shown is not None and shown.status is InstanceStatus.RUNNING
        self._addresses[lease.id] = shown.ssh if shown is not None and runs else ()

    def _needs_key(self, lease: Lease) -> bool:
        if lease.id in self._attaching:
            return False
        known = self._attached.get(lease.id)
        if known is None or known[0] != _generation(lease):
            return True
        state = self.states.get(lease.id)
        is_refused = state is not None and state.fault is TunnelFault.LOGIN_REFUSED
        return is_refused and self._clock.now() - known[1] >= ATTACH_AGAIN_AFTER

    def _is_fresh(self, lease: Lease) -> bool:
        """Whether its key was attached so lately that a refused login is no wonder."""
        known = self._attached.get(lease.id)
        return known is None or self._clock.now() - known[1] < ATTACH_AGAIN_AFTER

    def _begin(self, lease: Lease, key: str) -> None:
        task = self._attaching[lease.id] = asyncio.create_task(self._attach(lease, key))
        task.add_done_callback(lambda _: self._attaching.pop(lease.id, None))

    async def _attach(self, lease: Lease, key: str) -> None:
        """What the market answers is only said: whether the key is let in, the login shows."""
        provider, instance_id = self._providers.get(lease.provider), lease.instance_id
        keys = None if provider is None else provider.ssh_keys
        if keys is None or instance_id is None:
            return
        outcome: Done[None] | Refused | Unknown = await keys.attach(instance_id, key)
        if isinstance(outcome, Unknown):
            log.warning("ssh_key.unknown", lease=lease.id, reason=outcome.message, consequence="it is attached again")
            return
        self._attached[lease.id] = _generation(lease), self._clock.now()
        if isinstance(outcome, Refused):
            log.warning("ssh_key.refused", lease=lease.id, reason=outcome.message, consequence="the login is tried")

    def _forget(self, held: frozenset[str]) -> None:
        for kept in (self._addresses, self._attached):
            for lease_id in kept.keys() - held:
                del kept[lease_id]


def _generation(lease: Lease) -> str:
    since = lease.observed.running_since
    return "" if since is None else since.isoformat()


def _make_dialled(lease: Lease, addresses: tuple[SshAddress, ...]) -> Dialled:
    return Dialled(lease.id, _generation(lease), addresses if lease.observed.running_since is not None else ())
