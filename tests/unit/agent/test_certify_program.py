"""The program of a certification asks for the port that ``ssh`` asks for."""

from __future__ import annotations

from autopilot.certify.job import PORT, PROGRAM
from autopilot.mailbox.wire import SSH_PORT


def test_the_port_is_that_of_ssh() -> None:
    assert PORT == SSH_PORT
    assert f"_{SSH_PORT}" in PROGRAM


def test_the_program_is_python_in_one_shell_word() -> None:
    start, quoted, rest = PROGRAM.split("'")
    assert start == "python3 -u -c "
    assert rest == ""
    compile(quoted, "certify", "exec")
