"""The host program piece by piece: its unit, settings, notices, what registries say, what it goes by."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from autopilot.host.shipped import install as installing
from autopilot.host.shipped.docker import pull_fault, split_image
from autopilot.host.shipped.fault import Fault, Retries
from autopilot.host.shipped.notices import Signal
from autopilot.host.shipped.orders import parse_login, parse_orders
from autopilot.host.shipped.places import Places
from autopilot.host.shipped.runtime import merge_settings
from autopilot.mailbox.report_shapes import HOST_FAULTS

HOST = {
    **{"container": "ap-1", "image": "x:1", "start": "true", "num_gpus": 1, "report_url": "http://r"},
    **{"needs_login": False, "login_url": "", "env": {}, "boot_s": 60},
}
ORDERS: dict[str, Any] = {
    **{"v": 1, "seq": 3, "permit_ttl_s": 900, "next_orders_url": "http://o", "put_urls": {"headers": {}}, "host": HOST}
}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")
def test_systemd_has_nothing_to_say_about_the_unit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown key is a warning to it, and no failure: the whole of what it says must be empty."""
    calls: list[list[str]] = []

    def call(command: list[str]) -> int:
        calls.append(command)
        return 0

    monkeypatch.setattr(subprocess, "call", call)
    places = Places({"AUTOPILOT_ROOT": str(tmp_path)})
    places.make()
    assert installing.install(places, "http://orders", "1", stays=False) == 0
    assert calls == [
        ["systemctl", "daemon-reload"],
        ["systemctl", "enable", "--now", "--no-block", "autopilot-host.service"],
    ]
    answer = subprocess.run(["systemd-analyze", "verify", places.unit], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stderr) == (0, "")
    assert json.loads(Path(places.notes).read_text()) == {"orders_url": "http://orders", "stays": False}
    broken = Path(places.unit).read_text().replace("KillMode", "KillMood")
    Path(places.unit).write_text(broken)
    answer = subprocess.run(["systemd-analyze", "verify", places.unit], capture_output=True, text=True, check=False)
    assert "KillMood" in answer.stderr


def test_docker_s_settings_are_kept_beside_ours(tmp_path: Path) -> None:
    path = tmp_path / "etc/daemon.json"
    assert merge_settings(str(path))
    assert not merge_settings(str(path)), "docker is not restarted for what is there"
    settings = json.loads(path.read_text())
    mixed = settings | {
        "data-root": "/big",
        "exec-opts": ["x=y", "native.cgroupdriver=systemd"],
        "runtimes": {"own": {}},
    }
    path.write_text(json.dumps(mixed))
    assert merge_settings(str(path))
    merged = json.loads(path.read_text())
    assert merged["data-root"] == "/big"
    assert merged["exec-opts"] == ["x=y", "native.cgroupdriver=cgroupfs"]
    assert set(merged["runtimes"]) == {"own", "nvidia"}
    path.write_text("{")
    with pytest.raises(Fault, match="not JSON"):
        merge_settings(str(path))


def test_a_notice_is_told_once_and_taken_back_once() -> None:
    signal = Signal(1)
    assert not signal.read(None, 0)
    text = "instance_status: STATUS_PREEMPTING\nbid_status: Preempting\nend_time: 1970-01-01T00:05:00Z\n"
    assert signal.read(text, 0)
    assert signal.notice == {"kind": "preempt", "ends_at": "1970-01-01T00:05:00Z", "soft": True, "grace_s": 0}
    assert not signal.read(text, 1)
    assert not signal.read(text + "\n# touched\n", 2)
    assert [signal.is_due(now) for now in (0, 274, 275, 299)] == [False, False, True, True]
    assert signal.read(None, 3)
    assert signal.notice is None
    assert not signal.is_due(299)
    assert not signal.read(None, 4)
    assert signal.read(text, 5)


@pytest.mark.parametrize(
    ("end_time", "told"),
    [
        ("1970-01-01T00:20:00Z", 1200),
        ("1970-01-01 00:20:00", 1200),
        ("'1970-01-01T01:20:00+01:00'", 1200),
        ("1970-01-01T00:20:00.250Z", 1200.25),
        ("soon", 1300),
        ("", 1300),
        ("1970-01-01T00:00:00Z", 1300),
        ("2070-01-01T00:00:00Z", 1300),
    ],
)
def test_when_a_notice_ends(end_time: str, told: float) -> None:
    signal = Signal(1)
    assert signal.read(f"instance_status: STATUS_RELOCATING\nend_time: {end_time}", 1000)
    assert signal.ends_at == told
    assert signal.notice is not None
    assert signal.notice["kind"] == "relocate"
    assert not signal.read("what: else\nend_time: unreadable\x00: :", 1100) or signal.ends_at == told


def test_a_notice_in_no_words_that_are_known_is_one_to_be_taken_away() -> None:
    signal = Signal(1)
    assert signal.read("", 1000)
    assert signal.notice is not None
    assert (signal.notice["kind"], signal.ends_at) == ("preempt", 1300)


