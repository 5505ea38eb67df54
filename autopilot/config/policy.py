"""``[policy]``: the numbers of the policy that a user may know better than its defaults."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from autopilot.config import values
from autopilot.domain.params import Params

_DEFAULT = Params()
_SECOND = timedelta(seconds=1)

Duration = Annotated[timedelta, BeforeValidator(values.duration)]
Size = Annotated[Decimal, BeforeValidator(lambda raw: raw if isinstance(raw, Decimal) else values.size_gb(raw))]


def _between(least: str, most: str) -> AfterValidator:
    bounds = values.duration(least), values.duration(most)

    def check(span: timedelta) -> timedelta:
        if not bounds[0] <= span <= bounds[1]:
            raise ValueError(f"must be {least} to {most}")
        return span

    return AfterValidator(check)


class PolicySettings(BaseModel):
    """The bounds refuse what can only be a mistake. Caps and the deadline's guard hold with any values."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    estimate_error: Annotated[float, Field(ge=0, le=1)] = _DEFAULT.deadline.estimate_error
    boot: Annotated[Duration, _between("1s", "1h")] = _SECOND * _DEFAULT.timing.boot_s
    setup: Annotated[Duration, _between("1s", "2h")] = _SECOND * _DEFAULT.timing.setup_s
    resume: Annotated[Duration, _between("1s", "1h")] = _SECOND * _DEFAULT.timing.resume_s
    image: Annotated[Size, Field(le=2000)] = _DEFAULT.traffic.image_gb
    upload: Annotated[Size, Field(le=2000)] = _DEFAULT.traffic.upload_gb
    markup: Annotated[Decimal, Field(ge=1, le=3)] = _DEFAULT.bids.markup
    bid_ceiling: Annotated[Decimal, Field(ge=Decimal("0.1"), le=Decimal("0.95"))] = _DEFAULT.bids.ceiling_of_on_demand
    max_rebids: Annotated[int, Field(ge=0, le=20)] = _DEFAULT.bids.max_rebids
    losses_per_hour: Annotated[float, Field(ge=0, le=10)] = _DEFAULT.hazard.preemptions_per_h
    loading_timeout: Annotated[Duration, _between("2m", "2h")] = _SECOND * _DEFAULT.loading.timeout_s
    longest_pause: Annotated[Duration, _between("1m", "1d")] = _SECOND * _DEFAULT.waiting.longest_pause_s
    least_saving: Annotated[Decimal, Field(ge=0, le=Decimal("0.9"))] = _DEFAULT.moves.least_saving
    least_stay: Annotated[Duration, _between("1m", "1d")] = _SECOND * _DEFAULT.moves.least_stay_s

    @property
    def params(self) -> Params:
        """All numbers of the policy, these among them."""
        given = _DEFAULT
        return replace(
            given,
            timing=replace(
                given.timing,
                boot_s=self.boot.total_seconds(),
                setup_s=self.setup.total_seconds(),
                resume_s=self.resume.total_seconds(),
            ),
            traffic=replace(given.traffic, image_gb=self.image, upload_gb=self.upload),
            deadline=replace(given.deadline, estimate_error=self.estimate_error),
            loading=replace(given.loading, timeout_s=self.loading_timeout.total_seconds()),
            bids=replace(
                given.bids,
                markup=self.markup,
                ceiling_of_on_demand=self.bid_ceiling,
                max_rebids=self.max_rebids,
            ),
            waiting=replace(given.waiting, longest_pause_s=self.longest_pause.total_seconds()),
            moves=replace(given.moves, least_saving=self.least_saving, least_stay_s=self.least_stay.total_seconds()),
            hazard=replace(given.hazard, preemptions_per_h=self.losses_per_hour),
        )
