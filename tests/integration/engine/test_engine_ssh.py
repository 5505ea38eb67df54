"""Where the user may log in: the key goes with the create, and the machine's own word comes back to its owner."""

from __future__ import annotations

import os

import pytest

from autopilot.domain.errors import UserError
from autopilot.mailbox.report_shapes import SshLogin
from tests.integration.engine.engine_world import JOB, World

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBdTvTnGDZKJkcFNbe1LPJ7fnTkzFf0NJGQFvY4H3EwQ"
WITH_KEY = f'{JOB}\n[ssh]\nkey = "{KEY}"\n'
ME = os.getuid()


async def refusal(world: World, uid: int = ME) -> UserError:
    with pytest.raises(UserError) as caught:
        await world.jobs.ssh.locate(world.job_id, uid)
    return caught.value


async def test_the_key_and_a_port_go_with_the_create_and_the_address_comes_back(world: World) -> None:
    world.agents.total_steps = 2000
    lease = await world.running(WITH_KEY)
    (instance,) = world.ours()
    assert dict(instance.order.env) == {"AUTOPILOT_SSH_KEY": KEY, "-p 70022:70022": "1"}
    assert "has not reported its login" in (await refusal(world)).message
    world.agents.ssh = SshLogin("203.0.113.7", 41234, "root")
    await world.tick(3)
    where = await world.jobs.ssh.locate(world.job_id, ME)
    assert where == {"host": "203.0.113.7", "port": 41234, "user": "root", "lease": lease.id}
    assert "another user's" in (await refusal(world, uid=ME + 1)).message
    world.agents.ssh = SshLogin(fault="the image has no sshd (openssh-server)")
    await world.tick(3)
    refused = await refusal(world)
    assert refused.message.endswith("the image has no sshd (openssh-server)")
    assert "autopilot exec" in refused.hint


async def test_a_job_without_a_key_asks_for_nothing_and_says_what_to_write(world: World) -> None:
    world.agents.total_steps = 2000
    await world.running()
    (instance,) = world.ours()
    assert dict(instance.order.env) == {}
    assert "[ssh] key" in (await refusal(world)).hint
