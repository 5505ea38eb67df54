"""Code over the control socket: asked for by owner, bounded, checked, taken by a job or gone after an hour."""

from __future__ import annotations

import asyncio
import hashlib
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from autopilot.agent.pack import Packed, pack
from autopilot.agent.shipped import chunks
from autopilot.api import code, requests
from autopilot.cli.main import run
from autopilot.code.select import Wanted, select
from autopilot.domain.code import CodeCopy
from autopilot.engine.code_retention import CodeRetention
from autopilot.mailbox.keys import code_prefix
from tests.acceptance.stage import job_text
from tests.integration.service.service_world import Served

JOB = job_text(300) + '[code]\npath = "."\n'
OTHER_UID = 65_432


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packed:
    """Of three parts."""
    monkeypatch.setattr(chunks, "SMALLEST_PART_BYTES", 1000)
    job = tmp_path / "job"
    job.mkdir()
    for name in ("a", "b", "c"):
        (job / name).write_bytes(os.urandom(900))
    return pack(select(job, Wanted()).files)


def claim(packed: Packed) -> dict[str, Any]:
    size, files = packed.contents.size, packed.contents.file_count
    return {"sha256": packed.sha256, "files": files, "size_bytes": size, "commit": "ab" * 20, "is_dirty": True}


async def send(served: Served, packed: Packed, parts: tuple[int, ...] = (1, 2, 3)) -> None:
    status, answer = await served.call("PUT", f"/v1/code/{packed.sha256}", raw=packed.data)
    assert status == 200, answer
    for number in parts:
        data = packed.open_part(number - 1).read()
        assert (await served.call("PUT", f"/v1/code/{packed.sha256}/parts/{number}", raw=data))[0] == 200


async def submit(served: Served, packed: Packed, **others: Any) -> tuple[int, Any]:
    return await served.call("POST", "/v1/jobs", {"toml": JOB, "code": claim(packed), "again": True, **others})


async def copies(served: Served, of: Packed | None = None) -> tuple[CodeCopy, ...]:
    """Those of code without a job. ``of``: of that code alone."""
    async with served.daemon.engine._store.snapshot() as uow:
        unused = await uow.code_copies.list_unused()
    return tuple(copy for copy in unused if of is None or copy.sha256 == of.sha256)


@pytest.mark.slow
async def test_a_copy_is_sent_once_and_taken_by_jobs(shared: Served, packed: Packed) -> None:
    place = f"/v1/code/{packed.sha256}"
    assert (await shared.call("GET", place))[1] == {"there": False, "missing": None}
    await send(shared, packed, (1, 3))
    assert (await shared.call("GET", place))[1] == {"there": False, "missing": [2]}
    status, refused = await submit(shared, packed)
    assert (status, refused["hint"]) == (409, "submit once more")
    assert "send the code again" in refused["detail"]
    await send(shared, packed, (2,))
    assert (await shared.call("GET", place))[1] == {"there": True, "missing": []}
    for _ in range(2):
        status, answer = await submit(shared, packed)
        assert status == 201, answer
        job = answer["job"]
        shown = {"sha256": packed.sha256, "files": 3, "size_bytes": 2700, "commit": "ab" * 20, "is_dirty": True}
        assert (job["owner"], job["code"]) == (os.getuid(), shown)
    assert await copies(shared, packed) == ()
    assert (await shared.call("GET", f"/v1/jobs/{job['id']}"))[1]["job"]["code"] == shown
    status, stored = await shared.call("GET", f"/v1/jobs/{job['id']}/code")
    assert (status, len(stored["urls"])) == (200, 4)
    async with shared.daemon.engine._store.snapshot() as uow:
        kept = await uow.jobs.find(job["id"])
    assert kept is not None
    index = shared.daemon.settings.mailbox_dir / "blobs" / code_prefix(kept.code.copy_id) / "part-0"
    assert hashlib.sha256(index.read_bytes()).hexdigest() == packed.sha256


