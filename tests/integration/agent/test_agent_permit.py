"""The dead-man's switch, and the bootstrap's refusals."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys

import pytest

from autopilot.agent.artifact import agent_key
from autopilot.agent.bootstrap import onstart
from autopilot.agent.unpack import AgentUnpacker
from autopilot.mailbox.checkpoints import verified_manifest
from autopilot.mailbox.keys import orders_key
from autopilot.mailbox.order_shapes import Work
from autopilot.mailbox.orders import taken_over_orders
from tests.integration.agent.agent_world import CALM, DAY, INSTANCE, JOB, World
from tests.patience import eventually

Call = tuple[str, str, str, dict[str, str]]
WORK = Work(
    run="echo precious > state; trap 'echo told >> state; exit 0' TERM; sleep 1000 & wait", checkpoint_path="state"
)
DESTROY: Call = ("DELETE", "/api/v0/instances/77/", "Bearer instance-key", {})


async def test_without_renewal_it_saves_and_destroys_its_own_machine(world: World) -> None:
    lease = await world.lease("a", WORK, checkpoint_interval_s=10_000)
    world.host(lease, speed=CALM).start()
    await lease.until("running", lambda beat: beat.state == "running")
    assert world.market_calls == []
    await lease.let_go(permit_ttl_s=10)
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0] == DESTROY
    await lease.until("saved", lambda beat: beat.state == "expired" and beat.last_checkpoint == 0)
    assert await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 0) is not None
    await eventually(lambda: len(world.market_calls) > 1, "it asks again while it lives")


@pytest.mark.slow
async def test_renewal_keeps_it_alive_past_many_permits(world: World) -> None:
    lease = await world.lease("a", WORK, permit_ttl_s=300)
    host = world.host(lease)
    host.start()
    first = await lease.until("running", lambda beat: beat.state == "running")
    # Ten renewals a real second at the most, and five real seconds to each permit.
    await lease.until("two permits later", lambda beat: beat.orders_seq_seen > first.orders_seq_seen + 100)
    assert world.market_calls == []


@pytest.mark.slow
async def test_what_its_user_has_taken_over_ends_the_job_and_outlives_every_permit(world: World) -> None:
    lease = await world.lease("a", WORK, checkpoint_interval_s=10_000)
    host = world.host(lease)
    host.start()
    await lease.until("running", lambda beat: beat.state == "running")
    lease.renewing = False
    await world.store.put(orders_key(JOB, "a"), taken_over_orders(INSTANCE))
    await eventually(lambda: "now left" in host.console.read_text(), "it is given up")
    await eventually(lambda: len(host.processes()) == 1, "the job has ended, and the agent stays")
    assert json.loads((host.root / "var/lib/autopilot/memory.json").read_text())["given_up"]
    assert (host.root / "workspace/state").read_text() == "precious\ntold\n"
    assert not list((world.store.root / "jobs" / JOB / "a").glob("ckpt/*"))
    assert world.market_calls == []


@pytest.mark.slow
async def test_when_the_last_upload_fails_it_goes_all_the_same(world: World) -> None:
    lease = await world.lease("a", WORK, checkpoint_interval_s=10_000)
    world.host(lease).start()
    await lease.until("running", lambda beat: beat.state == "running")
    blocked = world.store.root / "jobs" / JOB / "a" / "ckpt"
    blocked.write_text("in the way of every upload")
    await lease.let_go()
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0] == DESTROY


async def test_a_machine_that_never_ran_anything_is_destroyed(world: World) -> None:
    lease = await world.lease("a", WORK, role="wait")
    world.host(lease).start()
    await lease.until("waiting", lambda beat: beat.state == "waiting")
    await lease.let_go()
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0] == DESTROY


@pytest.mark.slow
async def test_a_machine_that_cannot_get_the_agent_destroys_itself(world: World) -> None:
    lease = await world.lease("a", WORK)
    host = world.host(lease, sha256="0" * 64, speed=900)
    host.start()
    await eventually(lambda: world.market_calls, "self-destroy")
    assert world.market_calls[0] == DESTROY
    assert "agent refused: wrong SHA-256" in host.console.read_text()
    assert not (host.root / "var/lib/autopilot/agent.pyz").exists()


@pytest.mark.slow
async def test_a_kept_agent_starts_without_the_store(world: World) -> None:
    lease = await world.lease("a", Work(run="echo ran >> runs; sleep 1000"))
    host = world.host(lease)
    host.start()
    await eventually((host.root / "workspace/runs").exists, "the job runs")
    host.kill()
    await world.store.delete_prefix(agent_key())
    host.start()
    await lease.until("second boot", lambda beat: beat.boot == 2 and beat.state == "running")


@pytest.mark.slow
async def test_told_to_terminate_it_saves_within_the_notice(world: World) -> None:
    lease = await world.lease("a", WORK, checkpoint_interval_s=10_000)
    agent = world.host(lease).start()
    await lease.until("running", lambda beat: beat.state == "running")
    agent.terminate()
    assert await eventually(lambda: agent.poll() is not None, "it ends")
    assert agent.returncode == 0
    manifest = await verified_manifest(world.store, AgentUnpacker(), JOB, "a", 0)
    assert manifest is not None
    parts = (world.store.root / "jobs" / JOB / "a" / "ckpt/0").glob("part-*")
    assert b"precious\ntold\n" in [part.read_bytes() for part in parts]


def test_an_image_without_python_is_told_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    root = tmp_path_factory.mktemp("bare")
    (root / "bin").mkdir()
    for tool in ("mkdir",):
        (root / "bin" / tool).symlink_to(f"/bin/{tool}")
    text = onstart("http://127.0.0.1:1/a", "0" * 64, "http://127.0.0.1:1/o")
    done = subprocess.run(
        ["/bin/sh", "-c", text],
        env={"PATH": str(root / "bin"), "AUTOPILOT_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no Python 3.8 or newer in this image" in done.stderr


@pytest.mark.slow
async def test_hostile_urls_are_quoted(world: World, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The orders URL reaches the agent unchanged, even if it has a meaning for the shell."""
    root = tmp_path_factory.mktemp("quoting")
    echo = b"import sys; open('seen', 'w').write(sys.argv[1])"
    await world.store.put("agent/echo.py", echo)
    orders_url = "http://x/?a=1&b='\"; touch $HOME `touch pwned` $(touch pwned) ARGUMENTS LOADER"
    text = onstart(world.store.sign_get("agent/echo.py", DAY), hashlib.sha256(echo).hexdigest(), orders_url)
    env = {"PATH": f"{sys.prefix}/bin:/usr/bin:/bin", "AUTOPILOT_ROOT": str(root)}
    shell = await asyncio.create_subprocess_exec("sh", "-c", text, cwd=root, env=env)
    assert await shell.wait() == 0
    assert (root / "seen").read_text() == orders_url
    assert not (root / "pwned").exists()
