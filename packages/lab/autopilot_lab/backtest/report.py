"""A report as one HTML file that opens offline: the table, plots as inline SVG, nothing to load."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from autopilot_lab.backtest.outcome import Outcome
from autopilot_lab.backtest.policies import OPTIMAL, Policy
from autopilot_lab.backtest.runner import Plan, Result
from autopilot_lab.backtest.samples import pick_samples, sample_plots
from autopilot_lab.backtest.scores import Score
from autopilot_lab.backtest.svg import PALETTE, Bar, Plot, Series, draw, draw_bars, legend

KINDS_OF_COST = (("spot", "#009e73"), ("on_demand", "#0072b2"), ("storage", "#e69f00"), ("lost", "#d55e00"))

STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif; }
body { max-width: 1340px; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .2rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
th:first-child, td:first-child { text-align: left; }
.plots { display: flex; flex-wrap: wrap; gap: 1rem; }
svg { max-width: 100%; height: auto; font: 11px system-ui, sans-serif; } svg text { fill: currentColor; }
.key { margin-right: 1.2rem; white-space: nowrap; }
.key i { display: inline-block; width: .9em; height: .9em; margin-right: .35em; vertical-align: -.1em; }
.small { opacity: .75; font-size: .9em; }
"""


def report(plan: Plan, results: Sequence[Result], scores: Sequence[Score], command: str) -> str:
    """The page. ``command`` is the line that made it."""
    name = plan.suite.name
    colours = {score.policy: PALETTE[index % len(PALETTE)] for index, score in enumerate(scores)}
    sections = [
        f"<h1>Backtest of {escape(name)}</h1>",
        f'<p class="small">{len(results)} runs of a suite of kind {plan.suite.config.kind}. '
        f"<code>{escape(command)}</code></p>",
        _table(scores),
        '<p class="small">Ratios are of sums over all runs that were not refused or parked; the interval is of the '
        "sum over the optimum, 95 %, by resampling weeks of market.</p>",
        "<h2>Cost against deadline</h2>",
        f"<p>{legend([(score.policy, colours[score.policy]) for score in scores])}</p>",
        _plots(_deadline_plots(scores, colours)),
        "<h2>Where the money went</h2>",
        f"<p>{legend([(kind.replace('_', '-'), colour) for kind, colour in KINDS_OF_COST])}</p>",
        _plots([_cost_bars(plan.policies, results)]),
        '<p class="small">Lost: paid while machines started, and for work that a pause threw back.</p>',
    ]
    for sample in pick_samples(plan.policies, results):
        title, plots, keys = sample_plots(plan, sample)
        sections += [f"<h2>{escape(title)}</h2>", f"<p>{legend(keys)}</p>", _plots(plots)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Backtest of {escape(name)}</title><style>{STYLE}</style></head>"
        f"<body>{''.join(sections)}</body></html>\n"
    )


def _table(scores: Sequence[Score]) -> str:
    columns = ["policy", "mean $", "÷ on-demand", "÷ optimal", "95 %", "p95 ÷ optimal"]
    columns += ["late", "overruns", "pauses", "moves", "ms/decision"]
    rows = []
    for score in scores:
        interval = "" if score.interval is None or score.policy == OPTIMAL else "–".join(map(_three, score.interval))
        numbers = [score.mean_cost, score.over_on_demand, score.over_optimal]
        cells = [*map(_three, numbers), interval, _three(score.p95_over_optimal)]
        cells += [_count(count) for count in (score.late, score.overruns, score.pauses, score.migrations)]
        cells.append(_three(score.ms_per_decision))
        rows.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (score.policy, *cells)) + "</tr>")
    head = "".join(f"<th>{escape(column)}</th>" for column in columns)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _deadline_plots(scores: Sequence[Score], colours: dict[str, str]) -> list[str]:
    settings = dict.fromkeys(group.setting for score in scores for group in score.groups)
    return [
        draw(
            Plot(
                title=setting,
                x_label="deadline, h",
                y_label="mean cost, $",
                lines=[
                    Series(
                        score.policy,
                        [(group.deadline_h, group.mean_cost) for group in score.groups if group.setting == setting],
                        colours[score.policy],
                        dashed=score.policy == OPTIMAL,
                        marked=True,
                    )
                    for score in scores
                ],
                y_from_zero=True,
            )
        )
        for setting in settings
    ]


def _cost_bars(policies: Sequence[Policy], results: Sequence[Result]) -> str:
    bars = []
    for index, policy in enumerate(policies):
        outcomes = [result.outcomes[index] for result in results]
        parts = [(kind.replace("_", "-"), _mean(outcomes, kind), colour) for kind, colour in KINDS_OF_COST]
        bars.append(Bar(policy.label, parts))
    return draw_bars("mean of a run", "$", bars)


def _mean(outcomes: Sequence[Outcome], kind: str) -> float:
    return sum(float(getattr(outcome, kind)) for outcome in outcomes) / len(outcomes)


def _plots(plots: Sequence[str]) -> str:
    return f'<div class="plots">{"".join(plots)}</div>'


def _three(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _count(value: int | None) -> str:
    return "–" if value is None else str(value)
