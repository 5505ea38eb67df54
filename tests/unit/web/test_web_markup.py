"""The name of a job, a market or a machine is shown as text: the page has the same elements with any name."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autopilot import web
from autopilot.web import decisions_page, hosts_page, job_page, machine_page, market_page, money_page, now_page
from autopilot.web.hero import MARKS
from autopilot.web.site import PageSite
from tests.unit.web.page_reader import PageReader
from tests.unit.web.web_ledger import JOB, a_reader

CORPUS = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "</title><script>alert(1)</script>",
    "</text></svg><svg onload=alert(1)>",
    "<![CDATA[ ]]><!-- -->",
    "-->]]>",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;b&gt;&#60;b&#62;",
    "javascript:alert(1)",
    "\u202ereversed\u2066",
    "a\u0085b\u2028c",
    "<style>*{display:none}</style>",
    "\x1b[31mred",
]
SITE = PageSite()
WEB = Path(web.__file__).parent


async def read_pages(name: str, gpu: str) -> list[PageReader]:
    reader = await a_reader(name=name, detail=name, gpu=gpu)
    async with reader.view() as view:
        made = [
            ("now.html", await now_page.build(view)),
            ("job.html", await job_page.build(view, JOB, {})),
            ("job.html", await job_page.build(view, JOB, {"d": "01DECISION1"})),
            ("money.html", await money_page.build(view, {"by": "gpu"})),
            ("decisions.html", await decisions_page.build(view, {})),
            ("hosts.html", await hosts_page.build(view)),
            ("machine.html", await machine_page.build(view, "lease-a")),
            ("market.html", await market_page.build(view, {})),
            ("money.html", await money_page.build(view, {"by": "job"})),
        ]
    return [PageReader(SITE.render(template, "/", page=page)) for template, page in made]


HARMLESS = asyncio.run(read_pages("research", "RTX 4090"))


def check(name: str) -> None:
    hostile = asyncio.run(read_pages(name, name))
    for page, plain in zip(hostile, HARMLESS, strict=True):
        assert page.elements == plain.elements


@pytest.mark.parametrize("name", CORPUS)
def test_markup_of_the_corpus_is_text(name: str) -> None:
    check(name)
    page = asyncio.run(read_pages(name, name))[1]
    assert " ".join(name.replace("\u00a0", " ").split()) in page.text


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([*CORPUS, "<", ">", '"', "'", "&", "a", " "]), min_size=1, max_size=4).map(
        lambda parts: "x" + "".join(parts)
    )
)
def test_markup_of_any_kind_is_text(name: str) -> None:
    check(name)


def test_a_mark_has_one_meaning() -> None:
    """A cross is a preempted machine: in the legend, and drawn beside its bar. All other failures have words."""
    templates = [(path.name, path.read_text()) for path in (WEB / "templates").iterdir()]
    programs = [(path.name, path.read_text()) for path in WEB.glob("*.py")]
    found = {mark: [name for name, text in (*templates, *programs) for _ in range(text.count(mark))] for mark in "✕✓▼"}
    assert found == {"✕": ["parts.html", "machines.py"], "✓": [], "▼": ["job_live.html", "hero.py"]}
    assert len(set(MARKS.values())) == 4, "rents and moves are one mark, and so are releases and saves"
