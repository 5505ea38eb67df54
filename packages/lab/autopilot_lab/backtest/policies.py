"""The policies by name, with their parameters: ``floor-markup:markup=1.1``."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from autopilot.domain.errors import UserError
from autopilot.domain.params import TUNABLE as NUMBERS
from autopilot_lab.backtest.looks import TUNABLE as SHADOW_NUMBERS
from autopilot_lab.backtest.suite import PAYS_BID, Config, Job, Params, Suite


@dataclass(frozen=True)
class Registered:
    starts: Mapping[str, str]
    """Suite kind → ``module:function`` that makes a chooser of (config, job, params) and, when fitted, of the model."""
    params: Mapping[str, float | None] = field(default_factory=dict)
    """Name → default; None: as the suite and the job make it, unless it is set."""
    fit: str = ""
    """``module:function`` that makes the model of a suite, or of None; what it gives must pickle."""


_ONE = "autopilot_lab.backtest.baselines"
_BIDS = "autopilot_lab.backtest.bid_baselines"

_OWN = "autopilot_lab.backtest"

REGISTRY: dict[str, Registered] = {
    "autopilot": Registered(
        {
            "availability": f"{_OWN}.map_availability:start_on_availability",
            "bids": f"{_OWN}.map_live:start_on_bids",
        },
        dict.fromkeys((*NUMBERS, *SHADOW_NUMBERS, PAYS_BID)),
        fit="autopilot_lab.backtest.fit:phases_of",
    ),
    "on-demand": Registered({"availability": f"{_ONE}:on_demand", "bids": f"{_BIDS}:on_demand"}),
    "greedy": Registered({"availability": f"{_ONE}:greedy"}),
    "uniform-progress": Registered(
        {"availability": f"{_ONE}:uniform_progress", "bids": f"{_BIDS}:uniform_progress"}, {"markup": 1.1}
    ),
    "fixed-bid": Registered({"bids": f"{_BIDS}:fixed_bid"}),
    "floor-markup": Registered({"bids": f"{_BIDS}:floor_markup"}, {"markup": 1.1, "promise": 0.0}),
    "on-demand-bid": Registered({"bids": f"{_BIDS}:on_demand_bid"}),
}

Chooser = Callable[[Any], Any]

OPTIMAL = "optimal"
"""The row of the offline optimum, which is no policy."""


@dataclass(frozen=True)
class Policy:
    """One row of the table."""

    label: str
    """As it was asked for."""
    name: str
    params: Params


def parse_policies(text: str) -> tuple[Policy, ...]:
    """``NAME[:param=value,param=value],NAME,…``; raises UserError for what is unknown.

    ``optimal`` may be asked for as well: its row is always there.
    """
    items: list[str] = []
    for word in filter(None, (part.strip() for part in text.split(","))):
        # A comma also parts the parameters of one policy.
        if "=" in word and ":" not in word and items and ":" in items[-1]:
            items[-1] += f",{word}"
        else:
            items.append(word)
    if not items:
        raise UserError("which policy?", hint=_list_known())
    return tuple(_parse(item) for item in dict.fromkeys(items) if item != OPTIMAL)


def default_policies(kind: str) -> tuple[Policy, ...]:
    """Every policy that plays on suites of this kind."""
    return tuple(_parse(name) for name, entry in REGISTRY.items() if kind in entry.starts)


def fit_models(policies: Sequence[Policy], suite: Suite | None) -> dict[str, Any]:
    """The models of the policies that need one, by name; ``suite`` None: what the product ships."""
    names = {policy.name for policy in policies}
    return {name: _load(REGISTRY[name].fit)(suite) for name in sorted(names) if REGISTRY[name].fit}


def starter(policy: Policy, kind: str, models: Mapping[str, Any]) -> Callable[[Config, Job], Chooser]:
    """Makes a chooser for each job; raises UserError when the policy does not play on this kind."""
    entry = REGISTRY[policy.name]
    if kind not in entry.starts:
        raise UserError(f"{policy.name} does not play on suites of kind {kind}")
    function, defaults = _load(entry.starts[kind]), {k: v for k, v in entry.params.items() if v is not None}
    params = {**defaults, **policy.params}
    if entry.fit:
        model = models[policy.name]
        return lambda config, job: function(config, job, params, model)
    return lambda config, job: function(config, job, params)


def _parse(item: str) -> Policy:
    name, _, tail = item.partition(":")
    if name not in REGISTRY:
        raise UserError(f"unknown policy {name!r}", hint=_list_known())
    known, params = REGISTRY[name].params, {}
    for pair in filter(None, tail.split(",")):
        key, _, value = pair.partition("=")
        if key not in known:
            says = f"it has {', '.join(known)}" if known else "it has none"
            raise UserError(f"{name} has no parameter {key!r}", hint=says)
        try:
            params[key] = float(value)
        except ValueError:
            raise UserError(f"{item}: {value!r} is not a number") from None
    return Policy(item, name, params)


def _list_known() -> str:
    return f"the policies are {', '.join((*REGISTRY, OPTIMAL))}"


def _load(target: str) -> Callable[..., Any]:
    module, _, name = target.partition(":")
    return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
