"""What ``nvidia-smi`` says on the sandbox's machines, as the control API sets it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

QUERY = (
    "nvidia-smi --query-gpu=memory.used,driver_version --format=csv > said.txt; echo $? > code.tmp; mv code.tmp code"
)


@pytest.fixture
async def desk(open_desk: Any) -> Any:
    return await open_desk(real_processes=True)


async def said_on(desk: Any, **traits: Any) -> tuple[int, str]:
    await desk.emu("POST", "traits", **traits)
    instance_id = await desk.rent(0.5, onstart_cmd=QUERY + "; sleep 600")
    await desk.advance(40)
    root = Path(desk.sandbox.config.state_dir / "instances" / str(instance_id) / "root")
    await desk.eventually((root / "code").exists)
    return int((root / "code").read_text()), (root / "said.txt").read_text().strip()


async def test_traits_are_those_of_the_next_machines(desk: Any) -> None:
    assert await said_on(desk, gpus=2, used_mib=7, driver="535.1") == (0, "7, 535.1\n7, 535.1")
    assert await said_on(desk, says="GPU is lost") == (255, "GPU is lost")
