"""The moves of the market: what customers, rivals and hosts may do, each at the market's present moment."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from decimal import Decimal
from fractions import Fraction

from autopilot_lab.sandbox.market.exchange import Exchange, NoSuchAsk
from autopilot_lab.sandbox.market.instances import Cause, Container, Contract, RentOrder, storage_rate
from autopilot_lab.sandbox.market.machines import Chunk, HostState, Machine, Stranger
from autopilot_lab.sandbox.market.metering import DOWN, GPU, UP
from autopilot_lab.sandbox.market.quotes import PRICE_UNIT, free_of_on_demand

LEAST_RAISE = Decimal("0.005")
"""$/h: where raises have a least size."""


class CannotStart(Exception):
    """The order would not get its GPUs, and asked for no contract in that case."""


class InsufficientCredit(Exception):
    pass


class OrderRefused(Exception):
    """The market does not allow this; the text says why."""


class SandboxMarket(Exchange):
    """The exchange, and the moves that customers, strangers and hosts may make on it."""

    # --- customers

    def create(self, order: RentOrder) -> Contract:
        """Rent. The instance may come out stopped, when its bid does not win: look at ``holding``.

        Raises ``NoSuchAsk``, ``CannotStart`` (only with ``cancel_unavail``) and ``InsufficientCredit``.
        """
        self.record("create.requested", label=order.label, offer_id=order.offer_id, price=order.price)
        machine, chunk = self.find_offer(order.offer_id)
        if machine.is_full:
            raise NoSuchAsk(order.offer_id)
        if self.credit <= 0:
            raise InsufficientCredit
        if order.price is None and not free_of_on_demand(machine, self.tenants_of(machine), chunk):
            raise NoSuchAsk(order.offer_id)
        instance = self._draft(machine, chunk, order)
        leaves_losers = "losing-bid-refused" in self.broken
        if order.cancel_unavail and not leaves_losers and not self.would_win(machine, instance):
            self.record(
                "create.lost",
                label=order.label,
                machine_id=machine.spec.machine_id,
                num_gpus=len(chunk),
                price=instance.price,
                is_bid=instance.is_bid,
            )
            raise CannotStart(order.offer_id)
        self.instances[instance.id] = instance
        self.lifecycle.bill_disk(instance)
        instance.wants_gpus = not (order.start_stopped or order.must_lose)
        self.record(
            "instance.created",
            instance_id=instance.id,
            machine_id=machine.spec.machine_id,
            label=instance.label,
            price=instance.price,
            is_bid=instance.is_bid,
        )
        self.agenda.at(instance.end_date, lambda: self._expire(instance))
        self.settle(machine)
        if not instance.holding:
            self.lifecycle.park(instance, Cause.USER if order.start_stopped else Cause.OUTBID)
            self.record("instance.created_stopped", instance_id=instance.id, label=instance.label)
        self.watch_credit()
        return instance

    def start(self, instance_id: int) -> bool:
        """Whether the instance got its GPUs; if not, the start stays queued.

        Raises ``NoSuchInstance``, ``InsufficientCredit`` and ``OrderRefused``.
        """
        instance = self.get(instance_id)
        if self.credit <= 0:
            raise InsufficientCredit
        if self.now >= instance.end_date:
            raise OrderRefused("the contract has ended")
        if instance.holding:
            return True
        instance.wants_gpus = not (instance.cause is Cause.OUTBID and "raise-resumes" in self.broken)
        self.settle(self.machines[instance.machine_id])
        if not instance.holding:
            self.lifecycle.queue(instance)
        self.watch_credit()
        return instance.holding

    def stop(self, instance_id: int) -> None:
        instance = self.get(instance_id)
        instance.wants_gpus = False
        if instance.holding:
            self.lifecycle.release(instance, Cause.USER)
            self.settle(self.machines[instance.machine_id])
        else:
            self.lifecycle.park(instance, Cause.USER)
            self.record("instance.stopped", instance_id=instance.id, label=instance.label, cause=str(Cause.USER))

    def reboot(self, instance_id: int) -> None:
        instance = self.get(instance_id)
        if instance.holding and self.machines[instance.machine_id].state is HostState.ONLINE:
            self.lifecycle.reboot(instance)

    def destroy(self, instance_id: int, by: str = "customer") -> None:
        instance = self.get(instance_id)
        machine = self.machines[instance.machine_id]
        self.lifecycle.destroy(instance, by)
        self.reissue(machine, instance.gpu_ids)
        self.settle(machine)

    def change_bid(self, instance_id: int, price: Decimal | None) -> None:
        """Set the current bid, billed from now on; ``None`` takes the price that wins now.

        Raises ``NoSuchInstance`` and ``OrderRefused`` (not a bid).
        """
        instance = self.get(instance_id)
        if not instance.is_bid:
            raise OrderRefused("not an interruptible instance")
        machine = self.machines[instance.machine_id]
        new = self.price_to_win(machine, instance) if price is None else price.quantize(PRICE_UNIT)
        ignored = {"raise-taken"} if new > instance.price else set()
        if 0 < new - instance.price < LEAST_RAISE:
            ignored.add("small-raise-taken")
        if ignored & self.broken and instance.holding:
            return
        self.record("bid.changed", instance_id=instance.id, label=instance.label, old_price=instance.price, price=new)
        instance.price = new
        instance.prices.append((self.now, new))
        if instance.meter.running(GPU):
            self.lifecycle.bill_gpus(instance)
        if new >= instance.auction_bid:
            if instance.cause is Cause.OUTBID and "raise-resumes" not in self.broken:
                instance.wants_gpus = True
            self._show_bid(instance, new)
        else:
            delay = timedelta(seconds=self.timings.underbid_delay_s)
            self.agenda.at(self.now + delay, lambda: self._show_bid(instance, new))
        self.watch_credit()

    def relabel(self, instance_id: int, label: str) -> None:
        instance = self.get(instance_id)
        instance.label = label
        self.record("instance.relabelled", instance_id=instance_id, label=label)

    # --- everybody else

    def container_exited(self, instance_id: int, boot: int, exit_code: int) -> None:
        """The container of that boot ended by itself; a report of an earlier boot is ignored."""
        instance = self.instances[instance_id]
        if instance.boots == boot and instance.container is Container.RUNNING:
            self.lifecycle.container_exited(instance, exit_code)

    def add_rival(self, machine_id: int, gpu_ids: Chunk, bid: Decimal, duration_s: float | None = None) -> Stranger:
        """Another customer's bid, $/h for all of ``gpu_ids``."""
        return self._add_stranger("rival", machine_id, gpu_ids, bid, duration_s)

    def add_on_demand(self, machine_id: int, gpu_ids: Chunk, duration_s: float | None = None) -> Stranger:
        return self._add_stranger("on_demand", machine_id, gpu_ids, None, duration_s)

    def remove_stranger(self, stranger_id: str) -> bool:
        for machine in self.machines.values():
            stranger = machine.strangers.pop(stranger_id, None)
            if stranger is not None:
                self.record("stranger.left", stranger=stranger_id, machine_id=machine.spec.machine_id)
                if stranger.holding:
                    self.reissue(machine, stranger.gpu_ids)
                self.settle(machine)
                return True
        return False

    def set_floor(self, machine_id: int, price: Decimal) -> None:
        """``price`` is $/h per GPU."""
        machine = self.machines[machine_id]
        machine.floor = price
        self.record("floor.moved", machine_id=machine_id, price=price)
        self.settle(machine)

    def set_host(self, machine_id: int, state: HostState) -> None:
        """Raises ``OrderRefused``: a vanished host never returns."""
        machine = self.machines[machine_id]
        if machine.state is HostState.VANISHED and state is not HostState.VANISHED:
            raise OrderRefused("a vanished host does not return")
        was_online = machine.state is HostState.ONLINE
        machine.state = state
        self.record("host.changed", machine_id=machine_id, state=str(state))
        for instance in self.tenants_of(machine):
            if was_online and state is not HostState.ONLINE:
                self.lifecycle.host_lost(instance)
            elif not was_online and state is HostState.ONLINE:
                self.lifecycle.host_returned(instance)
        self.settle(machine)

    def set_credit(self, amount: Decimal) -> None:
        self.account.set_credit(amount, self.now)
        self.record("credit.set", amount=amount)
        self.watch_credit()

    def transfer(self, instance_id: int, down_gb: Decimal, up_gb: Decimal) -> None:
        """Bill traffic of an instance."""
        instance = self.get(instance_id)
        spec = self.machines[instance.machine_id].spec
        instance.meter.transfer(DOWN, Fraction(down_gb), Fraction(spec.inet_down_cost), self.now)
        instance.meter.transfer(UP, Fraction(up_gb), Fraction(spec.inet_up_cost), self.now)
        self.watch_credit()

    def _show_bid(self, instance: Contract, price: Decimal) -> None:
        """The auction sees ``price``, unless the bid has changed again since."""
        if instance.price == price and instance.destroyed_at is None:
            instance.auction_bid = price
            self.settle(self.machines[instance.machine_id])

    def _expire(self, instance: Contract) -> None:
        if instance.destroyed_at is not None:
            return
        self.lifecycle.expire(instance)
        self.settle(self.machines[instance.machine_id])
        grace = timedelta(seconds=self.timings.expiry_grace_s)
        self.agenda.at(self.now + grace, lambda: self._delete_expired(instance))

    def _delete_expired(self, instance: Contract) -> None:
        if instance.destroyed_at is None:
            self.destroy(instance.id, by="expiry")

    def _draft(self, machine: Machine, chunk: Chunk, order: RentOrder) -> Contract:
        instance_id = next(self._instance_ids)
        price = machine.on_demand_of(chunk) if order.price is None else order.price.quantize(PRICE_UNIT)
        return Contract(
            id=instance_id,
            machine_id=machine.spec.machine_id,
            gpu_ids=chunk,
            order=order,
            label=order.label,
            price=price,
            auction_bid=price,
            storage_rate=storage_rate(machine.spec.storage_cost, order.disk_gb),
            created_at=self.now,
            end_date=machine.spec.end_date,
            api_key=hashlib.sha256(f"{self._seed}:{instance_id}".encode()).hexdigest(),
            arrival=next(self._arrivals),
            prices=[(self.now, price)],
        )

    def _add_stranger(
        self, kind: str, machine_id: int, gpu_ids: Chunk, bid: Decimal | None, duration_s: float | None
    ) -> Stranger:
        machine = self.machines[machine_id]
        stranger = Stranger(f"{kind}-{next(self._stranger_ids)}", gpu_ids, bid, next(self._arrivals))
        machine.strangers[stranger.id] = stranger
        self.record(f"{kind}.arrived", stranger=stranger.id, machine_id=machine_id, bid=bid)
        self.settle(machine)
        if duration_s is not None:
            self.agenda.at(self.now + timedelta(seconds=duration_s), lambda: self.remove_stranger(stranger.id))
        return stranger
