"""What arrives of a job's output when there are too few addresses for it: its beginning, a line, and its end."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped.log import KEPT_SLOTS, LINE_BYTES, LOG_BUFFER_BYTES, LOG_CHUNK_BYTES, Log

CUT = re.compile(rb"\n?autopilot: (\d+) kB of output were cut here: more came than could be sent\n")


class Mailbox:
    """Its chunks by number; the orders name the next ``ahead`` of them when asked for."""

    def __init__(self, ahead: int = 10) -> None:
        self.chunks: dict[int, bytes] = {}
        self.ahead = ahead
        self.is_down = False

    def slots(self) -> list[dict[str, object]]:
        return [{"boot": 1, "n": n, "url": str(n)} for n in range(len(self.chunks), len(self.chunks) + self.ahead)]

    def put(self, url: str, data: bytes) -> None:
        if self.is_down:
            raise OSError("it is down")
        assert int(url) not in self.chunks, "a chunk is written once"
        self.chunks[int(url)] = data

    @property
    def text(self) -> bytes:
        return b"".join(self.chunks[n] for n in range(len(self.chunks)))


@pytest.fixture(autouse=True)
def no_console(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("autopilot.agent.shipped.log.os.write", lambda *_: 0)


def lines(count: int) -> bytes:
    return b"".join(b"%08d %s\n" % (i, b"x" * 90) for i in range(count))


TRACEBACK = b"Traceback (most recent call last):\nRuntimeError: CUDA out of memory\n"


def test_what_has_addresses_arrives_as_it_came() -> None:
    log, mailbox = Log(1), Mailbox()
    log.add(lines(3000))
    log.ship("", mailbox.slots(), mailbox.put)
    assert mailbox.text == lines(3000)
    assert log.is_all_sent


def test_some_addresses_are_kept_for_the_end() -> None:
    log, mailbox = Log(1), Mailbox()
    slots = mailbox.slots()
    log.add(lines(60_000) + TRACEBACK)
    log.ship("", slots, mailbox.put)
    assert len(mailbox.chunks) == 10 - KEPT_SLOTS
    log.ship("", slots, mailbox.put, is_last=True)
    assert log.is_all_sent
    assert mailbox.text.endswith(TRACEBACK)
    [cut] = CUT.finditer(mailbox.text)
    assert mailbox.text.startswith(lines(15_000))
    assert len(lines(60_000) + TRACEBACK) - len(mailbox.text) + len(cut[0]) <= int(cut[1]) * 1000
    assert mailbox.text[cut.end() :].split(b" ")[0].isdigit(), "it goes on with a whole line"


def test_more_than_can_wait_loses_what_lies_between() -> None:
    log, mailbox = Log(1), Mailbox(ahead=1000)
    log.add(b"first\n")
    log.ship("", mailbox.slots(), mailbox.put)
    for _ in range(40):
        log.add(lines(10_000))
    log.add(TRACEBACK)
    log.ship("", mailbox.slots(), mailbox.put)
    assert mailbox.text.startswith(b"first\nautopilot: ")
    assert mailbox.text.endswith(TRACEBACK)
    [cut] = CUT.finditer(mailbox.text)
    assert len(mailbox.text) <= LOG_BUFFER_BYTES + 200
    assert int(cut[1]) * 1000 >= 40 * len(lines(10_000)) - LOG_BUFFER_BYTES


def test_one_line_without_end_is_cut_as_well() -> None:
    log, mailbox = Log(1), Mailbox(ahead=3)
    log.add(b"." * (LOG_BUFFER_BYTES * 2) + b"end")
    log.ship("", mailbox.slots(), mailbox.put, is_last=True)
    assert log.is_all_sent
    assert mailbox.text.endswith(b"end")
    assert len(mailbox.text) <= 3 * LOG_CHUNK_BYTES


def test_without_any_address_nothing_is_sent_and_nothing_breaks() -> None:
    log, mailbox = Log(1), Mailbox(ahead=0)
    log.add(lines(10))
    log.ship("", mailbox.slots(), mailbox.put, is_last=True)
    assert mailbox.chunks == {}


def test_a_new_task_is_told_nothing_of_the_one_before() -> None:
    log, mailbox = Log(1), Mailbox()
    log.begin("a")
    for _ in range(12):
        log.add(lines(10_000))
    log.begin("b")
    log.add(b"fresh\n")
    log.ship("b", mailbox.slots(), mailbox.put)
    assert mailbox.text == b"fresh\n"


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3 * LOG_CHUNK_BYTES)),
    st.tuples(st.just("ship"), st.booleans()),
    st.tuples(st.just("same slots"), st.booleans()),
)


@given(steps=st.lists(STEPS, max_size=30), ahead=st.integers(KEPT_SLOTS + 1, 8))
def test_beginning_and_end_are_there_and_each_gap_is_told(steps: list[tuple[str, int]], ahead: int) -> None:
    log, mailbox = Log(1), Mailbox(ahead)
    sent, slots = b"", mailbox.slots()
    for what, value in steps:
        if what == "add":
            more = (b"%07d\n" % len(sent)) * (value // 8)
            sent += more
            log.add(more)
            continue
        if what == "ship":
            slots = mailbox.slots()
        mailbox.is_down = bool(value)
        try:
            log.ship("", slots, mailbox.put)
        except OSError:
            assert mailbox.is_down
    mailbox.is_down = False
    if len(mailbox.slots()) and all(int(str(slot["url"])) in mailbox.chunks for slot in slots[:-KEPT_SLOTS]):
        slots = mailbox.slots()
    last = sent + b"the end\n"
    log.add(b"the end\n")
    log.ship("", slots, mailbox.put, is_last=True)
    assert log.is_all_sent
    assert mailbox.text.endswith(b"the end\n")
    pieces = CUT.split(mailbox.text)
    said = sum(int(kb) * 1000 for kb in pieces[1::2])
    lost = len(last) - sum(map(len, pieces[::2]))
    assert lost <= said <= lost + 1000 * len(pieces) + LINE_BYTES * len(pieces)
    assert last.startswith(pieces[0])
