"""The host program at work: it brings the container up, hands it notices, and switches an unneeded machine off.

If a machine is billed even when off, it stays on: it works, or reports what is wrong, until the daemon deletes it.

Two threads. One corresponds: orders in, reports out, and when no new orders come for a permit's time, power off. The
other boots and then watches the container, the agent's wish and the market's notice.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sys
import threading
import time
from typing import Any

from autopilot.agent.shipped.disk import read_json, write_json
from autopilot.agent.shipped.orders import parse_taken_over
from autopilot.agent.shipped.web import Web

from .docker import Docker, DockerError
from .fault import RETRY_FIRST_S, RETRY_MOST_S, Fault, Retries
from .notices import LAST_GRACE_S, STOP_GRACE_S, Signal, notice
from .orders import parse_login, parse_orders
from .places import AGENT_INBOX, AGENT_OUTBOX, AGENT_STATE, ENV, NOTICE, WISH, Places
from .runtime import check_gpus, prepare_docker, run

POLL_S, LOOK_S = 15.0, 2.0
FIRST_PERMIT_S, WAKE_PERMIT_S = 900.0, 120.0
"""Time to receive orders after the first boot, and after a later one, before which it slept for an unknown time."""
AGENT_SAVES_S = 240.0
"""The agent counts the same permit, saves, and wishes to go. This program goes so much later, wish or none."""
REPORT_S = 600.0
"""How long a fault is tried to be reported before the machine goes."""


class Host:
    def __init__(self, places: Places, speed: float) -> None:
        """Raises ``BlockingIOError`` when another one has this machine."""
        self.lock = os.open(places.lock, os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.places, self.speed = places, speed
        self.docker, self.web = Docker(places.docker_socket), Web()
        notes = read_json(places.notes) or {}
        self.first_url = notes["orders_url"]
        self.urls = [url for url in (notes.get("next_orders_url"), self.first_url) if url]
        self.boot = notes.get("boot", 0) + 1
        self.notes = {**notes, "boot": self.boot}
        write_json(places.notes, self.notes)
        for path in (places.stopping, places.notice, places.wish):
            with contextlib.suppress(FileNotFoundError):
                os.remove(path)
        self.begun = self.now()
        self.orders: dict[str, Any] | None = None
        self.seq = -1
        self.permit_until = self.begun + (FIRST_PERMIT_S if self.boot == 1 else WAKE_PERMIT_S)
        self.signal = Signal(speed)
        self.is_held = False
        """The container was stopped because of a notice, not by itself."""
        self.exits, self.restart_at = 0, 0.0
        self.report: dict[str, Any] = {"v": 1, "boot": self.boot, "seq": 0, "state": "preparing"}
        self.delivered = -1
        self.wake, self.news = threading.Event(), threading.Event()

    def now(self) -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME) * self.speed

    def say(self, text: str) -> None:
        sys.stdout.write(f"autopilot host: {text}\n")
        sys.stdout.flush()

    @property
    def is_given_up(self) -> bool:
        """The user has taken over the machine: nothing here switches it off any more, nor brings anything up."""
        return bool(self.notes.get("given_up"))

    def run(self) -> None:
        """Until the machine goes."""
        self.say(f"boot {self.boot}")
        while self.is_given_up:
            self.pause(REPORT_S)
        threading.Thread(target=self.correspond, daemon=True).start()
        try:
            self.bring_up()
        except Fault as fault:
            self.tell("failed", fault.name, fault.detail)
            ends_at = self.now() + REPORT_S
            while self.delivered < self.report["seq"] and self.now() < ends_at:
                self.pause(1)
            self.power_off(f"the boot failed: {fault.name}")
            return self.idle()
        while True:
            try:
                self.look()
            except (OSError, DockerError) as error:
                self.say(f"cannot look: {error}")
            self.pause(LOOK_S)

    def idle(self) -> None:
        """Nothing is left to do but to report: the daemon deletes the machine."""
        while True:
            self.pause(POLL_S)

    # -- orders and reports

    def correspond(self) -> None:
        while not self.is_given_up:
            for act in (self.fetch_orders, self.send_report):
                try:
                    act()
                except Exception as error:  # tried again at the next round
                    self.say(f"{act.__name__}: {error}")
            if self.now() >= self.permit_until + (AGENT_SAVES_S if self.orders else 0):
                self.power_off("its permit has expired")
            self.wake.wait(max(POLL_S / self.speed, 0.25))
            self.wake.clear()

    def fetch_orders(self) -> None:
        try:
            data = self.web.get(self.urls[0])
        except OSError:
            self.urls = self.urls[1:] + self.urls[:1]
            raise
        if parse_taken_over(data) is not None:
            self.say("this machine is its user's from now on")
            self.note(given_up=True)
            return
        orders = parse_orders(data)
        if orders is None:
            raise ValueError("the orders cannot be read")
        if orders["seq"] < self.seq:
            return
        if orders["seq"] > self.seq:
            self.seq, self.permit_until = orders["seq"], self.now() + orders["permit_ttl_s"]
        self.web.put_headers = orders["headers"]
        self.urls = [orders["next_orders_url"], self.first_url]
        self.orders = orders
        if self.notes.get("next_orders_url") != self.urls[0]:
            self.note(next_orders_url=self.urls[0])
        self.news.set()

    def send_report(self) -> None:
        report = self.report
        if self.orders is not None and report["seq"] > self.delivered:
            self.web.put(self.orders["host"]["report_url"], json.dumps(report).encode())
            self.delivered = report["seq"]

    def tell(self, state: str, fault: str = "", detail: str = "", wants_login: bool = False) -> None:
        words = {"state": state, "fault": fault, "detail": detail, "wants_login": wants_login}
        if {**self.report, **words} != self.report:
            self.say(" ".join(filter(None, (state, fault, detail))))
            self.report = {**self.report, **words, "seq": self.report["seq"] + 1}
            self.wake.set()

    def note(self, **changes: Any) -> None:
        self.notes.update(changes)
        write_json(self.places.notes, self.notes)

    # -- up

    def bring_up(self) -> None:
        """Raises ``Fault`` where nothing is tried again (``Retries``)."""
        while self.orders is None:
            self.news.wait(1)
        ends_at = self.begun + self.plan["boot_s"]
        retries = Retries(ends_at)
        self.tell("preparing")
        while True:
            try:
                return self.try_to_bring_up(ends_at)
            except Fault as found:
                fault = found
            except DockerError as error:
                fault = Fault("container_refused", str(error), is_final=False)
            except OSError as error:
                fault = Fault("boot_too_slow", str(error), is_final=False)
            self.say(f"{fault.name}: {fault.detail}")
            self.pause(retries.wait_s(fault, self.now()))

    @property
    def plan(self) -> dict[str, Any]:
        assert self.orders is not None
        return dict(self.orders["host"])

    def try_to_bring_up(self, ends_at: float) -> None:
        plan = self.plan
        name = plan["container"]
        prepare_docker(self.docker, self.places, self.speed)
        check_gpus(plan["num_gpus"], max(60 / self.speed, 10))
        for other in self.docker.names():
            if other.startswith("ap-") and other != name:  # of a lease before, on the same disk
                self.docker.remove(other)
        write_private(self.places.env_file, plan["env"])
        if not self.docker.has_container(name):
            if not self.docker.has_image(plan["image"]):
                self.pull(ends_at)
            self.docker.create(name, self.container(plan))
        self.note(container=name)
        self.tell("starting")
        self.docker.start(name)
        self.tell("running")

    def pull(self, ends_at: float) -> None:
        """Raises ``Fault``, ``OSError``; ``TimeoutError`` when there is no time left."""
        plan = self.plan
        login = self.ask_login(ends_at) if plan["needs_login"] else None
        told = -10

        def tell(percent: int) -> None:
            nonlocal told
            if percent >= told + 10:
                told = percent
                self.tell("pulling", detail=f"{percent} %", wants_login=plan["needs_login"])

        tell(0)
        ends_real = time.monotonic() + (ends_at - self.now()) / self.speed
        self.docker.pull(plan["image"], login, ends_real, tell)

    def ask_login(self, ends_at: float) -> dict[str, str]:
        """Kept in this variable alone: no file, no list of processes, no environment has it."""
        self.tell("pulling", detail="waits for the registry's login", wants_login=True)
        while True:
            if self.plan["login_url"]:
                try:
                    login = parse_login(self.web.get(self.plan["login_url"]))
                    if login is not None:
                        return login
                except OSError as error:
                    self.say(f"no login yet: {error}")
            if self.now() >= ends_at:
                raise Fault("registry_denied", "the daemon gave no login for the registry in time")
            self.pause(LOOK_S)

    def container(self, plan: dict[str, Any]) -> dict[str, Any]:
        """What docker keeps of it lies on the disk: no secret is in it."""
        own = {
            "AUTOPILOT_ENV_FILE": f"{AGENT_INBOX}/{ENV}",
            "AUTOPILOT_NOTICE": f"{AGENT_INBOX}/{NOTICE}",
            "AUTOPILOT_WISH": f"{AGENT_OUTBOX}/{WISH}",
            "AUTOPILOT_STATE": AGENT_STATE,
            "AUTOPILOT_GRACE_S": str(STOP_GRACE_S - 4),
        }
        places = self.places
        return {
            "Image": plan["image"],
            "User": "0",  # as other markets start images; the agent gives the job a user of its own
            "Entrypoint": ["/bin/sh"],
            "Cmd": ["-c", plan["start"]],
            "Env": [f"{name}={value}" for name, value in own.items()],
            "StopTimeout": STOP_GRACE_S,
            "HostConfig": {
                "Binds": [
                    f"{places.inbox}:{AGENT_INBOX}:ro",
                    f"{places.outbox}:{AGENT_OUTBOX}",
                    f"{places.agent_state}:{AGENT_STATE}",
                ],
                "DeviceRequests": [{"Driver": "nvidia", "Count": -1, "Capabilities": [["gpu"]]}],
                "IpcMode": "host",
                "NetworkMode": "bridge",
                "RestartPolicy": {"Name": "no"},
                "Ulimits": [
                    {"Name": "memlock", "Soft": -1, "Hard": -1},
                    {"Name": "stack", "Soft": 67108864, "Hard": 67108864},
                ],
            },
        }

    # -- watching

    def look(self) -> None:
        if self.is_given_up:
            return
        if os.path.exists(self.places.stopping):
            return self.tell("stopping")
        if os.path.exists(self.places.wish):
            self.power_off("its agent wishes to go")
        self.mind_notice()
        self.mind_container()

    def mind_notice(self) -> None:
        wall = time.time()
        changed = self.signal.read(read_text(self.places.signal), wall)
        told = self.signal.notice
        if changed and told is not None:
            self.say(f"notice: {told['kind']} at {told['ends_at']}")
            write_private(self.places.notice, told)
        elif changed:
            self.say("the notice is withdrawn")
            os.remove(self.places.notice)
            if self.is_held:
                self.is_held = False
                self.docker.start(self.plan["container"])
        if told is not None and self.signal.is_due(wall) and not self.is_held:
            self.is_held = True
            last = notice(told["kind"], self.signal.ends_at, soft=False, grace_s=LAST_GRACE_S - 2)
            write_private(self.places.notice, last)
            self.docker.stop(self.plan["container"], LAST_GRACE_S, 2 * LAST_GRACE_S)

    def mind_container(self) -> None:
        """One that has ended is started again, ever more slowly: what it had saved is there."""
        name = self.plan["container"]
        state = self.docker.state(name)
        if state["Running"] or self.is_held:
            if not self.is_held:
                self.tell("running")
            return
        now = self.now()
        if not self.restart_at:
            wait_s = min(RETRY_FIRST_S * 2 ** min(self.exits, 10), RETRY_MOST_S)
            self.exits, self.restart_at = self.exits + 1, now + wait_s
            self.tell("failed", "container_exit", f"code {state['ExitCode']}: {self.docker.last_words(name)}")
        elif now >= self.restart_at:
            self.restart_at = 0.0
            self.docker.start(name)

    def power_off(self, why: str) -> None:
        """Comes back only where that would not end the bill, or the machine is its user's.

        Else the container is asked to end by the stop of this program's unit.
        """
        if self.notes.get("stays") or self.is_given_up:
            return
        self.say(f"switching off: {why}")
        while True:
            for command in (["poweroff"], ["systemctl", "poweroff"]):
                with contextlib.suppress(OSError):
                    run(command, 60)
            time.sleep(60)

    def pause(self, market_s: float) -> None:
        time.sleep(max(market_s / self.speed, 0.25))


def stop(places: Places) -> None:
    """The machine shuts down: the agent saves within what is left. Raises ``OSError``."""
    with open(places.stopping, "w"):
        pass
    name = (read_json(places.notes) or {}).get("container")
    if name is None:
        return
    write_private(places.notice, notice("stop", time.time() + STOP_GRACE_S, soft=False, grace_s=STOP_GRACE_S - 4))
    with contextlib.suppress(DockerError):
        Docker(places.docker_socket).stop(name, STOP_GRACE_S, STOP_GRACE_S + 5)


def read_text(path: str) -> str | None:
    """None if there is no file. Raises ``OSError`` for another reason."""
    try:
        with open(path, errors="replace") as file:
            return file.read(10000)
    except FileNotFoundError:
        return None


def write_private(path: str, value: Any) -> None:
    """For root alone, and whole at any time. Raises ``OSError``."""
    with contextlib.suppress(FileNotFoundError):
        os.remove(path + ".new")
    with os.fdopen(os.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o400), "w") as file:
        json.dump(value, file)
    os.replace(path + ".new", path)
