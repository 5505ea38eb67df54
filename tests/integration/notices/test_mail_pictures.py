"""A letter about a job has the job's picture within, read as a mail program reads it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from email.message import EmailMessage
from xml.etree import ElementTree

from autopilot.clock import ManualClock
from autopilot.domain.params import Params
from autopilot.notices.mail import LARGEST_PICTURE, MOST_PICTURES
from autopilot.notices.message import message_of
from autopilot.ports.store import PendingNotice, StoreUnavailable
from autopilot.service.job_pictures import JobPictures
from autopilot_lab.memory_store.store import MemoryStore
from tests.integration.notices.test_mail import NOTICE, Letters, a_mail_server, a_sink
from tests.unit.web.web_ledger import JOB, LIMITS, NOW, fill

ABOUT_A_JOB = replace(NOTICE, job_id=JOB)


async def send(draw: Callable[[str], Awaitable[str | None]], *notices: PendingNotice) -> EmailMessage:
    letters = Letters()
    async with a_mail_server(letters) as port:
        await a_sink(port, draw=draw).send(message_of(notices))
    (letter,) = letters.taken
    return letter


async def test_the_picture_of_a_job_is_in_its_letter() -> None:
    store = MemoryStore()
    await fill(store)
    letter = await send(JobPictures(store, ManualClock(NOW), Params(), LIMITS).draw, ABOUT_A_JOB)
    body = letter.get_body(("plain",))
    assert body is not None
    assert body.get_content().splitlines()[:2] == ["It cost $4.20.", "Next: look."]
    (picture,) = letter.iter_attachments()
    assert (picture.get_content_type(), picture.get_content_disposition()) == ("image/svg+xml", "inline")
    assert (picture.get_filename(), picture["Content-ID"]) == (f"{JOB}.svg", f"<{JOB}.svg@autopilot>")
    drawn = ElementTree.fromstring(picture.get_content())
    text = " ".join(drawn.itertext())
    assert "research: running" in text
    assert "$2.50 of $8.00 spent" in text


async def test_a_notice_about_no_job_or_one_that_there_is_not_has_none() -> None:
    pictures = JobPictures(MemoryStore(), ManualClock(NOW), Params(), LIMITS)
    for notice in (NOTICE, ABOUT_A_JOB):
        assert not (await send(pictures.draw, notice)).is_multipart()


async def test_what_cannot_be_drawn_keeps_no_notice_back() -> None:
    async def draw(job_id: str) -> str | None:
        raise StoreUnavailable("locked")

    assert (await send(draw, ABOUT_A_JOB)).get_content().startswith("It cost $4.20.")


async def test_a_letter_that_was_not_taken_goes_without() -> None:
    """Its server may refuse such a file."""

    async def draw(job_id: str) -> str | None:
        return "<svg/>"

    assert (await send(draw, ABOUT_A_JOB)).is_multipart()
    assert not (await send(draw, replace(ABOUT_A_JOB, attempts=1))).is_multipart()


async def test_pictures_are_few_and_bounded() -> None:
    asked: list[str] = []

    async def draw(job_id: str) -> str | None:
        asked.append(job_id)
        return "x" * (LARGEST_PICTURE + 1) if job_id == "job-0" else "<svg/>"

    many = [replace(NOTICE, id=f"n{number}", job_id=f"job-{number}", digest_id="d") for number in range(9)]
    letter = await send(draw, *many, many[1])
    assert asked == [f"job-{number}" for number in range(MOST_PICTURES)]
    assert [each.get_filename() for each in letter.iter_attachments()] == ["job-1.svg", "job-2.svg"]
