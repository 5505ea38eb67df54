"""Pictures: what is drawn where, and that a picture says the same to who cannot see it."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal

from autopilot import render
from autopilot.answers.codec import from_json
from autopilot.answers.instances import Span
from autopilot.answers.jobs import Decision, Event, Lease, Note
from autopilot.books.job_life import list_spans
from autopilot.web import curves, machines, svg
from autopilot.web.hero import draw_decisions
from autopilot.web.machines import BilledTime, MachineLife
from autopilot.web.svg import Axis, Scale
from tests.store_records import START
from tests.unit.web.web_ledger import HOUR, JOB, NOW, a_reader, events_of, leases_of

D = Decimal
AXIS = Axis(START, START + 10 * HOUR)


def two_machines() -> list[MachineLife]:
    leases = leases_of()
    return machines.read_machines(
        from_json(list[Lease], [render.lease(lease) for lease in leases]),
        from_json(dict[str, list[Span]], {lease.id: list_spans(lease) for lease in leases}),
        from_json(list[Event], [render.event(record) for record in events_of()]),
        NOW,
    )


def test_a_machine_sets_up_until_its_command_runs() -> None:
    lost, works = two_machines()
    assert lost.bars == (
        BilledTime("loading", START, START + 0.1 * HOUR),
        BilledTime("setup", START + 0.1 * HOUR, START + 0.3 * HOUR),
        BilledTime("spot", START + 0.3 * HOUR, START + 2 * HOUR),
        BilledTime("paused", START + 2 * HOUR, START + 2.5 * HOUR),
    )
    assert works.bars == (
        BilledTime("setup", START + 2.2 * HOUR, START + 2.4 * HOUR),
        BilledTime("demand", START + 2.4 * HOUR, NOW),
    )


def test_what_was_paid_for_is_the_whole_of_the_time() -> None:
    _, shares = machines.split_paid(two_machines())
    assert {share.state: share.time for share in shares} == {
        "spot": 1.7 * HOUR,
        "demand": 2.6 * HOUR,
        "setup": 0.4 * HOUR,
        "paused": 0.5 * HOUR,
    }


def test_each_market_has_a_lane_and_an_overlap_a_row() -> None:
    first, second = two_machines()
    lanes = machines.draw_lanes([first, second], AXIS)
    assert [lane.market for lane in lanes] == ["runpod", "vastai"]
    again = MachineLife(replace(second.lease, provider="vastai"), second.bars)
    (lane,) = machines.draw_lanes([first, again], AXIS)
    assert 'height="44"' in lane.picture
    assert 'x="25.00%" y="15"' in lane.picture.replace('class="lost mid" ', "")  # where the first was taken away


def test_what_is_outside_the_axis_is_not_drawn() -> None:
    assert list(machines.draw_bars([BilledTime("spot", START - HOUR, START)], AXIS, 0, 10)) == []
    (half,) = machines.draw_bars([BilledTime("spot", START - HOUR, START + HOUR)], AXIS, 0, 10)
    assert 'x="0.00%"' in half
    assert 'width="10.00%"' in half


def test_near_decisions_are_one_mark_with_their_number() -> None:
    def decision(number: int, minutes: float) -> Decision:
        at, action = START + timedelta(minutes=minutes), Note(topic="change_bid", numbers={"bid": "0.31"})
        return Decision(id=f"D{number}", at=at, actions=[action], vetoes=[], notes=[], answers=[], bids=[])

    drawn = draw_decisions([decision(1, 60), decision(2, 61), decision(3, 300)], AXIS, "D1")
    assert re.findall(r'href="([^"]*)"', drawn) == ["?d=D1#why", "?d=D3#why"]
    assert "2 decisions, the last at" in drawn
    assert drawn.count("chosen") == 1


def test_a_meter_never_exceeds_its_limit() -> None:
    drawn = curves.draw_meter([("used", D(9)), ("held", D(5))], D(10), "spent")
    assert re.findall(r'width="([\d.]+)%"', drawn) == ["100", "100", "90.00", "10.00"]
    assert curves.draw_meter([("used", D(1))], None, "spent") == ""
    assert curves.draw_meter([("used", D(1))], D(0), "spent") == ""


def test_the_bars_of_a_day_are_as_tall_as_its_spend() -> None:
    first = date(2026, 11, 1)
    spent = {"runpod": {first: D(1)}, "vastai": {first: D(3), date(2026, 11, 2): D(4)}}
    panel = curves.draw_days(spent, first, date(2026, 12, 1), date(2026, 11, 2))
    heights = [float(height) for height in re.findall(r'class="market-\d"[^>]*height="([\d.]+)"', panel.picture)]
    low, middle, high = heights
    assert abs(3 * (low + 1) - (middle + 1)) < 0.3
    assert abs(4 * (low + 1) - (high + 1)) < 0.3
    assert "01 Nov, vast.ai: $3.00" in panel.picture


async def test_the_curve_ends_at_what_is_spent() -> None:
    async with (await a_reader()).view() as view:
        body = await view.read_job(JOB)
    panel, _ = curves.draw_budget(body, NOW)
    assert 'aria-label="$2.50 spent of $8.00"' in panel.picture
    assert "budget $8.00" in panel.picture


async def test_the_fan_begins_where_it_was_reckoned_and_ends_with_nine_tenths_of_the_markets() -> None:
    async with (await a_reader()).view() as view:
        body = await view.read_job(JOB)
    panel, _ = curves.draw_budget(replace(body, forecast=None), NOW)
    assert "fan" not in panel.picture
    assert curves.tell_forecast(None, NOW) == ""
    drawn = re.search(r'<path d="M([\d.]+) ([\d.]+)L([^"]*)Z" class="fan"', curves.draw_budget(body, NOW)[0].picture)
    assert drawn is not None
    points = [tuple(map(float, point.split())) for point in drawn[3].split("L")]
    (soonest_x, high_y), (latest_x, top_y), (end_x, low_y) = points[:3]
    assert float(drawn[1]) < soonest_x < latest_x == end_x < 1000
    assert high_y == top_y < low_y < float(drawn[2]), "dollars grow upwards"
    assert curves.tell_forecast(body.forecast, NOW).replace("\N{NO-BREAK SPACE}", " ") == (
        "Ends at about $3.60, between $3.20 and $4.40 in 8 of 10 markets; done about 20 Nov 19:30,"
        " in 9 of 10 by 20 Nov 23:30; 96 % on time. Estimated 20 min ago."
    )


def test_ticks_are_round_and_few() -> None:
    for hours in (0.2, 1, 5, 30, 500, 20_000):
        axis = Axis(START, START + hours * HOUR)
        ticks = list(axis.ticks())
        assert len(ticks) <= 9, hours
        assert all(at.second == 0 for at, _ in ticks)
    assert [label for _, label in AXIS.ticks(4)] == ["12:00", "15:00", "18:00"]


def test_an_axis_of_no_length_and_a_scale_of_cents_can_be_drawn() -> None:
    assert svg.ruler(Axis(START, START)) is not None
    assert Scale(0.0003, 100).steps()
    assert 2 <= len(Scale(123456, 100).steps()) <= 5


def test_text_and_attributes_are_escaped() -> None:
    drawn = svg.element("text", '<b a="1">&', aria_label='"><script>')
    assert drawn == '<text aria-label="&#34;&gt;&lt;script&gt;">&lt;b a=&#34;1&#34;&gt;&amp;</text>'
