"""The local store and its listener: a URL allows one act on one object for a while, and nothing else."""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from autopilot.blobs import listener
from autopilot.blobs.listener import KEPT_FREE_BYTES, REQUESTS_OF_A_LEASE, blob_listener
from autopilot.blobs.local import OLD_SCRATCH_S, IncomingBlob, LocalBlobStore
from autopilot.blobs.place import MailboxPlace
from autopilot.blobs.shares import SMALL_ROOM_BYTES
from autopilot.domain.errors import UserError
from autopilot.ports.blobs import BlobStore, BlobUnavailable, check_key
from tests.patience import eventually

HOUR = timedelta(hours=1)


class UnixTime:
    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def unix_time() -> UnixTime:
    return UnixTime()


@pytest.fixture
async def store(tmp_path: Path, unix_time: UnixTime) -> AsyncIterator[LocalBlobStore]:
    store = LocalBlobStore(tmp_path / "blobs", b"k" * 32, "", unix_time=unix_time)
    runner = web.AppRunner(blob_listener(store), access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    store.base_url = "http://{}:{}".format(*runner.addresses[0][:2])
    yield store
    await runner.cleanup()


@pytest.fixture
async def http() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession() as session:
        yield session


async def status(http: aiohttp.ClientSession, method: str, url: str, data: bytes | None = None) -> int:
    async with http.request(method, URL(url, encoded=True), data=data) as response:
        return response.status


async def test_the_store_keeps_whole_objects(store: BlobStore, tmp_path: Path) -> None:
    assert await store.get("a/b") is None
    assert await store.size("a/b") is None
    assert await store.sha256("a/b") is None
    await store.put("a/b", b"one")
    await store.put("a/b", b"three")
    assert await store.get("a/b") == b"three"
    assert await store.size("a/b") == 5
    assert await store.sha256("a/b") == "8b5b9db0c13db24256c829aa364aa90c6d2eba318b9232a4ab9313b954d3555f"
    assert list((tmp_path / "blobs/.incoming").iterdir()) == []
    await store.put("a/c/d", b"")
    await store.put("ab", b"")
    await store.delete_prefix("a/")
    assert [await store.get(key) for key in ("a/b", "a/c/d", "ab")] == [None, None, b""]
    await store.delete_prefix("nothing/there")


async def test_a_store_that_cannot_write_says_so(store: BlobStore) -> None:
    await store.put("a", b"")
    with pytest.raises(BlobUnavailable):
        await store.put("a/b", b"")


@pytest.mark.parametrize(
    "key", ["", "/a", "a/", "a//b", "..", "a/../b", "a/.hidden", "a b", "a\n", "ä", "a\\b", "a?b", "x" * 513]
)
async def test_what_is_no_key_is_refused_everywhere(store: BlobStore, key: str) -> None:
    for act in (store.get(key), store.put(key, b""), store.size(key)):
        with pytest.raises(ValueError, match="not a blob key"):
            await act
    with pytest.raises(ValueError, match="not a blob key"):
        store.sign_get(key, HOUR)


@given(st.text(st.sampled_from("ab./-_~\\\0 "), max_size=12))
def test_a_key_never_leads_out_of_the_root(key: str) -> None:
    try:
        check_key(key)
    except ValueError:
        return
    assert Path(os.path.normpath(Path("/root") / key)).is_relative_to("/root")
    assert os.path.normpath(key) == key


async def test_put_then_get_through_signed_urls(store: LocalBlobStore, http: aiohttp.ClientSession) -> None:
    data = os.urandom(3_000_000)
    assert await status(http, "PUT", store.sign_put("a/b", HOUR, len(data)), data) == 201
    async with http.get(URL(store.sign_get("a/b", HOUR), encoded=True)) as response:
        assert await response.read() == data
        assert response.headers["Content-Type"] == "application/octet-stream"
    headers = {"Range": "bytes=1000000-1000009"}
    async with http.get(URL(store.sign_get("a/b", HOUR), encoded=True), headers=headers) as response:
        assert (response.status, await response.read()) == (206, data[1_000_000:1_000_010])
    assert await status(http, "GET", store.sign_get("a/none", HOUR)) == 404


async def test_a_url_is_bound_to_its_method_key_size_and_time(
    store: LocalBlobStore, http: aiohttp.ClientSession, unix_time: UnixTime
) -> None:
    await store.put("a", b"secret")
    await store.put("b", b"secret")
    get, put = store.sign_get("a", HOUR), store.sign_put("a", HOUR, 10)
    assert await status(http, "GET", get) == 200
    tampered = [
        get.replace("/blobs/a", "/blobs/b"),
        get.replace("expires=1", "expires=2"),
        get.replace("signature=", "signature=0"),
        get[:-1] + ("0" if get[-1] != "0" else "1"),
        get.split("?")[0],
        get.split("&signature")[0],
        get.replace("signature=", "signature=%ff"),
        get.replace("expires=", "expires=x"),
        put,
    ]
    assert {await status(http, "GET", url) for url in tampered} == {403}
    puts = [get, put.replace("max_bytes=10", "max_bytes=99"), put.replace("/blobs/a", "/blobs/b")]
    assert {await status(http, "PUT", url, b"evil") for url in puts} == {403}
    assert await store.get("a") == b"secret"
    for method in ("HEAD", "DELETE", "POST", "PATCH"):
        assert await status(http, method, get) == 405
    for path in ("/", "/blobs/", "/blobs", "/blobs/a/"):
        assert await status(http, "GET", store.base_url + path) in (403, 404)
    unix_time.now += 3599
    assert await status(http, "GET", get) == 200
    unix_time.now += 1
    assert await status(http, "GET", get) == 403
    assert await status(http, "PUT", put, b"late") == 403


async def test_another_signing_key_does_not_open_it(store: LocalBlobStore, http: aiohttp.ClientSession) -> None:
    await store.put("a", b"secret")
    other = LocalBlobStore(store.root, b"x" * 32, store.base_url)
    assert await status(http, "GET", other.sign_get("a", HOUR * 100_000)) == 403


async def test_nothing_larger_than_signed_for_is_taken(store: LocalBlobStore, http: aiohttp.ClientSession) -> None:
    await store.put("a", b"old")
    url = URL(store.sign_put("a", HOUR, 10), encoded=True)
    async with http.put(url, data=b"x" * 11) as response:
        assert response.status == 413

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(4):
            yield b"xxx"

    async with http.put(url, data=unannounced()) as response:
        assert response.status == 413
    assert await store.get("a") == b"old"
    assert list((store.root / ".incoming").iterdir()) == []
    async with http.put(url, data=b"x" * 10) as response:
        assert response.status == 201


class FullStore(LocalBlobStore):
    """A store whose disk has no room."""

    def incoming(self, key: str) -> IncomingBlob:
        raise OSError(errno.ENOSPC, "No space left on device")


async def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    store = FullStore(tmp_path, b"k" * 32, "http://store")
    async with TestClient(TestServer(blob_listener(store))) as client:
        path = store.sign_put("a", HOUR, 10).removeprefix("http://store")
        assert (await client.put(URL(path, encoded=True), data=b"x")).status == 507


async def test_room_for_the_ledger_is_kept_from_uploads_that_do_not_say_how_large_they_are(
    store: LocalBlobStore, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [KEPT_FREE_BYTES + (1 << 20)] * 2 + [KEPT_FREE_BYTES - 1] * 9
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free.pop(0)))
    url = URL(store.sign_put("a", HOUR, 1 << 30), encoded=True)

    async def unannounced() -> AsyncIterator[bytes]:
        for _ in range(100):
            yield b"x" * (1 << 16)

    async with http.put(url, data=unannounced()) as response:
        assert response.status == 507
    assert await store.get("a") is None
    assert list((store.root / ".incoming").iterdir()) == []


