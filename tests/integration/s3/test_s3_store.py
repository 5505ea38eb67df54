"""The bucket store against a real S3 server: what it stores, what its URLs allow, and what trouble looks like."""

from __future__ import annotations

import asyncio
import hashlib
import os
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from autopilot.blobs import bucket
from autopilot.blobs import probe as probing
from autopilot.blobs.bucket import Bucket, BucketBlobStore
from autopilot.blobs.probe import ProbeFailed, probe
from autopilot.config.keys import store_private
from autopilot.config.settings import BlobsSettings, Settings
from autopilot.domain.errors import UserError
from autopilot.ports.blobs import BlobUnavailable
from autopilot.service import doctor
from tests.s3_server import ACCESS_KEY_ID, BUCKET, SECRET_ACCESS_KEY, S3Server

HOUR = timedelta(hours=1)


async def put(url: str, data: bytes) -> int:
    async with aiohttp.ClientSession() as http, http.put(url, data=data) as answer:
        return answer.status


async def get(url: str) -> tuple[int, bytes]:
    async with aiohttp.ClientSession() as http, http.get(url) as answer:
        return answer.status, await answer.read()


async def test_objects_come_back_and_go(s3: S3Server) -> None:
    store = s3.store("deep/prefix")
    data = os.urandom(7_000_000)
    await store.put("jobs/a/one", b"1")
    await store.put("jobs/a/two", data)
    await store.put("jobs/ab", b"a neighbour")
    assert s3.objects() == ["deep/prefix/jobs/a/one", "deep/prefix/jobs/a/two", "deep/prefix/jobs/ab"]
    assert await store.get("jobs/a/one") == b"1"
    assert await store.size("jobs/a/two") == len(data)
    assert await store.sha256("jobs/a/two") == hashlib.sha256(data).hexdigest()
    assert sorted(await store.sizes("jobs/a")) == ["jobs/a/one", "jobs/a/two"]
    assert [await store.get("none"), await store.size("none"), await store.sha256("none")] == [None, None, None]
    assert await store.sizes("none") == {}
    await store.delete(["jobs/a/one", "none"])
    await store.delete_prefix("jobs/a")
    await store.delete_prefix("none")
    assert s3.objects() == ["deep/prefix/jobs/ab"]


async def test_a_url_allows_one_act_on_one_object_for_a_time(s3: S3Server) -> None:
    store = s3.store()
    url = store.sign_put("mine", HOUR, 100)
    assert SECRET_ACCESS_KEY not in url
    assert await put(url, b"written") == 200
    assert await store.get("mine") == b"written"
    assert await put(url.replace("/mine?", "/other?"), b"x") == 403
    assert (await get(url))[0] == 403
    read = store.sign_get("mine", HOUR)
    assert await get(read) == (200, b"written")
    async with aiohttp.ClientSession() as http, http.get(read, headers={"Range": "bytes=2-4"}) as answer:
        assert await answer.read() == b"itt"
        assert answer.headers["Content-Range"] == "bytes 2-4/7"
    assert await put(read, b"x") == 403
    assert (await get(read.partition("?")[0]))[0] in (400, 403)
    expired = store.sign_get("mine", timedelta(seconds=1))
    await asyncio.sleep(2.1)  # the server counts whole seconds
    assert (await get(expired))[0] in (400, 403)
    assert await store.get("mine") == b"written"


async def test_what_is_no_key_is_refused(s3: S3Server) -> None:
    store = s3.store()
    for key in ("../out", "/abs", "a//b", ".hidden"):
        with pytest.raises(ValueError, match="not a blob key"):
            await store.put(key, b"")
        with pytest.raises(ValueError, match="not a blob key"):
            store.sign_put(key, HOUR, 1)


async def test_trouble_is_unavailable_and_never_absent(s3: S3Server) -> None:
    store = s3.store()
    await store.put("mine", b"x")
    for status in (500, 503, 403):
        s3.trouble.refuse = {status: 50}
        for ask in (
            store.get("mine"),
            store.size("mine"),
            store.sha256("mine"),
            store.sizes("mine"),
            store.put("a", b""),
        ):
            with pytest.raises(BlobUnavailable):
                await ask
    s3.trouble.refuse = {}
    wrong = BucketBlobStore(replace(s3.bucket(), secret="wrong"))
    with pytest.raises(BlobUnavailable):
        await wrong.get("mine")
    nowhere = BucketBlobStore(replace(s3.bucket(), url="s3://no-such-bucket"))
    with pytest.raises(BlobUnavailable, match="does not exist"):
        await nowhere.put("a", b"")
    unreachable = BucketBlobStore(replace(s3.bucket(), endpoint="http://127.0.0.1:9"))
    with pytest.raises(BlobUnavailable):
        await unreachable.get("mine")


async def test_a_passing_trouble_is_not_even_seen(s3: S3Server) -> None:
    s3.trouble.refuse = {503: 1}
    await s3.store().put("mine", b"x")
    assert await s3.store().get("mine") == b"x"


@pytest.mark.parametrize("url", ["http://bucket", "s3:bucket", "s3:///prefix", "bucket"])
def test_what_names_no_bucket_is_refused(url: str) -> None:
    with pytest.raises(UserError, match="not the address of a bucket"):
        BucketBlobStore(Bucket(url, "a", "b"))


async def test_a_probe_tries_everything_and_leaves_nothing(s3: S3Server) -> None:
    said = await probe(s3.store("prefix"))
    assert "work" in said
    assert s3.objects() == []
    methods = {method for method, _, _ in s3.trouble.seen}
    assert {"PUT", "GET", "HEAD", "POST"} <= methods


async def test_a_probe_says_what_cannot_be_done(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = BucketBlobStore(replace(s3.bucket(), secret="wrong"))
    with pytest.raises(ProbeFailed, match=r"cannot write: .*403"):
        await probe(wrong)
    s3.trouble.refuse, s3.trouble.only = {507: 50}, "large"
    with pytest.raises(ProbeFailed, match="cannot write in several parts"):
        await probe(s3.store())
    s3.trouble.refuse = {}
    assert s3.objects() == []
    monkeypatch.setattr(probing, "_skew_s", lambda _: 400.0)
    with pytest.raises(ProbeFailed, match="400 s apart"):
        await probe(s3.store())


async def test_doctor_tries_the_bucket_that_is_configured(s3: S3Server, tmp_path: Path) -> None:
    key = store_private(tmp_path, "bucket_key", f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}")
    blobs = BlobsSettings(url=f"s3://{BUCKET}/autopilot", endpoint=s3.url, key_file=key)
    check = await doctor.check_mailbox(Settings(blobs=blobs))
    assert (check.name, check.ok) == ("mailbox", True)
    store_private(tmp_path, "bucket_key", f"{ACCESS_KEY_ID}:wrong")
    check = await doctor.check_mailbox(Settings(blobs=blobs))
    assert (check.ok, "cannot write" in check.detail) == (False, True)
    key.unlink()
    assert (await doctor.check_mailbox(Settings(blobs=blobs))).ok is False


async def test_a_part_is_read_however_slow_the_line_is(s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "REQUEST_TIMEOUT_S", 1.0)
    data = os.urandom(3_000_000)
    await s3.store().put("part", data)
    s3.trouble.bytes_per_s = 1_500_000
    assert await s3.store().sha256("part") == hashlib.sha256(data).hexdigest()
    s3.trouble.bytes_per_s = 1_000
    with pytest.raises(BlobUnavailable):
        await s3.store().sha256("part")
