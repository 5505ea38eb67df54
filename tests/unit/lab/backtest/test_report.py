"""The report is one file that opens offline, with everything escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest

from autopilot_lab.backtest.play import Conditions
from autopilot_lab.backtest.report import report
from autopilot_lab.backtest.runner import Plan, run_plan
from autopilot_lab.backtest.scores import score_all
from autopilot_lab.backtest.suite_file import suite_from
from autopilot_lab.backtest.svg import Plot, Series, draw
from tests.unit.lab.backtest.small_suites import baselines, random_availability_body, random_bid_body


def page_of(body: dict[str, object]) -> str:
    suite = suite_from(body)
    plan = Plan(suite, baselines(suite.config.kind), {}, Conditions())
    results = run_plan(plan, range(len(suite.runs)), jobs=1)
    return report(plan, results, score_all(suite, plan.policies, results), "autopilot backtest --suite '<x>'")


@pytest.mark.parametrize("body", [random_availability_body(1), random_bid_body(1)])
def test_it_loads_nothing_and_every_plot_is_well_formed(body: dict[str, object]) -> None:
    hostile = '<script>alert(1)</script>&"'
    page = page_of({**body, "name": hostile})
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert not re.search(r"https?:|src=|href=|url\(|@import", page)
    assert "default-src 'none'" in page
    plots = re.findall(r"<svg.*?</svg>", page, re.DOTALL)
    assert len(plots) >= 5
    for plot in plots:
        ElementTree.fromstring(plot)
    assert not re.search(r"\b(nan|inf)\b", page)


def test_it_says_what_it_should() -> None:
    page = page_of(random_bid_body(2))
    for words in ("Cost against deadline", "Where the money went", "floor of a", "floor-markup", "optimal", "Run "):
        assert words in page
    assert "autopilot backtest --suite &#x27;&lt;x&gt;&#x27;" in page


def test_a_plot_of_a_single_value() -> None:
    ElementTree.fromstring(draw(Plot("one", "x", "y", [Series("l", [(1.0, 2.0)], "#000", marked=True)])))
    assert draw(Plot("none", "x", "y", [Series("l", [], "#000")])) == ""
