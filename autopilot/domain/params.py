"""The policy's numbers, each with its unit, and the bounds in which they make sense."""

from __future__ import annotations

from dataclasses import dataclass, fields
from decimal import Decimal


@dataclass(frozen=True, slots=True)
class Params:
    """Defaults are those of the field where one is known (docs/explanation/policy.md names the sources)."""

    tick_lag_s: float = 30
    """How old what we see may be, and how long an action takes to be sent."""
    image_gb: Decimal = Decimal(10)
    """Downloaded by a new machine: the image and what setup fetches."""
    upload_gb: Decimal = Decimal(5)
    """Uploaded from a machine in its life: checkpoints and logs."""
    boot_s: float = 120
    """From a create to the user's command running, without the transfers: contract, container, agent."""
    setup_s: float = 420
    """The same with the transfers, on a machine that is not chosen yet."""
    resume_s: float = 60
    """From a won re-bid to the user's command running again on the same disk."""
    estimate_error: float = 0.15
    """The user's estimate may be this much too low."""
    loading_timeout_s: float = 1500
    """A machine still loading after this is given up; slow hosts were seen loading for 25 minutes."""
    preparing_least_s: float = 7200
    """One whose agent speaks has this long for inputs, ``setup`` and restoring, and the time to fill its disk …"""
    preparing_mbps: float = 100
    """… over a link of so many Mbit/s, before it is given up."""
    silence_s: float = 900
    """A machine that runs without a word from its agent for so long is given up."""
    max_fruitless: int = 4
    """After so many launches in a row that never ran the command, the job fails: it is not the machines."""
    offline_grace_s: float = 150
    """A host that does not answer for so long is lost."""
    paused_wait_s: float = 900
    """Longest wait on a paused machine for which nothing better is known."""
    rebid_settle_s: float = 90
    """A raise is given this long to bring the machine back before the next answer to the outbid."""
    max_rebids: int = 2
    """A machine that does not come back after so many raises was not taken by a bid: on-demand outranks any."""
    rebid_step: Decimal = Decimal("1.10")
    """A re-bid is the old bid times this."""
    markup: Decimal = Decimal("1.15")
    """A first bid is the floor times this: enough not to be displaced by the next cent."""
    ceiling_of_on_demand: Decimal = Decimal("0.90")
    """No bid reaches this share of the on-demand price: an on-demand renter outranks any bid."""
    bid_unit: Decimal = Decimal("0.001")
    least_bid: Decimal = Decimal("0.001")
    preemptions_per_hour: float = 0.25
    """Prior for spot; each costs a set-up and half a checkpoint interval."""
    hazard_prior_h: float = 20
    """The prior, or a wider group of machines, weighs as much as so many hours of own history."""
    on_demand_margin_s: float = 300
    """Kept free before the deadline for on-demand offers that vanish as they are chosen."""
    idle_margin: float = 0.001
    """Waiting while there is something to rent must promise to save such a share of all that remains."""
    least_markup: Decimal = Decimal("1.02")
    """At an auction a bid is at least the floor times this: what we see of it is older than the next rival."""
    preemptions_per_h: float = 0.05
    """At an auction: chance, an hour, to lose a machine whatever was bid, to an on-demand renter or with its host."""
    move_margin: float = 0.0
    """At an auction: another machine must promise to save so much of what a step on it costs."""
    wait_margin: float = 0.15
    """At an auction: with no slack left, waiting must promise to save such a share of all that remains …"""
    wait_slack_h: float = 2.5
    """… with more slack less, in proportion, and nothing from so many hours of it on."""
    wait_margin_shown: float = 0.005
    """Where all floors are shown: such a share, times the share of the first slack that is used up, times hours of work
    to each hour of that slack."""
    rebid_margin: float = 0.0
    """As ``move_margin``, for another bid on a machine that runs."""
    rebid_gap_s: float = 300
    """At an auction the bid on one machine is not changed more often."""
    save_timeout_s: float = 300
    """How long a planned move or a parking waits for the last checkpoint; a safe stop is charged with all of it."""
    waiting_horizon_s: float = 3600
    """Work assumed to remain when the job gives no estimate; for comparing offers only."""
    move_saving: Decimal = Decimal("0.15")
    """Least saving on all that remains for which a running job is moved to a cheaper machine."""
    move_least_s: float = 1800
    """A job stays on a machine at least this long before it is moved for price."""
    destroy_s: float = 60
    detect_s: float = 60
    tail_h: float = 24
    """Hours of disk that a safe stop is charged with, should the destroy be slow to take."""
    settle_s: float = 300
    """A create whose outcome is unknown may still land within this time."""

    def __post_init__(self) -> None:
        if not Decimal(1) <= self.markup <= 10 or not Decimal(1) < self.rebid_step <= 10:
            raise ValueError("markup must be in 1..10 and rebid_step above 1, up to 10")
        if not Decimal(1) <= self.least_markup <= 10 or not 0 <= self.preemptions_per_h <= 1:
            raise ValueError("least_markup must be in 1..10 and preemptions_per_h in 0..1")
        if not Decimal(0) < self.ceiling_of_on_demand < 1:
            raise ValueError("ceiling_of_on_demand must be above 0 and below 1")
        if not 0 <= self.estimate_error <= 2 or self.preemptions_per_hour < 0 or self.max_rebids < 0:
            raise ValueError("estimate_error must be in 0..2, preemptions_per_hour and max_rebids at least 0")
        if self.preparing_least_s < 0 or self.preparing_mbps <= 0:
            raise ValueError("preparing_least_s must not be negative and preparing_mbps above 0")
        if self.wait_slack_h <= 0:
            raise ValueError("wait_slack_h must be above 0")
        if min(self.tick_lag_s, self.setup_s, self.resume_s, self.save_timeout_s, self.settle_s, self.tail_h) < 0:
            raise ValueError("times must not be negative")


TUNABLE = tuple(field.name for field in fields(Params) if isinstance(field.default, (int, float)))
"""What a sweep may set by name; prices in dollars stay as they are."""
