"""Secrets in a job's output: whole, in pieces, and what is told by an output that is masked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from autopilot.api.masking import MASK, SHORTEST, OutputMask

OWN, OTHER = "hf_AbCdEfGhIjKlMnOp", "key-0123456789abcdef"
MASKING = OutputMask([OWN], [OTHER])


def show(pieces: list[bytes]) -> list[bytes]:
    """As they come, one by one: the next is unknown."""
    before, shown = b"", []
    for piece in pieces:
        shown.append(MASKING.hide(before, piece))
        before = MASKING.keep_end(before + piece)
    return shown


def test_whole_values_are_masked_and_the_rest_is_as_it_was() -> None:
    text = f"a {OWN} b {OTHER}{OTHER} \u00e9\n".encode()
    assert MASKING.hide(b"", text) == b"a [secret] b [secret][secret] \xc3\xa9\n"
    assert OutputMask().hide(b"x", text) == text


def test_values_that_are_too_short_or_empty_are_not_masked() -> None:
    assert OutputMask(["", "12345"], ["no"]).hide(b"", b"12345 no") == b"12345 no"
    assert OutputMask(["123456"]).hide(b"", b"1234567") == MASK + b"7"


@given(st.integers(0, len(OWN)), st.binary(max_size=8), st.binary(max_size=8))
def test_a_value_that_is_cut_anywhere_is_never_pieced_together(cut: int, front: bytes, back: bytes) -> None:
    value = OWN.encode()
    shown = show([front + value[:cut], value[cut:] + back])
    assert value not in b"".join(shown)
    longest = max(len(value[:n]) for n in range(len(value) + 1) if value[:n] in b"".join(shown))
    assert longest < SHORTEST
    assert not any(value[-n:] in shown[1] for n in range(SHORTEST, len(value)))


def test_a_value_in_many_pieces_is_masked_too() -> None:
    shown = b"".join(show([OWN[n : n + 1].encode() for n in range(len(OWN))]))
    assert shown.startswith(OWN[: SHORTEST - 1].encode())
    assert OWN[: SHORTEST + 1].encode() not in shown
    assert OWN[-4:].encode() not in shown


def test_what_began_in_a_chunk_that_was_deleted_is_masked() -> None:
    assert MASKING.hide(None, OWN[5:].encode() + b" goes on") == MASK + b" goes on"
    assert MASKING.hide(b"", OWN[5:].encode()) == OWN[5:].encode(), "it is the beginning of all: no value ends there"


@pytest.mark.parametrize("length", range(1, len(OTHER)))
def test_a_guess_at_what_the_job_does_not_have_changes_nothing(length: int) -> None:
    """Else a job could find a market's key out, character by character, by what its output becomes."""
    guess = OTHER[:length].encode()
    assert show([guess]) == [guess]
    assert show([guess, b"?"]) == [guess, b"?"]
