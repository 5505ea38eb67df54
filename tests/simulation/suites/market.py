"""vast.ai with a suite's machines: floors go as the suite has recorded them, lists show what its searches show."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from decimal import Decimal
from math import isinf

from autopilot_lab.backtest.live import PREPARING_S
from tests.simulation.ground import recorded
from tests.simulation.ground.ground import Ground
from tests.simulation.ground.machines import Box, Host, State
from tests.simulation.ground.scenario import GPU
from tests.simulation.ground.wire import Json, Raw, Request, raw
from tests.simulation.markets.market import LOADING_S, SimulatedMarket
from tests.simulation.markets.vastai import Vastai, offer_row
from tests.simulation.suites.start import FIRST_HOST, FIRST_MACHINE, ON_DEMAND_MACHINE, Start

OUT_OF_REACH = Decimal(1_000_000)
"""$/h."""
ROOM = 8
CREDIT = 100_000.0


class SuiteMarket(SimulatedMarket):
    def __init__(self, ground: Ground, start: Start, rng: random.Random, boot_agent: Callable[[Box], None]) -> None:
        self.start_of_suite = start
        self._tick = -1
        on_demand = start.price(start.suite.config.on_demand_price)
        hosts = [
            Host(
                str(FIRST_MACHINE + machine), str(FIRST_HOST + host), GPU, OUT_OF_REACH, on_demand,
                start.storage_price, Decimal(0),
            )
            for machine, host in enumerate(start.hosts)
        ]  # fmt: skip
        always = Host(
            ON_DEMAND_MACHINE, ON_DEMAND_MACHINE, GPU, OUT_OF_REACH, on_demand, start.storage_price, Decimal(0), ROOM
        )
        super().__init__(ground, "vastai", [*hosts, always], rng, boot_agent)
        self._next_tick()

    @property
    def tick(self) -> int:
        """Of the suite's traces, now."""
        return self.start_of_suite.run.start + self._tick

    def _move_floor(self, host: Host) -> None:
        """Floors go by the record."""

    def _next_tick(self) -> None:
        """A tick's answers are given by its own floors, and the next ones decide about them."""
        self._tick += 1
        floors = self.start_of_suite.suite.floors
        if self.tick + 1 >= len(floors[0]):
            return
        for machine, row in enumerate(floors):
            host, floor = self.hosts[str(FIRST_MACHINE + machine)], row[self.tick + 1]
            host.is_rival_told = not isinf(floor)
            self.set_floor(host, OUT_OF_REACH if isinf(floor) else self.start_of_suite.price(floor))
        self.ground.loop.after(self.start_of_suite.suite.config.tick_s, self._next_tick)

    def boot(self, box: Box, takes_s: tuple[float, float]) -> None:
        start = self.start_of_suite
        whole_s = start.suite.config.resume_s
        if takes_s is LOADING_S:
            whole_s = start.live.loading_s(start.run.block, self.tick)
        up_s = max(whole_s - PREPARING_S, 1.0)
        super().boot(box, (up_s, up_s))

    def listed(self) -> Iterator[tuple[Host, Decimal]]:
        """Machines that a search for bids shows now, with the floor that it tells. A host's others go with it."""
        start = self.start_of_suite
        ours = {box.host.host_id for box in self.boxes.values() if box.is_spot and box.state is not State.STOPPED}
        for machine, shown in enumerate(start.shown):
            host = self.hosts[str(FIRST_MACHINE + machine)]
            if not isinf(shown[self.tick]) and host.host_id not in ours:
                yield host, start.price(shown[self.tick])


class SuiteVastai(Vastai):
    market: SuiteMarket

    def _account(self, asked: Request) -> Raw:
        return raw(200, {**recorded.ACCOUNT, "credit": CREDIT})

    def _offers(self, asked: Request) -> Raw:
        rows: list[Json] = []
        if asked.body["type"] == "bid":
            found = sorted(self.market.listed(), key=lambda each: (each[1], each[0].machine_id))
            rows = [offer_row(host, 0, floor, is_bid=True) for host, floor in found]
        else:
            host = self.market.hosts[ON_DEMAND_MACHINE]
            gpu = next(iter(self.market.free_gpus(host)))
            rows = [{**offer_row(host, gpu, host.floor, is_bid=False), "min_bid": None}]
        return raw(200, {"offers": rows[: int(asked.body["limit"])]})