async def test_a_cut_upload_leaves_nothing(store: LocalBlobStore) -> None:
    await store.put("a", b"old")
    url = URL(store.sign_put("a", HOUR, 1000), encoded=True)
    _, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(f"PUT {url.raw_path_qs} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nhalf".encode())
    await writer.drain()
    incoming = store.root / ".incoming"
    await eventually(lambda: list(incoming.iterdir()), "an upload under way")
    writer.close()
    await eventually(lambda: not list(incoming.iterdir()), "the end of it")
    assert await store.get("a") == b"old"


async def test_a_lease_that_is_over_writes_no_more_however_long_its_urls_live(
    store: LocalBlobStore, http: aiohttp.ClientSession
) -> None:
    url, other = (store.sign_put(f"jobs/j/{lease}/heartbeat.json", HOUR, 100) for lease in ("one", "two"))
    assert await status(http, "PUT", url, b"{}") == 201
    await store.admit(dict.fromkeys(("jobs/j/one", "jobs/j/two"), 10**9))
    assert [await status(http, "PUT", each, b"{}") for each in (url, other)] == [201, 201]
    await store.admit({"jobs/j/two": 10**9})
    assert [await status(http, "PUT", each, b"{}") for each in (url, other)] == [403, 201]
    assert await status(http, "PUT", store.sign_put("jobs/j/twofold/x", HOUR, 100), b"{}") == 403
    assert await status(http, "PUT", store.sign_put("probe/x", HOUR, 100), b"{}") == 201
    await store.admit({})
    assert await status(http, "PUT", other, b"{}") == 403
    for junk in ("", "[]", '{"leases": "jobs/j/two"}'):
        (store.root.parent / "mailbox-leases.json").write_text(junk)
        assert await status(http, "PUT", other, b"{}") == 403