@pytest.mark.slow
async def test_a_hash_alone_does_not_give_access_to_another_user_s_code(
    shared: Served, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(shared, packed)
    status, answer = await submit(shared, packed)
    assert status == 201
    monkeypatch.setattr(requests, "peer_uid", lambda request: OTHER_UID)
    assert (await shared.call("GET", f"/v1/code/{packed.sha256}"))[1] == {"there": False, "missing": None}
    assert (await submit(shared, packed))[0] == 409
    status, refused = await shared.call("GET", f"/v1/jobs/{answer['job']['id']}/code")
    assert (status, "another user's" in refused["detail"]) == (422, True)
    await send(shared, packed)  # the same bytes, and a copy of one's own
    assert [copy.owner for copy in await copies(shared, packed)] == [OTHER_UID]
    assert (await submit(shared, packed))[1]["job"]["owner"] == OTHER_UID


async def test_a_plan_needs_no_copy_and_counts_its_traffic(shared: Served, packed: Packed) -> None:
    status, answer = await submit(shared, packed, dry_run=True)
    assert (status, answer["job"]) == (200, None)
    assert await copies(shared, packed) == ()


@pytest.mark.parametrize(
    ("toml", "sent", "problem"),
    [
        (JOB, None, "no code was sent"),
        (job_text(300), True, "has no [code]"),
        (JOB + 'max = "0.001MB"\n', True, "code.max is 1,000"),
        (JOB, {"sha256": "../../etc"}, "code.sha256"),
        (JOB, {"sha256": "0" * 64, "files": "3", "size_bytes": 1}, "code.files must be a whole number"),
        (JOB, {"sha256": "0" * 64, "files": 3, "size_bytes": 1, "commit": "\x1b[31m"}, "code.commit"),
    ],
)
async def test_code_and_job_file_fit_each_other(
    shared: Served, packed: Packed, toml: str, sent: Any, problem: str
) -> None:
    await send(shared, packed)
    body = {"toml": toml, "code": claim(packed) if sent is True else sent}
    status, refused = await shared.call("POST", "/v1/jobs", body)
    assert (status, problem in refused["detail"]) == (422, True), refused


async def test_what_is_not_what_its_name_says_is_refused(shared: Served, packed: Packed) -> None:
    place = f"/v1/code/{packed.sha256}"
    for path, raw, problem in [
        (f"/v1/code/{'0' * 64}", packed.data, "does not match its SHA-256"),
        (f"/v1/code/{hashlib.sha256(b'{}').hexdigest()}", b"{}", "cannot be accepted"),
        ("/v1/code/..%2Fx", b"", "SHA-256"),
        (f"{place}/parts/1", b"x", "send the code again"),
    ]:
        status, refused = await shared.call("PUT", path, raw=raw)
        assert (status in (409, 422), problem in refused["detail"]) == (True, True), refused
    await send(shared, packed, ())
    first = packed.open_part(0).read()
    for path, raw, problem in [
        (f"{place}/parts/1", first[::-1], "a file changed while it was sent"),
        (f"{place}/parts/1", first[:-1], "part 1 of the code is not what its index says"),
        (f"{place}/parts/1", first + b"x", "more than 900 bytes came"),
        (f"{place}/parts/0", packed.data, "no part 0"),
        (f"{place}/parts/4", first, "3 parts; there is no part 4"),
    ]:
        status, refused = await shared.call("PUT", path, raw=raw)
        assert (status, problem in str(refused)) == (422, True), refused
    assert (await shared.call("GET", place))[1]["missing"] == [1, 2, 3]


@pytest.mark.slow
async def test_uploads_without_a_job_are_bounded_by_owner(
    served: Served, packed: Packed, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(code, "MOST_BYTES", 5000)
    await send(served, packed)
    (tmp_path / "job/d").write_bytes(os.urandom(900))
    more = pack(select(tmp_path / "job", Wanted()).files)
    status, refused = await served.call("PUT", f"/v1/code/{more.sha256}", raw=more.data)
    assert (status, "of code without a job" in refused["detail"]) == (422, True)
    assert (await submit(served, packed))[0] == 201
    await send(served, more, (1, 2, 3, 4))


async def test_without_a_job_it_goes_in_two_steps_a_day_apart(served: Served, packed: Packed) -> None:
    engine = served.daemon.engine
    retention = CodeRetention(engine._store, engine._blobs)
    await send(served, packed)
    (copy,) = await copies(served)
    prefix = code_prefix(copy.id)

    async def after(span: timedelta) -> list[bool]:
        """(whether a job may take it, whether its objects are there) so long after it was sent."""
        await retention.retire(await copies(served), copy.sent_at + span)
        there = await served.call("GET", f"/v1/code/{packed.sha256}")
        return [there[1]["there"], bool(await engine._blobs.sizes(prefix))]

    assert await after(timedelta(minutes=59)) == [True, True]
    assert await after(timedelta(minutes=60)) == [False, True]
    assert (await submit(served, packed))[0] == 409
    assert await after(timedelta(hours=24, minutes=59)) == [False, True]
    await send(served, packed)  # once more: a copy of its own, which the deletion of the old one does not touch
    assert (await submit(served, packed))[0] == 201
    assert await after(timedelta(hours=25)) == [True, False]
    assert await copies(served) == ()


@pytest.mark.slow
async def test_a_copy_withdrawn_between_look_and_submit_is_refused(
    served: Served, packed: Packed, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(served, packed)
    (copy,) = await copies(served)
    engine = served.daemon.engine
    offers = engine.offers

    async def meanwhile(query: Any) -> Any:
        await CodeRetention(engine._store, engine._blobs).retire([copy], copy.sent_at + timedelta(hours=1))
        return await offers(query)

    monkeypatch.setattr(engine, "offers", meanwhile)
    status, refused = await submit(served, packed)
    assert (status, "send the code again" in refused["detail"]) == (409, True)
    assert (await served.call("GET", "/v1/jobs"))[1]["jobs"] == []


async def test_parts_larger_than_any_other_body_arrive(shared: Served, tmp_path: Path) -> None:
    (tmp_path / "large").mkdir()
    (tmp_path / "large/weights").write_bytes(os.urandom(9_000_000))
    large = pack(select(tmp_path / "large", Wanted()).files)
    assert [size for size, _ in large.contents.parts] == [8 << 20, 9_000_000 - (8 << 20)]
    await send(shared, large, (1, 2))
    status, answer = await shared.call("POST", "/v1/jobs", {"toml": JOB, "code": claim(large), "again": True})
    assert (status, answer["job"]["code"]["size_bytes"]) == (201, 9_000_000)
    assert list((shared.daemon.settings.state_dir / "receiving").iterdir()) == []


@pytest.mark.slow
async def test_the_command_sends_what_lies_beside_its_job_file(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job"
    (job / "ckpt").mkdir(parents=True)
    (job / "ckpt/old").write_text("x")
    (job / "train.py").write_text("print()")
    (job / "job.toml").write_text(JOB.replace('path = "out/model.json"', 'path = "ckpt"'))
    monkeypatch.setenv("AUTOPILOT_API__SOCKET", str(served.daemon.settings.socket_path))

    async def submitting(*options: str) -> tuple[int, str, str]:
        """In a thread: the daemon that answers runs in this one."""
        capsys.readouterr()
        exit_code = await asyncio.to_thread(run, ["submit", str(job / "job.toml"), *options])
        printed = capsys.readouterr()
        return exit_code, " ".join(printed.out.split()), printed.err

    exit_code, out, err = await submitting("--dry-run")
    assert (exit_code, "code: 2 files" in out) == (0, True), out + err
    assert await copies(served) == ()
    exit_code, out, err = await submitting()
    assert exit_code == 0, err
    assert "left out because the machine writes there: ckpt" in out
    shown = (await served.call("GET", "/v1/jobs"))[1]["jobs"][0]["code"]
    assert (shown["files"], shown["commit"]) == (2, None)
    (job / ".env").write_text("KEY=1")
    exit_code, out, err = await submitting()
    assert (exit_code, ".env" in err) == (2, True)