@pytest.mark.parametrize(
    ("image", "parts"),
    [
        ("ubuntu", ("ubuntu", "latest")),
        ("ghcr.io/me/train:v2", ("ghcr.io/me/train", "v2")),
        ("localhost:5000/train", ("localhost:5000/train", "latest")),
        ("localhost:5000/train:v2", ("localhost:5000/train", "v2")),
        ("ghcr.io/me/train@sha256:ab", ("ghcr.io/me/train", "sha256:ab")),
        ("ghcr.io/me/train:v2@sha256:ab", ("ghcr.io/me/train", "sha256:ab")),
    ],
)
def test_the_parts_of_an_image_s_name(image: str, parts: tuple[str, str]) -> None:
    assert split_image(image) == parts


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("pull access denied for me/x, repository does not exist or may require 'docker login'", "registry_denied"),
        ('Head "https://ghcr.io/v2/x/manifests/1": unauthorized', "registry_denied"),
        ("error parsing HTTP 403 response body", "registry_denied"),
        ("manifest for x:1 not found: manifest unknown: manifest unknown", "image_missing"),
        ("write /var/lib/docker/tmp/x: no space left on device", "disk_full"),
        ("received unexpected HTTP status: 503 Service Unavailable", "pull_failed"),
    ],
)
def test_what_a_registry_says_has_a_name(said: str, fault: str) -> None:
    found = pull_fault(said, "x:1")
    assert found.name == fault
    assert found.name in HOST_FAULTS
    assert found.is_final is (fault != "pull_failed")


@pytest.mark.parametrize(
    "said",
    [
        "toomanyrequests: You have reached your unauthenticated pull rate limit.",
        "no matching manifest for linux/amd64 in the manifest list entries",
    ],
)
def test_what_another_try_does_not_mend_is_said_at_once(said: str) -> None:
    found = pull_fault(said, "x:1")
    assert (found.name, found.detail, found.is_final) == ("pull_failed", said, True)


def refused(words: str) -> Fault:
    return Fault("container_refused", words, is_final=False)


def test_a_container_that_is_refused_in_the_same_words_is_tried_three_times() -> None:
    said = "failed to create shim task: OCI runtime create failed: process_linux.go:{} container 4f1c{}"
    retries = Retries(ends_at=1200.0)
    assert [retries.wait_s(refused(said.format(*each)), 0.0) for each in ((545, "aa"), (9, "b0"))] == [10.0, 20.0]
    with pytest.raises(Fault, match="545 container 4f1ccc"):
        retries.wait_s(refused(said.format(545, "cc")), 30.0)


def test_another_refusal_and_a_network_that_fails_are_waited_for_until_the_time_is_over() -> None:
    retries = Retries(ends_at=1200.0)
    other = Fault("pull_failed", "received unexpected HTTP status: 503", is_final=False)
    faults = [refused("no such device"), refused("no such device"), other, refused("no such device"), other, other]
    assert [retries.wait_s(fault, 0.0) for fault in faults] == [10.0, 20.0, 40.0, 80.0, 160.0, 300.0]
    assert retries.wait_s(other, 899.0) == 300.0, "and no more slowly"
    with pytest.raises(Fault, match="503"):
        retries.wait_s(other, 900.0)
    with pytest.raises(Fault, match="no such image"):
        retries.wait_s(Fault("image_missing", "no such image"), 0.0)


def test_orders_are_whole_or_none() -> None:
    found = parse_orders(json.dumps(ORDERS | {"work": {"env": {"SECRET": "x"}}}).encode())
    assert found == {"seq": 3, "permit_ttl_s": 900, "next_orders_url": "http://o", "headers": {}, "host": HOST}
    wrong: list[dict[str, Any]] = [{"v": 2}, {"host": None}, {"seq": -1}, {"seq": True}, {"put_urls": {}}]
    wrong += [{"host": HOST | change} for change in ({"container": "a/b"}, {"env": {"a": 1}}, {"image": 1})]
    wrong += [{"host": HOST | change} for change in ({"boot_s": 1.5}, {"needs_login": "no"}, {"num_gpus": None})]
    for change in wrong:
        assert parse_orders(json.dumps(ORDERS | change).encode()) is None
    for data in (b"", b"[]", b"null", b"[" * 100_000):
        assert parse_orders(data) is None
        assert parse_login(data) is None


def test_docker_is_where_its_variable_says() -> None:
    assert Places({"DOCKER_HOST": "unix:///short/docker.sock"}).docker_socket == "/short/docker.sock"
    assert Places({"DOCKER_HOST": "tcp://127.0.0.1:2375"}).docker_socket == "/run/docker.sock"
    assert Places({"AUTOPILOT_ROOT": "/box/"}).docker_socket == "/box/run/docker.sock"


def test_every_fault_is_explained() -> None:
    guide = (Path(__file__).parents[3] / "docs/explanation/virtual-machines.md").read_text()
    section = guide.partition("## Faults")[2].partition("## When")[0]
    assert tuple(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) == HOST_FAULTS
