"""The agent's tables: what they must keep true for any events in any order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.agent.shipped import states
from autopilot.agent.shipped.states import DISK, LIFE, PROCESS, RESULT, UPLOAD, Life, move
from autopilot.domain.agent_state import AgentState
from autopilot.mailbox import wire

FIRST = [(LIFE, states.SERVING), (PROCESS, states.NONE), (DISK, states.EMPTY), (UPLOAD, states.NONE)]
FIRST += [(RESULT, states.NONE)]


@pytest.mark.parametrize(("table", "first"), FIRST)
def test_every_state_of_a_table_can_be_reached_and_has_a_row(table: dict[str, dict[str, str]], first: str) -> None:
    reached, ahead = {first}, [first]
    while ahead:
        for state in table[ahead.pop()].values():
            if state not in reached:
                reached.add(state)
                ahead.append(state)
    assert reached == table.keys()


@given(st.lists(st.sampled_from(["expire", "quit"]), min_size=1, max_size=5))
def test_a_machine_that_is_on_its_way_out_is_never_served_again(events: list[str]) -> None:
    life = Life()
    for now, event in enumerate(events, 1):
        life = life.move(event, now)
    assert life.state != states.SERVING
    assert life.is_expired is ("expire" in events)
    assert life.since == (events.index("quit") if "quit" in events else 0) + 1


@given(st.lists(st.sampled_from(["expire", "quit", "give_up"]), max_size=6))
def test_what_is_given_up_expires_no_more_and_what_quits_is_not_given_up(events: list[str]) -> None:
    life = Life()
    for now, event in enumerate(events, 1):
        life = life.move(event, now)
    counted = events[: events.index("quit")] if "quit" in events else events
    assert life.is_given_up is ("give_up" in counted)
    assert not (life.is_given_up and life.is_expired)


@given(st.lists(st.sampled_from(["restore", "again", "start", "end", "save"]), max_size=12))
def test_what_the_job_has_done_is_unsaved_until_a_save(events: list[str]) -> None:
    state, is_dirty = states.EMPTY, False
    for event in events:
        if state == states.UNSAVED and event == "start":
            continue  # a run begins from a restored disk only
        state = move(DISK, state, event)
        is_dirty = event == "start" or (is_dirty and event != "save")
        assert (state in (states.IN_USE, states.UNSAVED)) is is_dirty


def test_an_event_without_an_arrow_changes_nothing() -> None:
    assert move(RESULT, states.REPORTED, "outputs") == states.REPORTED
    assert move(PROCESS, states.KILLED, "term") == states.KILLED


def test_the_agent_and_the_daemon_know_the_same_states_and_abilities() -> None:
    assert states.ABILITIES == wire.ABILITIES
    assert set(states.AGENT_STATES) == set(AgentState) - {AgentState.UNHEARD}
