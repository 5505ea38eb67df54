"""Reads suite files. What is wrong in one is said in a sentence that names the place."""

from __future__ import annotations

import json
from array import array
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from autopilot.domain.errors import UserError
from autopilot_lab.backtest.suite import (
    HOUR_S,
    AvailabilityConfig,
    AvailabilityRun,
    AvailabilitySuite,
    BidConfig,
    BidRun,
    BidSuite,
    Suite,
    ticks_until,
    whole_ticks,
)

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Index = Annotated[int, Field(ge=0)]
Count = Annotated[int, Field(gt=0)]


class _Part(BaseModel):
    model_config = ConfigDict(strict=True)


class _Trace(_Part):
    first: Literal[0, 1]
    runs: list[Count] = Field(min_length=1)


class _AvailabilityRow(_Part):
    trace: Index
    start: Index
    ticks: Count
    work_h: Positive
    deadline_h: Positive
    restart_h: NotNegative


class _BidRow(_Part):
    start: Index
    work_h: Positive
    deadline_h: Positive
    pay: Literal["bid", "clearing"]


class _AvailabilityFile(_Part):
    kind: Literal["availability"]
    name: str
    tick_s: Positive
    spot_rate: NotNegative
    on_demand_rate: Positive
    traces: dict[str, _Trace] = Field(min_length=1)
    runs: list[_AvailabilityRow] = Field(min_length=1)


class _BidFile(_Part):
    kind: Literal["bids"]
    name: str
    tick_s: Positive
    ticks: Count
    on_demand_rate: Positive
    storage_rate: NotNegative
    migrate_s: NotNegative
    resume_s: NotNegative
    checkpoint_s: Positive
    floors: dict[str, list[list[float]]] = Field(min_length=1)
    runs: list[_BidRow] = Field(min_length=1)


def read_suite(path: Path) -> Suite:
    """The suite in a JSON file of either kind.

    Raises UserError when the file cannot be read or does not make sense.
    """
    try:
        body = json.loads(path.read_bytes())
    except OSError as error:
        raise UserError(f"cannot read the suite {path}: {error.strerror}") from None
    except ValueError as error:
        raise UserError(f"the suite {path} is not JSON: {error}") from None
    try:
        return suite_from(body)
    except UserError as error:
        raise UserError(f"{path}: {error.message}", hint=error.hint) from None


def suite_from(body: Any) -> Suite:
    """The suite in a decoded JSON document; raises UserError."""
    kind = body.get("kind") if isinstance(body, dict) else None
    if kind not in ("availability", "bids"):
        raise UserError(f"not a suite: its kind is {kind!r}", hint='the kinds are "availability" and "bids"')
    try:
        named = {**body, "runs": _named_rows(body.get("columns"), body.get("runs"))}
        if kind == "bids":
            return _bid_suite(_BidFile.model_validate(named))
        return _availability_suite(_AvailabilityFile.model_validate(named))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise UserError(f"{place}: {first['msg']}") from None


def _named_rows(columns: Any, rows: Any) -> list[dict[str, Any]]:
    if not isinstance(columns, list) or not isinstance(rows, list):
        raise UserError("a suite has columns, and runs as rows of them")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(columns):
            raise UserError(f"runs.{number}: a row has {len(columns)} columns")
    return [dict(zip(columns, row, strict=True)) for row in rows]


def _availability_suite(file: _AvailabilityFile) -> AvailabilitySuite:
    traces = tuple(_states(trace) for trace in file.traces.values())
    runs = []
    for number, row in enumerate(file.runs):
        if row.trace >= len(traces) or row.start + row.ticks > len(traces[row.trace]):
            raise UserError(f"runs.{number}: the window lies outside its trace")
        run = AvailabilityRun(
            row.trace, row.start, row.ticks, _seconds(row.work_h), _seconds(row.deadline_h), _seconds(row.restart_h)
        )
        _check_time(number, run.work_s + run.restart_s, run.deadline_s, file.tick_s)
        if row.ticks < ticks_until(run.deadline_s, file.tick_s):
            raise UserError(f"runs.{number}: the window ends before the deadline")
        runs.append(run)
    config = AvailabilityConfig(file.tick_s, file.spot_rate, file.on_demand_rate)
    return AvailabilitySuite(file.name, config, tuple(file.traces), traces, tuple(runs))


def _states(trace: _Trace) -> bytes:
    states = bytearray()
    state: int = trace.first
    for ticks in trace.runs:
        states += bytes((state,)) * ticks
        state = 1 - state
    return bytes(states)


def _bid_suite(file: _BidFile) -> BidSuite:
    floors = tuple(_floors(name, steps, file.ticks) for name, steps in file.floors.items())
    config = BidConfig(
        tick_s=file.tick_s,
        on_demand_price=file.on_demand_rate,
        storage_rate=file.storage_rate,
        migrate_s=file.migrate_s,
        resume_s=file.resume_s,
        checkpoint_s=file.checkpoint_s,
        machines=tuple(file.floors),
    )
    runs = []
    for number, row in enumerate(file.runs):
        run = BidRun(row.start, _seconds(row.work_h), _seconds(row.deadline_h), row.pay)
        _check_time(number, run.work_s + file.migrate_s, run.deadline_s, file.tick_s)
        if row.start + ticks_until(run.deadline_s, file.tick_s) >= file.ticks:
            raise UserError(f"runs.{number}: the floors end before the deadline")
        runs.append(run)
    return BidSuite(file.name, config, floors, tuple(runs))


def _floors(name: str, steps: list[list[float]], ticks: int) -> array[float]:
    """Every tick's floor of steps [tick, $/h]."""
    place = f"floors.{name}"
    if not steps or any(len(step) != 2 for step in steps) or steps[0][0] != 0:
        raise UserError(f"{place}: steps are [tick, $/h], the first at tick 0")
    floors = array("d")
    for (tick, floor), (end, _) in zip(steps, [*steps[1:], [ticks, 0.0]], strict=True):
        if not 0 <= floor < float("inf") or tick != int(tick) or not tick < end <= ticks:
            raise UserError(f"{place}: step [{tick:g}, {floor:g}] is out of order or not a price")
        floors.extend([floor] * int(end - tick))
    return floors


def _seconds(hours: float) -> float:
    """Hours in the file are fractions of whole milliseconds."""
    return round(hours * HOUR_S, 3)


def _check_time(number: int, needed_s: float, deadline_s: float, tick_s: float) -> None:
    if whole_ticks(needed_s, tick_s) > ticks_until(deadline_s, tick_s):
        raise UserError(f"runs.{number}: not even on demand can it be done by its deadline")
