"""Unused registry logins that RunPod keeps: listed beside the ledger, deleted from a host without one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from autopilot.cli.main import run
from autopilot.clock import ManualClock
from autopilot.config.settings import Settings, load_settings
from autopilot.domain.job import Job, JobStatus
from autopilot.domain.labels import label_for
from autopilot.domain.reasons import Reason
from autopilot.domain.registry import Registry, RegistryLogin, read_login_name
from autopilot.ids import UlidIds
from autopilot.ports.provider import Done
from autopilot.service.far_sweep import OVERDUE, Swept, sweep
from autopilot.service.orphans import Census, Kind, census
from autopilot.store.database import open_store
from tests.builders import START, a_spec
from tests.integration.runpod.runpod_bench import KEY, SPEED, Bench

OURS, ANOTHER = "install1", "another8"
LOGIN = RegistryLogin("ghcr.io", "me", "sentinel-password")
NOT_OURS = ["mine", f"ap1.{OURS}.short", f"ap1.{OURS}.{'G' * 32}", f"AP1.{OURS}.{'0' * 32}", f"ap1..{'0' * 32}"]


def a_name(install_id: str, digit: int = 0) -> str:
    return RegistryLogin("ghcr.io", "me", f"password {digit}").name(install_id, b"k" * 32)


async def keep(bench: Bench, *names: str) -> None:
    for name in names:
        assert isinstance(await bench.provider.kept_logins.save(name, LOGIN), Done)


async def kept(bench: Bench) -> set[str]:
    return {each.name for each in await bench.provider.kept_logins.list()}


async def rent(bench: Bench, age: timedelta, install_id: str = OURS) -> str:
    return await bench.rent(label_for(install_id, UlidIds(ManualClock(bench.clock.now() - age)).new()))


async def swept(bench: Bench, install_id: str | None = OURS, *, kill: bool = True) -> Swept:
    return await sweep([bench.provider], bench.clock, install_id, kill=kill, older_than=OVERDUE)


def test_only_names_of_our_form_are_read_as_ours() -> None:
    assert read_login_name(a_name(OURS)) == OURS
    assert [name for name in NOT_OURS if read_login_name(name) is not None] == []
    assert read_login_name(label_for(OURS, UlidIds(ManualClock(START)).new())) is None, "a machine's label"


# --- beside the ledger


@pytest.fixture
def settings(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text(KEY)
    (tmp_path / "install-id").write_text(f"{OURS}\n")
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__RUNPOD__BASE_URL", bench.sandbox.url)
    monkeypatch.setenv("AUTOPILOT_PROVIDERS__RUNPOD__API_KEY_FILE", str(key))
    monkeypatch.setenv("AUTOPILOT_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("AUTOPILOT_CLOCK__SPEED", str(SPEED))
    return load_settings(None)


async def write_ledger(settings: Settings, names: list[str], status: JobStatus) -> None:
    """That knows these logins, and a job with a private image."""
    spec = replace(a_spec(), registry=Registry("ghcr.io", "me", "ghcr"))
    store = await open_store(settings.ledger_url)
    async with store.transaction() as uow:
        await uow.notes.set("registry_logins.runpod", json.dumps(dict.fromkeys(names)))
        await uow.jobs.save(Job("job-000001", spec, status, Reason.SUBMITTED, START))
    await store.close()


def told(found: Census) -> dict[str, Kind]:
    return {each.login.name: each.kind for each in found.logins}


async def test_ours_without_a_job_are_listed_and_nothing_is_changed(bench: Bench, settings: Settings) -> None:
    noted, unknown = a_name(OURS, 1), a_name(OURS, 2)
    await keep(bench, noted, unknown, a_name(ANOTHER), *NOT_OURS)
    await write_ledger(settings, [noted], JobStatus.CANCELLED)
    found = await census(settings, bench.clock)
    assert told(found) == {noted: Kind.UNWANTED, unknown: Kind.UNKNOWN}
    assert (found.ours, found.findings, found.unreadable) == (True, [], {})
    assert len(await kept(bench)) == 3 + len(NOT_OURS)


async def test_the_login_of_a_job_that_lives_is_none_of_them(bench: Bench, settings: Settings) -> None:
    noted, unknown = a_name(OURS, 1), a_name(OURS, 2)
    await keep(bench, noted, unknown)
    await write_ledger(settings, [noted], JobStatus.PARKED)
    assert told(await census(settings, bench.clock)) == {unknown: Kind.UNKNOWN}
    await bench.fault(on="v2.registries", kind="http_403", times=None)
    unread = await census(settings, bench.clock)
    assert (unread.logins, list(unread.unreadable)) == ([], ["runpod registry logins"])


async def test_both_commands_say_what_is_there_and_what_became_of_it(
    bench: Bench, settings: Settings, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")

    async def command(*words: str) -> tuple[int, str]:
        code = await asyncio.to_thread(run, words)
        return code, " ".join(capsys.readouterr().out.split())

    await write_ledger(settings, [], JobStatus.CANCELLED)
    assert await command("orphans") == (0, "0 machines are wanted by jobs")
    await keep(bench, a_name(OURS))
    code, out = await command("orphans")
    assert code == 1
    assert f"{a_name(OURS)} the ledger does not know its name" in out
    code, out = await command("sweep", "--from-elsewhere", "--install-id", OURS, "--kill")
    assert code == 0
    assert f"{a_name(OURS)} of {OURS}, due" in out
    assert "1 registry logins of autopilot, 1 of them due 1 deleted and seen gone, 0 not gone yet" in out
    await keep(bench, a_name(ANOTHER))
    code, out = await command("sweep", "--from-elsewhere", "--json")
    (row,) = json.loads(out)["logins"]
    assert (code, row["name"], row["install_id"], row["due"]) == (0, a_name(ANOTHER), ANOTHER, True)
    assert json.loads((await command("orphans", "--json"))[1])["logins"] == []


# --- from elsewhere


async def test_from_elsewhere_all_are_listed_and_one_installation_s_are_deleted(bench: Bench) -> None:
    await keep(bench, a_name(OURS, 1), a_name(OURS, 2), a_name(ANOTHER), *NOT_OURS)
    looked = await swept(bench, None, kill=False)
    assert {(each.login.name, each.due) for each in looked.logins} == {
        (a_name(OURS, 1), True),
        (a_name(OURS, 2), True),
        (a_name(ANOTHER), True),
    }
    assert len(await kept(bench)) == 3 + len(NOT_OURS)
    done = await swept(bench)
    assert {each.name for each in done.logins_gone} == {a_name(OURS, 1), a_name(OURS, 2)}
    assert done.logins_left == []
    assert await kept(bench) == {a_name(ANOTHER), *NOT_OURS}


async def test_from_elsewhere_a_young_machine_keeps_its_installation_s_logins(bench: Bench) -> None:
    await keep(bench, a_name(OURS), a_name(ANOTHER))
    young = await rent(bench, timedelta(hours=1))
    done = await swept(bench)
    assert [each.due for each in done.logins] == [False]
    assert (done.logins_gone, await kept(bench)) == ([], {a_name(OURS), a_name(ANOTHER)})
    await bench.provider.destroy(young)
    old = await rent(bench, timedelta(hours=74))
    done = await swept(bench)
    assert ([i.instance_id for i in done.gone], [each.name for each in done.logins_gone]) == ([old], [a_name(OURS)])
    assert await kept(bench) == {a_name(ANOTHER)}


async def test_from_elsewhere_none_is_deleted_while_machines_cannot_be_read(bench: Bench) -> None:
    await keep(bench, a_name(OURS))
    await rent(bench, timedelta(hours=1))
    await bench.fault(on="myself", kind="http_500", times=None)
    done = await swept(bench)
    assert "runpod" in done.unreadable
    assert ([each.due for each in done.logins], await kept(bench)) == ([False], {a_name(OURS)})


@pytest.mark.parametrize(("ignored", "is_left"), [(2, False), (9, True)])
async def test_from_elsewhere_a_delete_that_does_nothing_is_asked_for_again(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, ignored: int, is_left: bool
) -> None:
    await keep(bench, a_name(OURS))
    registries, asked = bench.sandbox.runpod.registries, list[str]()
    delete = registries.delete

    def ignore(credential_id: str, team: str | None) -> None:
        asked.append(credential_id)
        if len(asked) > ignored:
            delete(credential_id, team)

    monkeypatch.setattr(registries, "delete", ignore)
    done = await swept(bench)
    assert (len(done.logins_left), len(done.logins_gone)) == (is_left, not is_left)
    assert len(asked) == 3
    assert await kept(bench) == ({a_name(OURS)} if is_left else set())