async def incoming(store: LocalBlobStore, count: int) -> None:
    """Until so many uploads are under way."""
    await eventually(lambda: len(list((store.root / ".incoming").glob("*"))) == count, f"{count} uploads under way")


async def test_what_is_on_its_way_when_its_lease_ends_is_not_kept(
    store: LocalBlobStore, http: aiohttp.ClientSession
) -> None:
    await store.admit({"jobs/j/one": 10**9})
    is_over = asyncio.Event()

    async def slow() -> AsyncIterator[bytes]:
        yield b"begin"
        await is_over.wait()
        yield b"end"

    answer = asyncio.create_task(http.put(URL(store.sign_put("jobs/j/one/x", HOUR, 100), encoded=True), data=slow()))
    await incoming(store, 1)
    await store.admit({})
    is_over.set()
    assert (await answer).status == 403
    assert await store.get("jobs/j/one/x") is None
    assert list((store.root / ".incoming").iterdir()) == []


async def test_one_lease_s_slow_requests_leave_room_for_others(
    store: LocalBlobStore, http: aiohttp.ClientSession
) -> None:
    writers = []
    for number in range(REQUESTS_OF_A_LEASE):
        url = URL(store.sign_put(f"jobs/j/slow/log/0-{number}", HOUR, 100), encoded=True)
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(f"PUT {url.raw_path_qs} HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx".encode())
        writers.append(writer)
    await incoming(store, REQUESTS_OF_A_LEASE)
    assert await status(http, "PUT", store.sign_put("jobs/j/slow/x", HOUR, 100), b"x") == 429
    assert await status(http, "PUT", store.sign_put("jobs/j/other/x", HOUR, 100), b"x") == 201
    for writer in writers:
        writer.close()
    await incoming(store, 0)
    assert await status(http, "PUT", store.sign_put("jobs/j/slow/x", HOUR, 100), b"x") == 201


async def test_a_gzip_body_that_is_none_is_the_client_s_mistake(
    store: LocalBlobStore, http: aiohttp.ClientSession
) -> None:
    url = URL(store.sign_put("a", HOUR, 1000), encoded=True)
    for coding in ("gzip", "deflate"):
        async with http.put(url, data=b"not packed at all", headers={"Content-Encoding": coding}) as response:
            assert response.status == 400
    assert await store.get("a") is None
    assert list((store.root / ".incoming").iterdir()) == []


@pytest.mark.parametrize(
    ("wanted", "status", "answer"),
    [
        ("bytes=2-4", 206, b"cde"),
        ("bytes=8-", 206, b"ij"),
        ("bytes=-3", 206, b"hij"),
        ("bytes=0-99", 206, b"abcdefghij"),
        ("bytes=10-", 416, None),
        ("bytes=a-b", 416, None),
    ],
)
async def test_ranges(
    store: LocalBlobStore, http: aiohttp.ClientSession, wanted: str, status: int, answer: bytes | None
) -> None:
    await store.put("a", b"abcdefghij")
    url = URL(store.sign_get("a", HOUR), encoded=True)
    async with http.get(url, headers={"Range": wanted}) as response:
        assert response.status == status
        if answer is not None:
            assert await response.read() == answer


async def test_an_empty_object_is_sent(store: LocalBlobStore, http: aiohttp.ClientSession) -> None:
    await store.put("a", b"")
    async with http.get(URL(store.sign_get("a", HOUR), encoded=True)) as response:
        assert (response.status, await response.read()) == (200, b"")


