"""What a job starts and hides from its end: without its environment, in a session of its own, after two forks."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import Host, World
from tests.integration.agent.test_agent_apart import on_that_disk, reachable
from tests.patience import eventually

__all__ = ["reachable"]

_numbers = itertools.count(os.getpid() * 1000)
AGAIN = "import os\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
ESCAPES = {
    "its environment": "env -i setsid sh -c '{hidden}' &",
    "its parents": "(setsid env -i sh -c '(setsid sh -c \"{hidden}\" &)' &)",
    "by Python": "python3 -c '" + AGAIN + 'os.execve("/bin/sh", ["sh", "-c", "{hidden}"], dict())\'',
}


@pytest.fixture
def number() -> Iterator[str]:
    """How long the hidden process would sleep: by that it is known."""
    made = str(next(_numbers))
    yield made
    for pid in hidden(made):
        with suppress(ProcessLookupError):
            os.kill(pid, 9)


def hidden(number: str) -> list[int]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", number.encode()]:
                found.append(int(pid))
    return found


def hide(escape: str, number: str, made: str = "hidden") -> str:
    """Commands that are over once it sleeps."""
    return (
        escape.replace("{hidden}", f"touch {made}; exec sleep {number}")
        + f"\nuntil [ -e {made} ]; do sleep 0.02; done\n"
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("escape", ESCAPES)
@pytest.mark.parametrize("as_root", [False, True])
async def test_nothing_of_a_run_outlives_it(
    reachable: Path, world: World, number: str, escape: str, as_root: bool
) -> None:
    """As a user of its own, and as the agent's."""
    lease = await world.lease("a", Work(run=hide(ESCAPES[escape], number) + "exit 3", as_root=as_root))
    host = on_that_disk(world.host(lease), reachable)
    host.start()
    assert (await eventually(lease.exit, "exit")).exit_code == 3
    assert (host.root / "workspace/hidden").stat().st_uid == (0 if as_root else (host.root / "workspace").stat().st_uid)
    await eventually(lambda: not hidden(number), "what it has hidden is gone")


@pytest.mark.slow
async def test_what_a_setup_has_left_lives_on_and_what_a_task_has_hidden_does_not(world: World, number: str) -> None:
    """The next task has the machine to itself, and the setup is not run again."""
    service = number + ".5"
    setup = hide(ESCAPES["its environment"], service, "../served")
    work = Work(setup=setup, run=hide(ESCAPES["by Python"], number), as_root=True, env={"TASK": "0"})
    lease = await world.lease("a", work)
    host = world.host(lease)
    host.start()
    await eventually(lease.exit, "exit")
    beat = await lease.until("finished", lambda beat: beat.state == "finished")
    assert "next_task" in beat.can
    assert (len(hidden(service)), hidden(number)) == (1, [])
    look = f"ps -e -o args= | grep -c '^sleep {number}$' > ../witness; exit 5"
    await lease.order(job="second", run_epoch=2, work=dataclasses.replace(work, run=look, env={"TASK": "1"}))

    async def second() -> bool:
        record = await lease.exit()
        return record is not None and record.run_epoch == 2

    await eventually(second, "the exit of the second task")
    assert (host.root / "witness").read_text() == "0\n"
    assert len(hidden(service)) == 1
    _end(host, service)


async def test_those_that_are_adopted_keep_no_pid_after_their_end(world: World) -> None:
    """No other process reaps them: a job that makes many would use up all pids."""
    lease = await world.lease("a", Work(run="for n in 1 2 3 4 5; do (setsid true &); done; touch made; sleep 1000"))
    host = world.host(lease)
    agent = host.start()
    await eventually((host.root / "workspace/made").exists, "they were made")
    await eventually(lambda: not _zombies_of(agent.pid), "they are reaped")


def _zombies_of(parent: int) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        with suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if fields[0] == b"Z" and int(fields[1]) == parent:
                found.append(pid)
    return found


def _end(host: Host, service: str) -> None:
    host.kill()
    for pid in hidden(service):
        os.kill(pid, 9)
