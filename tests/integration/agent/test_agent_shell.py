"""The shell of a job's commands, by the agent as a real process."""

from __future__ import annotations

import pytest

from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import World
from tests.patience import eventually


@pytest.mark.parametrize(("in_bash", "code"), [(True, 3), (False, 0)])
async def test_a_pipe_ends_as_its_shell_ends_pipes(world: World, in_bash: bool, code: int) -> None:
    lease = await world.lease("a", Work(run="(echo begun; exit 3) | cat", in_bash=in_bash))
    world.host(lease).start()
    ended = await eventually(lease.exit, "exit record")
    assert (ended.exit_code, ended.reason, ended.is_syntax) == (code, "exited", False)
    assert "begun" in lease.log()


@pytest.mark.slow
@pytest.mark.parametrize("work", [Work(run="echo ran; if true", in_bash=True), Work(setup="echo 'ran", run="true")])
async def test_a_command_that_no_shell_can_read_says_so_and_nothing_is_run(world: World, work: Work) -> None:
    lease = await world.lease("a", work)
    world.host(lease).start()
    ended = await eventually(lease.exit, "exit record")
    assert (ended.exit_code, ended.is_syntax, ended.is_of_command, ended.is_of_host) == (2, True, False, False)
    await eventually(lambda: "yntax error" in lease.log() or "nterminated" in lease.log(), "the shell's words")
    assert "\nran" not in lease.log()