async def test_scratch_of_uploads_under_way_stays(store: LocalBlobStore, unix_time: UnixTime) -> None:
    await store.put("a", b"")
    old, new = store.incoming("old"), store.incoming("new")
    (left, kept) = sorted((store.root / ".incoming").iterdir(), key=lambda path: path.stat().st_mtime_ns)
    os.utime(left, (unix_time.now - OLD_SCRATCH_S - 1,) * 2)
    os.utime(kept, (unix_time.now - 60,) * 2)
    store.remove_old_scratch()
    assert list((store.root / ".incoming").iterdir()) == [kept]
    old.discard()
    new.discard()


def test_the_signing_key_is_made_once_and_private(tmp_path: Path) -> None:
    place = MailboxPlace(tmp_path)
    key = place.read_or_make_key()
    assert len(key) == 32
    assert place.read_or_make_key() == key
    assert place.key_path.stat().st_mode & 0o777 == 0o600
    place.key_path.chmod(0o644)
    with pytest.raises(UserError, match="other users"):
        place.read_or_make_key()
    place.key_path.chmod(0o600)
    place.key_path.write_bytes(b"short")
    with pytest.raises(UserError, match="not a signing key"):
        place.read_or_make_key()
    assert [path.name for path in tmp_path.iterdir()] == ["mailbox.key"]


async def put_of(store: LocalBlobStore, http: aiohttp.ClientSession, key: str, data: bytes) -> int:
    async with http.put(store.sign_put(key, HOUR, 10**9), data=data) as response:
        return response.status


async def test_one_host_does_not_fill_the_store_for_all(
    store: LocalBlobStore, http: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gets half of the room that there would be without it, its job three quarters; heartbeats have their own."""
    disk = 1_000_000 + SMALL_ROOM_BYTES
    root = store.root

    def free(_: Path) -> int:
        return disk - sum(path.stat().st_size for path in root.rglob("*") if path.is_file())

    monkeypatch.setattr(listener, "free_bytes", free)
    await store.admit(dict.fromkeys(("jobs/j/a", "jobs/j/b", "jobs/k/c"), 10**9))

    async def fill(job: str, lease: str) -> int:
        """Parts of 10 kB that are taken."""
        for number in range(200):
            if await put_of(store, http, f"jobs/{job}/{lease}/ckpt/0/part-{number}", b"x" * 10_000) != 201:
                return number
        return 200

    assert await fill("j", "a") == 50
    assert await fill("j", "b") == 25
    assert await fill("k", "c") == 12
    for lease in ("a", "b"):
        assert await put_of(store, http, f"jobs/j/{lease}/heartbeat.json", b"x" * 10_000) == 201
        assert await put_of(store, http, f"jobs/j/{lease}/log/1-0", b"x" * 300_000) == 507


async def test_a_lease_takes_no_more_than_its_disk_could_hold(
    store: LocalBlobStore, http: aiohttp.ClientSession
) -> None:
    await store.admit({"jobs/j/a": 1_000})
    assert await put_of(store, http, "jobs/j/a/ckpt/0/part-0", b"x" * 900) == 201
    assert await put_of(store, http, "jobs/j/a/ckpt/0/part-1", b"x" * 200) == 507
    assert await put_of(store, http, "jobs/j/a/ckpt/0/manifest.json", b"x" * 200) == 201


async def test_many_uploads_at_once_have_one_share_together(store: LocalBlobStore, http: aiohttp.ClientSession) -> None:
    await store.admit({"jobs/j/a": 50_000})
    go_on = asyncio.Event()

    async def send(number: int) -> int:
        async def body() -> AsyncIterator[bytes]:
            yield b"x" * 5_000
            await go_on.wait()
            yield b"x" * 5_000

        url = store.sign_put(f"jobs/j/a/ckpt/0/part-{number}", HOUR, 10**9)
        async with http.put(url, data=body()) as response:
            return response.status

    sending = [asyncio.create_task(send(number)) for number in range(8)]
    await asyncio.sleep(0)
    go_on.set()
    statuses = await asyncio.gather(*sending)
    assert 201 in statuses
    assert 10_000 * statuses.count(201) == sum([await store.size(key) or 0 for key in await store.sizes("jobs/j")])
    assert 10_000 * statuses.count(201) <= 50_000
