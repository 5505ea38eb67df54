"""Short scripted runs, each about one thing that can be cut short by a kill: at every step of them one is tried."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from autopilot.domain.after import After
from autopilot.domain.array import ArraySpec
from autopilot.domain.cadence import Cadence, Overlap
from autopilot.domain.job import JobStatus, SpotPolicy
from autopilot.policy.guard import Limits
from tests.simulation.ground.faults import Burst
from tests.simulation.ground.scenario import GiveBack, Move, Repeat, Scenario, Submit, Wish, a_spec
from tests.simulation.virtual.clock import at

D = Decimal
JOB = "01JOB000000000000000000000"
SECOND = "01JOB000000000000000000001"
SCHEDULE = "01SCH000000000000000000000"
LENGTH_S = 2400.0
LIMITS = Limits(D(50), D(500), D(10), 8, 3, 20)


def _story(
    *acts: tuple[float, str],
    minutes: int = 8,
    faults: Mapping[str, tuple[int, ...]] | None = None,
    bursts: tuple[Burst, ...] = (),
    wishes: tuple[tuple[float, Wish], ...] = (),
    limits: Limits = LIMITS,
    length_s: float = LENGTH_S,
    idle_s: float = 1500.0,
    **spec: Any,
) -> Scenario:
    job = a_spec(timedelta(minutes=minutes), checkpoint_interval=timedelta(minutes=3), **spec)
    return Scenario(
        ((40.0, Submit(JOB, job)), *wishes),
        limits,
        tick_s=20.0,
        length_s=length_s,
        goes_on_s=0.0,
        idle_s=idle_s,
        acts=acts,
        script=faults or {},
        bursts=bursts,
    )


def _outage(row: str, begins_s: float, ends_s: float, target: str = "") -> Burst:
    return Burst(row, target, begins_s, ends_s)


def _alone(
    market: str,
    jobs: int,
    room: str = "",
    length_s: float = 9000.0,
    faults: Mapping[str, tuple[int, ...]] | None = None,
    **changes: Any,
) -> Scenario:
    """Jobs that would each pay a multiple of what is enough."""
    spec: dict[str, Any] = {"spot_policy": SpotPolicy.SPOT, "max_bid": D(4), **changes}
    others = [Submit(f"01JOB00000000000000000001{n}", a_spec(timedelta(minutes=20), **spec)) for n in range(1, jobs)]
    wishes = tuple((50.0 + 30.0 * n, each) for n, each in enumerate(others))
    made = _story(
        *([(0.0, room)] if room else []),
        minutes=20,
        wishes=wishes,
        faults=faults,
        length_s=length_s,
        idle_s=length_s,
        **spec,
    )
    return replace(made, markets=(market,), is_alone=True)


STORIES: dict[str, Scenario] = {
    "create and finish": _story(),
    "create on demand": _story(spot_policy=SpotPolicy.ON_DEMAND),
    "create takes effect, then a 500": _story(faults={"A1": (0,)}),
    "create takes effect, answer lost": _story(faults={"A2": (0,)}),
    "create lands unobserved, it ends itself": _story(
        (40.0, "dies as soon as it rents"), bursts=(_outage("C2", 0.0, 300.0, "runpod"),), length_s=6000.0
    ),
    "create lands unobserved, and the budget is used up": _story(
        (40.0, "dies as soon as it rents"),
        bursts=(_outage("C2", 0.0, 300.0, "runpod"),),
        minutes=300,
        budget=D("0.30"),
        length_s=9000.0,
    ),
    "create refused with an id": _story(faults={"A3": (0,)}),
    "create lands late": _story(faults={"A4": (0,)}, length_s=3000.0),
    "create makes two": _story(faults={"A5": (0,)}),
    "create makes two, lists are spoilt": _story(
        faults={"A5": (0,), "B1": tuple(range(4, 40))},
        bursts=(_outage("C2", 0.0, 3600.0, "runpod"), _outage("J1", 120.0, 600.0)),
        length_s=3600.0,
    ),
    "create makes two, one never starts": _story((40.0, "second never starts"), faults={"A5": (0,)}),
    "create on other terms": _story(faults={"A6": (0,)}),
    "offers gone twice": _story(faults={"A7": (0, 1)}),
    "outbid and back": _story((500.0, "outbid"), (800.0, "rivals leave"), minutes=10),
    "outbid for good": _story((500.0, "outbid"), minutes=10, length_s=3600.0),
    "outbid on demand steps in": _story(
        (500.0, "outbid"), minutes=15, deadline=at(40.0) + timedelta(minutes=60), length_s=3600.0
    ),
    "moves to a cheaper machine": _story((1900.0, "others get cheap"), minutes=90, length_s=4200.0),
    "moves, create's answer lost": _story(
        (1900.0, "others get cheap"), minutes=90, faults={"A2": (1,)}, length_s=4200.0
    ),
    "budget stops it": _story(minutes=300, budget=D("0.20"), length_s=4200.0),
    "the day's limit stops it": _story(minutes=300, limits=Limits(D("0.2"), None, D(10), 8, 3, 20), length_s=4200.0),
    "cancelled while it loads": _story(wishes=((90.0, Move(JOB, JobStatus.CANCELLING)),), length_s=900.0),
    "cancelled while it runs": _story(minutes=60, wishes=((700.0, Move(JOB, JobStatus.CANCELLING)),), length_s=1500.0),
    "destroy does nothing": _story(faults={"D1": (0, 1)}),
    "destroy of a stopped one does nothing": _story(
        (500.0, "outbid"), minutes=10, faults={"D1": (0, 1, 2)}, length_s=3600.0
    ),
    "destroy refused": _story(faults={"D2": (0, 1)}),
    "destroy's answer lost": _story(faults={"D3": (0,)}),
    "host vanishes": _story((500.0, "host vanishes"), minutes=10, length_s=3600.0),
    "set up without end": _story((40.0, "first never gets ready"), setup="make", length_s=12_000.0),
    "inputs never come": _story(
        (40.0, "first never gets ready"), inputs=(("data", "https://files.example/data"),), length_s=3600.0
    ),
    "fails twice on its machine": _story((40.0, "first fails"), length_s=6000.0),
    "held until its hold is over": _story(
        (1100.0, "kill"), faults={"E15": (0,)}, max_attempts=1, hold=timedelta(minutes=15), length_s=3000.0
    ),
    "held, and given back": _story(
        wishes=((1100.0, GiveBack(JOB)),),
        faults={"E15": (0,)},
        max_attempts=1,
        hold=timedelta(hours=5),
        length_s=1800.0,
    ),
    "no money to hold it": _story(
        faults={"E15": (0,)}, max_attempts=1, hold=timedelta(hours=5), budget=D("0.40"), length_s=1500.0
    ),
    "user destroys it": _story((500.0, "user destroys"), minutes=10, length_s=3000.0),
    # A machine that the ledger does not know puts the ledger in doubt for half an hour; a restart does so again.
    "machine from nowhere": _story((340.0, "machine from nowhere"), length_s=5400.0),
    "dead for an hour": _story((500.0, "dies for an hour"), minutes=90, length_s=6000.0),
    "dead for an hour, its machine sleeps and wakes": _story(
        (500.0, "dies for an hour"), (700.0, "outbid"), (2000.0, "rivals leave"), minutes=90, length_s=6000.0
    ),
    "killed and recovering": _story((110.0, "kill"), (500.0, "kill"), faults={"A2": (0,)}),
    "restarted for an update": _story((70.0, "restart"), (600.0, "restart")),
    "frozen for five minutes": _story((500.0, "freeze")),
    "market dark while it ends": _story(bursts=(_outage("C2", 600.0, 1500.0),), minutes=6),
    "ledger full while it creates": _story(bursts=(_outage("G1", 60.0, 200.0),)),
    "ledger full while it ends": _story(bursts=(_outage("G1", 600.0, 1200.0),), minutes=6),
    "the account runs dry, and is paid in": _story((500.0, "runs dry"), (900.0, "paid in"), minutes=10),
    "outbid by a rival whom no list shows": _story((500.0, "outbid unseen"), minutes=10, length_s=3600.0),
    "stopped by hand, without rival bids": replace(
        _story((500.0, "stopped by hand"), minutes=10, length_s=3600.0), markets=("vastai",)
    ),
    "one host of eight": _story(
        (0.0, "one host of eight"),
        minutes=45,
        wishes=((400.0, Submit(SECOND, a_spec(timedelta(minutes=5), spot_policy=SpotPolicy.SPOT))),),
        length_s=3600.0,
        spot_policy=SpotPolicy.SPOT,
    ),
    "the next job on the machine that was just left": _story(
        (0.0, "one host"),
        faults={"E12": (0, 1, 2)},
        wishes=((600.0, Submit(SECOND, a_spec(timedelta(minutes=5), spot_policy=SpotPolicy.SPOT))),),
        length_s=3600.0,
        spot_policy=SpotPolicy.SPOT,
    ),
    "spot is found late, behind the fence": _story(
        (0.0, "nothing at vast.ai"),
        faults={"F3": tuple(range(100))},
        bursts=(_outage("C2", 0.0, 400.0, "runpod"),),
        length_s=3600.0,
        spot_policy=SpotPolicy.SPOT,
    ),
    "a job waits for another, which is killed over": _story(
        (700.0, "kill"),
        wishes=((60.0, Submit(SECOND, a_spec(timedelta(minutes=5), after=(After(JOB),)))),),
        length_s=3600.0,
    ),
    "an array, killed over": _story((700.0, "kill"), minutes=5, array=ArraySpec(3, parallel=2), length_s=3600.0),
    "an array, its first machine fails every task": _story(
        (40.0, "first fails"), minutes=5, array=ArraySpec(4, parallel=1), max_attempts=1, length_s=12_000.0
    ),
    "an array, its budget used up": _story(
        minutes=120, array=ArraySpec(4, parallel=4), budget=D("0.55"), work_estimate=None, length_s=9000.0
    ),
    "without a certificate, the allowance used up": replace(
        _story(
            minutes=300,
            wishes=((60.0, Submit(SECOND, a_spec(timedelta(minutes=300)))),),
            work_estimate=None,
            length_s=9000.0,
        ),
        uncertified={"vastai": D("0.40"), "runpod": D("0.40")},
    ),
    "without a certificate, a permit is let lapse": replace(
        _story(length_s=3600.0), markets=("vastai",), uncertified={"vastai": D(5)}
    ),
    "a job waits for another that fails": _story(
        faults={"E15": (0,)},
        max_attempts=1,
        wishes=((60.0, Submit(SECOND, a_spec(timedelta(minutes=5), after=(After(JOB),)))),),
        length_s=2400.0,
    ),
    "a firing is due, and its daemon is killed": _story(
        (600.0, "kill"),
        wishes=((60.0, Repeat(SCHEDULE, a_spec(timedelta(minutes=5), schedule=Cadence("10 */1 * * *")))),),
        length_s=3600.0,
    ),
    "a firing waits for the one before": _story(
        (500.0, "restart"),
        minutes=5,
        wishes=(
            (
                60.0,
                Repeat(
                    SCHEDULE,
                    a_spec(timedelta(minutes=20), schedule=Cadence("*/10 */1 * * *", overlap=Overlap.QUEUE, count=2)),
                ),
            ),
        ),
        length_s=6000.0,
    ),
    "no other bidder: three jobs, one machine at vast.ai": _alone(
        "vastai", 3, "one host", faults={"E12": (0, 1, 2, 3)}
    ),
    "no other bidder: three jobs, two machines at RunPod": _alone("runpod", 3, "one host of two"),
    "no other bidder: three jobs, one machine at Mithril": _alone("mithril", 3, "one host"),
    "no other bidder: three jobs at Nebius": _alone("nebius", 3),
    "no other bidder: an array of four, two machines at Mithril": _alone(
        "mithril", 1, "one host of two", array=ArraySpec(4)
    ),
    "ends unseen": _story((500.0, "ends unseen"), minutes=10, length_s=4200.0),
    "market dark for long, its machine speaks": _story(
        bursts=(_outage("C2", 600.0, 3000.0),), minutes=50, length_s=4200.0
    ),
    "dies for good under a permit of hours, its budget short": replace(
        _story((1240.0, "dies for good"), minutes=240, budget=D("0.30"), length_s=16_200.0, idle_s=16_200.0),
        permit_s=3 * 3600,
    ),
    "object store dark": _story(bursts=(_outage("J1", 300.0, 900.0),)),
}
