"""Two machines that one create has made: both have the same orders, and only one of them is meant."""

from __future__ import annotations

import pytest

from autopilot.mailbox.order_shapes import Work
from tests.integration.agent.agent_world import INSTANCE, World
from tests.patience import eventually

OTHER = "78"
WORK = Work(run="echo ran > state; sleep 1000", checkpoint_path="state")


@pytest.mark.slow
async def test_the_machine_that_the_orders_do_not_name_destroys_itself_and_touches_nothing(world: World) -> None:
    lease = await world.lease("a", WORK)
    meant, other = world.host(lease), world.host(lease)
    other.env["CONTAINER_ID"] = OTHER
    other.start()
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0] == ("DELETE", f"/api/v0/instances/{OTHER}/", "Bearer instance-key", {})
    assert await lease.heartbeat() is None
    assert f"for machine {INSTANCE}, and this is {OTHER}" in other.console.read_text()
    meant.start()
    await lease.until("a checkpoint", lambda beat: beat.state == "running" and beat.last_checkpoint == 0)
    assert (meant.root / "workspace/state").exists()
    assert not (other.root / "workspace/state").exists()
    assert "agent started" in lease.log()
    assert lease.log().count("agent started") == 1


async def test_while_none_is_named_both_wait_and_the_one_named_then_goes_on(world: World) -> None:
    lease = await world.lease("a", WORK, role="wait")
    meant, other = world.host(lease), world.host(lease)
    await lease.order(instance_id=None)
    other.env["CONTAINER_ID"] = OTHER
    meant.start()
    other.start()
    await lease.until("waiting", lambda beat: beat.state == "waiting" and beat.seq > 3)
    assert world.market_calls == []
    await lease.order(instance_id=INSTANCE, role="run")
    await lease.until("running", lambda beat: beat.state == "running")
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0][1] == f"/api/v0/instances/{OTHER}/"
    assert not (other.root / "workspace/state").exists()
