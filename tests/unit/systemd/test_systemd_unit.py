"""The unit fits the code: directories, credentials, socket, timeouts; and it is as locked up as it can be."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from autopilot.blobs.place import MailboxPlace
from autopilot.config import paths
from autopilot.config.keys import KEY_SUFFIX
from autopilot.config.settings import Settings
from autopilot.listener.door import ConnectionLimits
from autopilot.listener.process import API_CONNECTIONS, DESCRIPTORS, SPARE_DESCRIPTORS
from autopilot.markets.installed import every_market
from autopilot.openssh.run import DESCRIPTORS as DESCRIPTORS_OF_ONE
from autopilot.openssh.run import MOST_MACHINES, PROCESSES_A_MACHINE
from autopilot.service.main import CREATE_GRACE_REAL_S
from autopilot.service.sockets import SOCKET_GROUP

SYSTEMD = Path(__file__).parents[3] / "systemd"
UNIT = SYSTEMD / "autopilot.service"
LISTENER = SYSTEMD / "autopilot-listener.service"
TUNNELS = SYSTEMD / "autopilot-tunnels.service"
MAILBOX = "/var/lib/autopilot-mailbox"
MOST_EXPOSURE = 1.5

Section = Mapping[str, list[str]]

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed")


@pytest.fixture(scope="module")
def service() -> Section:
    return read_unit(UNIT)


@pytest.fixture(scope="module")
def listener() -> Section:
    return read_unit(LISTENER)


def read_unit(path: Path) -> Section:
    values: dict[str, list[str]] = {}
    section = ""
    for line in path.read_text().splitlines():
        if head := re.fullmatch(r"\[(\w+)\]", line):
            section = head[1]
        elif line and not line.startswith("#") and section == "Service":
            key, _, value = line.partition("=")
            values.setdefault(key, []).append(value)
    return values


def seconds(value: str) -> float:
    return float(value.removesuffix("s"))


def test_it_runs_the_daemon(service: Section) -> None:
    assert service["ExecStart"] == ["/opt/autopilot/bin/autopilot serve"]
    assert (service["Type"], service["NotifyAccess"]) == (["notify"], ["main"])
    assert (service["Restart"], service["KillMode"]) == (["always"], ["mixed"])


def test_its_directories_are_where_the_program_looks(service: Section) -> None:
    name = service["StateDirectory"][0]
    environ = {
        "CONFIGURATION_DIRECTORY": f"/etc/{service['ConfigurationDirectory'][0]}",
        "STATE_DIRECTORY": f"/var/lib/{name}",
        "RUNTIME_DIRECTORY": f"/run/{service['RuntimeDirectory'][0]}",
    }
    assert paths.system_config_dir(environ) == paths.system_config_dir({})
    assert paths.default_state_dir(environ) == paths.SYSTEM_STATE_DIR
    assert paths.default_socket(paths.default_state_dir(environ), environ) == paths.SYSTEM_SOCKET
    assert service["StateDirectoryMode"] == ["0700"]
    assert service["RuntimeDirectoryMode"] == ["0750"]


def test_the_group_of_the_socket_is_made_and_is_not_the_dynamic_user(service: Section) -> None:
    """systemd refuses a dynamic user whose name is that of a static group."""
    groups = re.findall(r"^g (\S+) ", (SYSTEMD / "autopilot.sysusers.conf").read_text(), re.MULTILINE)
    assert groups[:1] == [SOCKET_GROUP] == service["Group"]
    assert service["DynamicUser"] == ["yes"]
    assert service["User"] != service["Group"]


@pytest.mark.parametrize("market", sorted(name for name, facts in every_market().items() if facts.key_option))
def test_each_market_s_key_is_handed_over_and_may_be_missing(service: Section, market: str) -> None:
    name = f"{market}{KEY_SUFFIX}"
    stored = paths.credential_dirs({"HOME": "/nonexistent"})[0] / name
    assert f"{name}:{stored}" in service["LoadCredential"]
    assert f"{name}:\\n" in service["SetCredential"]


def test_timeouts_fit_the_program_s(service: Section) -> None:
    assert seconds(service["TimeoutStopSec"][0]) > CREATE_GRACE_REAL_S
    watchdog_s = seconds(service["WatchdogSec"][0])
    assert watchdog_s > 10 * Settings().engine.tick_s
    assert watchdog_s < Settings().permit.ttl.total_seconds() / 2


def test_daemon_and_listener_share_the_mailbox_and_nothing_else(service: Section, listener: Section) -> None:
    users = (SYSTEMD / "autopilot.sysusers.conf").read_text()
    (group,) = listener["Group"]
    (user,) = listener["User"]
    assert f"g {group} " in users
    assert f"u {user} -:{group} " in users
    assert f"d {MAILBOX} 0770 root {group} " in (SYSTEMD / "autopilot.tmpfiles.conf").read_text()
    assert service["SupplementaryGroups"] == [group]
    assert service["ReadWritePaths"] == listener["ReadWritePaths"] == [MAILBOX]
    for unit in (service, listener):
        assert f"AUTOPILOT_BLOBS__DIR={MAILBOX}" in " ".join(unit["Environment"])
    assert not listener.keys() & {"LoadCredential", "SetCredential", "StateDirectory", "RuntimeDirectory"}
    hidden = {path.removeprefix("-") for path in listener["InaccessiblePaths"][0].split()}
    assert {"/var/lib/private", str(paths.SYSTEM_SOCKET.parent), "/etc/autopilot/credentials"} == hidden


def test_only_the_listener_may_open_a_port_and_its_descriptors_are_enough(service: Section, listener: Section) -> None:
    assert "AUTOPILOT_BLOBS__OWN_LISTENER=false" in " ".join(service["Environment"])
    assert service["SocketBindDeny"] == ["any"]
    assert listener["ExecStart"] == ["/opt/autopilot/bin/autopilot listen"]
    assert listener["Restart"] == ["on-failure"]
    assert int(listener["LimitNOFILE"][0]) == DESCRIPTORS
    assert 2 * (ConnectionLimits().connections + API_CONNECTIONS) + SPARE_DESCRIPTORS <= DESCRIPTORS
    assert listener["MemoryMax"] == ["256M"]


def test_the_tunnels_see_their_own_part_of_the_mailbox_and_have_room_for_their_processes() -> None:
    tunnels = read_unit(TUNNELS)
    assert tunnels["ExecStart"] == ["/opt/autopilot/bin/autopilot dial"]
    own = MailboxPlace(Path(MAILBOX)).tunnels
    assert tunnels["TemporaryFileSystem"] == [f"{MAILBOX}:ro"]
    assert tunnels["BindPaths"] == [str(own)]
    (user,), (group,) = tunnels["User"], tunnels["Group"]
    assert f"u {user} -:{group} " in (SYSTEMD / "autopilot.sysusers.conf").read_text()
    assert f"d {own} 0770 root {group} " in (SYSTEMD / "autopilot.tmpfiles.conf").read_text()
    assert not tunnels.keys() & {"LoadCredential", "SetCredential", "StateDirectory", "ReadWritePaths"}
    assert f"hold for {MOST_MACHINES} machines" in TUNNELS.read_text()
    assert Settings().limits.max_instances <= MOST_MACHINES
    assert int(tunnels["TasksMax"][0]) >= MOST_MACHINES * PROCESSES_A_MACHINE + 16
    assert int(tunnels["LimitNOFILE"][0]) >= MOST_MACHINES * PROCESSES_A_MACHINE * 3 + DESCRIPTORS_OF_ONE


@needs_systemd
@pytest.mark.parametrize("kept", [UNIT, LISTENER, TUNNELS], ids=lambda path: path.stem)
def test_systemd_accepts_it(kept: Path, tmp_path: Path) -> None:
    """The program is not installed here, so that a stand-in is named; nothing else may be complained about."""
    unit = tmp_path / kept.name
    unit.write_text(kept.read_text().replace("/opt/autopilot/bin/autopilot", shutil.which("true") or "/bin/true"))
    answer = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert [line for line in answer.stderr.splitlines() if kept.name in line] == []


@needs_systemd
@pytest.mark.parametrize("kept", [UNIT, LISTENER, TUNNELS], ids=lambda path: path.stem)
def test_its_exposure_is_small(kept: Path) -> None:
    answer = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", kept], capture_output=True, text=True
    )
    if "offline" in answer.stderr:
        pytest.skip("this systemd-analyze cannot judge a unit offline")
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", answer.stdout)
    assert found is not None, answer.stderr
    assert float(found[1]) <= MOST_EXPOSURE
