"""The picture of a job as a file: whole, by itself, and with text as text."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from autopilot.domain.job import JobStatus
from autopilot.web.picture import draw_job
from tests.store_records import START
from tests.unit.web.web_ledger import HOUR, JOB, NOW, a_reader


async def draw(name: str = "research") -> str:
    reader = await a_reader(name=name, detail=name)
    async with reader.view() as view:
        body = await view.read_job(JOB)
        prices = [await view.prices("RTX 4090", NOW.replace(hour=0), NOW, 60)]
    return draw_job(body, prices, NOW)


def tags(drawn: str) -> list[str]:
    return [each.tag.rpartition("}")[2] for each in ElementTree.fromstring(drawn).iter()]


async def test_it_is_whole_and_leads_nowhere() -> None:
    drawn = await draw()
    found = tags(drawn)
    assert found[0] == "svg"
    assert not {"a", "script", "image", "foreignObject", "use"} & set(found)
    assert "http" not in drawn.replace("http://www.w3.org/2000/svg", "")
    text = " ".join(ElementTree.fromstring(drawn).itertext())
    assert "research: running" in text
    assert "$2.50 of $8.00 spent" in text
    for said in ("vast.ai", "RunPod", "decisions", "progress", "our bid"):
        assert said in text


@pytest.mark.parametrize(("over_after", "said"), [(None, "on track"), (4, "deadline met"), (40, "deadline missed")])
async def test_the_deadline_is_said_in_words(over_after: int | None, said: str) -> None:
    reader = await a_reader()
    async with reader.view() as view:
        body = await view.read_job(JOB)
    if over_after is not None:
        job = replace(body.job, status=JobStatus.SUCCEEDED, finished_at=START + over_after * HOUR)
        body = replace(body, job=job)
    assert f", {said}</text>" in draw_job(body, [], NOW)


async def test_a_job_that_failed_before_its_deadline_has_missed_none() -> None:
    reader = await a_reader()
    async with reader.view() as view:
        body = await view.read_job(JOB)
    job = replace(body.job, status=JobStatus.FAILED, finished_at=START + 4 * HOUR)
    assert ", failed</text>" in draw_job(replace(body, job=job), [], NOW)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", '"><svg onload=alert(1)>', "]]></style>", "&lt;&#60;"])
async def test_markup_in_names_is_text(name: str) -> None:
    assert tags(await draw(name)) == tags(await draw())
