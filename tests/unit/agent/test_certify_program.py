"""The program of a certification asks for the port that ``ssh`` asks for."""

from __future__ import annotations

import pytest

from autopilot.certify.job import PORT, write_program
from autopilot.mailbox.wire import SSH_PORT
from autopilot.markets.installed import every_market

MARKETS = every_market()


@pytest.mark.parametrize("market", MARKETS)
def test_the_port_is_that_of_ssh(market: str) -> None:
    assert PORT == SSH_PORT
    assert f"_{SSH_PORT}" in write_program(MARKETS[market].certify)


@pytest.mark.parametrize("market", MARKETS)
def test_the_program_is_python_in_one_shell_word(market: str) -> None:
    start, quoted, rest = write_program(MARKETS[market].certify).split("'")
    assert start == "python3 -u -c "
    assert rest == ""
    compile(quoted, "certify", "exec")
