"""A job's last output arrives before its end is reported, regardless of earlier output."""

from __future__ import annotations

import sys

import pytest

from autopilot.domain.readings import Readings
from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import CALM, World
from tests.patience import eventually

TELLS = "sys.stdout.write(''.join(f'{{i:08}} ' + 'x' * 90 + '\\n' for i in range({count})))"
FAILS = "sys.stdout.flush(); sys.stderr.write('Traceback: CUDA out of memory\\n'); sys.exit(1)"


def printing(count: int) -> Work:
    return Work(run=f'"{sys.executable}" -c "import sys; {TELLS.format(count=count)}; {FAILS}"')


@pytest.mark.slow
async def test_all_of_it_arrives_before_the_end(world: World) -> None:
    lease = await world.lease("a", printing(30_000))
    world.host(lease, speed=CALM).start()
    record = await eventually(lease.exit, "exit record")
    assert record.exit_code == 1
    lines = lease.log().splitlines()
    said = [line for line in lines if not line.startswith("autopilot: ")]
    assert said == [f"{i:08} " + "x" * 90 for i in range(30_000)] + ["Traceback: CUDA out of memory"]
    beat = await lease.heartbeat()
    assert beat is not None
    assert beat.next_log >= 12, "what the daemon keeps of it is counted from the heartbeat"


@pytest.mark.slow
async def test_the_end_arrives_where_no_more_addresses_come(world: World) -> None:
    lease = await world.lease("a", printing(60_000))
    lease.renewing = False
    host = world.host(lease)
    await lease.write_orders()
    host.start()
    await eventually(lease.exit, "exit record")
    log = lease.log()
    assert "00000000 x" in log, "its beginning"
    assert "kB of output were cut here" in log
    before, _, after = log.partition("Traceback: CUDA out of memory\n")
    assert f"{59_999:08} " in before[-200:]
    assert "run ended with code 1" in after


BARS = (
    "import sys; [sys.stderr.write(f'\\r{n:3}%|###   | {n}/100 [00:10<00:10,  1.00it/s, loss=0.5]') for n in range(46)]"
    "; sys.stderr.write('\\n'); sys.stderr.flush(); sys.stdin.read()"
)


@pytest.mark.parametrize(("progress", "fraction"), [("", 0.45), ("off", None), ("step (?P<step>[0-9]+)", None)])
async def test_what_a_trainer_prints_is_recognised_unless_the_job_speaks_for_itself(
    world: World, progress: str, fraction: float | None
) -> None:
    lease = await world.lease("a", Work(run=f'sleep 3600 | "{sys.executable}" -c "{BARS}"', progress=progress))
    world.host(lease, speed=CALM).start()

    async def beat_of_output() -> Readings | None:
        beat = await lease.heartbeat()
        return beat.readings if beat is not None and "loss=0.5" in lease.log() else None

    async def settled() -> Readings | None:
        first = await beat_of_output()
        return first if first is not None and (first.recognised is not None or fraction is None) else None

    readings = await eventually(settled, "readings")
    assert (readings.recognised and readings.recognised.fraction) == fraction
    beat = await lease.heartbeat()
    assert beat is not None
    assert beat.progress is None, "it is not the job's own word"
