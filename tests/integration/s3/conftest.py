from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.s3_server import S3Server, running_s3


@pytest.fixture
async def s3(tmp_path: Path) -> AsyncIterator[S3Server]:
    async with running_s3(tmp_path / "s3") as server:
        yield server
