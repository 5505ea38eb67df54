"""The agent on one machine: carries out what ``Machine`` decides, with processes, disk and network."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from .arrival import Arrival
from .child import Child
from .code import CodeDownload
from .compress import library
from .execs import BRISK_POLL_S, Execs, fresh_until
from .gpus import are_busy
from .inputs import fetch_input
from .job_user import JobUser
from .keeper import Keeper
from .killed import Kills
from .log import Log
from .machine import Machine
from .markets import WITHHELD, ask_market, instance_id, market_of
from .memory import Memory
from .offspring import adopt_orphans, reap
from .orders import parse_orders, parse_taken_over
from .pace import BRISK_S, Pace
from .progress import Progress
from .readings import Readings, Stillness
from .room import Room
from .shells import SYNTAX_CODE, find_shell, find_syntax_error
from .ssh import Ssh
from .states import ABILITIES, ENDING, NEXT_TASK, Exit
from .surroundings import WISH, Notice
from .transfer import Abandoned, Transfer, step_aside
from .web import Web
from .workplace import Workplace

TICK_S = 0.1
DRAIN_S = 120.0
"""Market seconds in which the last output is sent before the end is reported."""
LAST_WORD_S = 5.0
"""Real seconds for a last heartbeat: the market is asked for the end in time, heard or not."""
HOME = "var/lib/autopilot"
TOLD_BY = ("AUTOPILOT_PROGRESS_FILE", "AUTOPILOT_CHECKPOINT_MARK", "AUTOPILOT_SAVE_REQUEST", "AUTOPILOT_MLFLOW_RUN")
"""Variables by which the job's command tells of itself: what the user runs beside it is not to speak for it."""


class Agent:
    def __init__(self, orders_url: str) -> None:
        """Raises ``BlockingIOError`` when another agent has this disk."""
        self.root = os.path.abspath(os.environ.get("AUTOPILOT_ROOT") or "/")
        self.speed = float(os.environ.get("AUTOPILOT_CLOCK_SPEED") or 1)
        home = self.beneath(os.environ.get("AUTOPILOT_STATE") or HOME)
        os.makedirs(home, exist_ok=True)
        os.chmod(home, 0o700)
        self.lock = os.open(os.path.join(home, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.memory = Memory(home, self.beneath(HOME))
        if not os.environ.get(WISH):  # the host of a virtual machine counts the permit itself
            self.memory.note_host(host_boot())
        self.first_orders_url = orders_url
        self.orders_urls = [url for url in (self.memory["next_orders_url"], orders_url) if url]
        self.machine = Machine(self.now(), self.memory.values, self.speed, instance_id(os.environ))
        self.log = Log(self.memory["boot"])
        self.web = Web()
        self.child = Child(self.memory["token"], self.take_output)
        self.keeper = Keeper(home, self.web, self.log, self.memory, lambda: self.machine.orders, self.speed)
        self.home, self.room, self.workplace = home, Room(home), Workplace(home)
        if self.memory["zstd"] is None:
            self.memory.values["zstd"] = library() is not None
        self.keeper.compresses = self.memory["zstd"]
        self.progress = Progress(self.room.progress)
        self.readings, self.stillness = Readings(self.speed), Stillness(self.now())
        self.output_bytes = 0
        self.drain_until: float | None = None
        self.kills = Kills()
        self.is_swept = True  # nothing of the job's processes lives on
        self.run_as: tuple[dict[str, str], int | None] | None = None
        self.execs = Execs(self.memory, self.web, self.log, self.exec_surroundings)
        self.ssh = Ssh(os.path.join(home, "ssh"), self.child, self.log, self.exec_surroundings, os.environ)
        self.requested_at = 0.0
        self.saved_before: int | None = None  # the newest checkpoint that was sent before this run began
        self.events: queue.SimpleQueue[tuple[Any, ...]] = queue.SimpleQueue()
        self.taking_in = threading.Lock()
        self.wake = threading.Event()
        self.pace = Pace(self.now())
        self.keeper.ask = self.ask
        self.reported_exit: Exit | None = None  # all that the run left is sent
        self.beats, self.beating = 0, threading.Lock()
        self.notice = Notice(os.environ)
        if market_of(os.environ) is None and not os.environ.get(WISH):
            self.log.trouble("key", "there is no machine id with its key here: this machine cannot destroy itself")

    def now(self) -> float:
        return awake() * self.speed

    def beneath(self, *path: str) -> str:
        """``path`` as seen from the instance's root; ``..`` does not lead out of it."""
        return os.path.join(self.root, os.path.normpath(os.path.join("/", *path)).lstrip("/"))

    # -- the main loop: events in, one decision, one act

    def run(self) -> None:
        self.log.say(f"agent started, boot {self.memory['boot']}")
        if not adopt_orphans():
            self.log.trouble("orphans", "processes that lose their parent are not seen here any more")
        self.child.sweep("run")
        self.child.sweep("exec")
        self.child.sweep("ssh")
        if not self.memory["setup_done"]:
            self.child.sweep("setup")
        signal.signal(signal.SIGTERM, lambda *_: self.events.put(("quit",)))
        for watch in (self.correspond, self.watch_gpus, self.watch_files):
            threading.Thread(target=watch, daemon=True).start()
        command, state = None, ""
        while command != "quit":
            try:
                command = self.step()
            except Exception as error:  # the permit must still be counted
                self.log.trouble("step", repr(error))
                time.sleep(1)
            if self.machine.state() != state:
                state = self.machine.state()
                self.log.say("now " + state)
                self.wake.set()
        self.child.signal(signal.SIGKILL)
        self.execs.end()
        self.ssh.mind(False)

    def step(self) -> str | None:
        with contextlib.suppress(queue.Empty):
            event = self.events.get(timeout=TICK_S)
            with self.taking_in:
                self.take_in(event)
        code = self.child.poll()
        reap()
        if code is not None:
            self.finish(code)
        self.look_at_notice()
        self.look_at_job()
        command = self.machine.decide(self.now())
        may_enter = self.machine.may_exec(self.now())
        self.execs.mind(may_enter, awake())
        self.ssh.mind(may_enter)
        if command not in ("setup", "run"):
            self.remember()
        if command in ("setup", "run"):
            self.start(command)
        elif command == "term":
            self.child.end(self.look_at_files)
        elif command == "kill":
            self.child.signal(signal.SIGKILL)
        elif command == "abandon":
            self.keeper.abandon()
        elif command is not None and command != "quit":
            try:
                threading.Thread(target=self.attempt, args=(command,), daemon=True).start()
            except RuntimeError as error:  # the job has used up what there is of threads
                self.events.put(("done", command, str(error)))
        return command

    def look_at_notice(self) -> None:
        """Said in the next heartbeat, which goes at once: there may be a minute left."""
        if not self.notice.look():
            return
        told = self.notice.report()
        self.log.say(f"notice: {told['kind']} at {told['ends_at']}" if told else "the notice is withdrawn")
        if self.notice.is_hard:
            self.machine.quit(self.now(), self.notice.grace_s)
        elif told:
            self.machine.take_notice(self.now())
        self.wake.set()

    def look_at_job(self) -> None:
        """What it says by files, and what is asked of it that way."""
        machine, now = self.machine, self.now()
        if machine.process.kind != "run":
            return
        machine.take_progress(self.progress.read(), now)
        said = self.output_bytes, machine.claim.progress
        is_busy = None if self.execs.is_running else are_busy(self.readings.at(now)["gpus"])
        self.stillness.look(now, said, is_busy)
        self.look_at_mark()
        if machine.is_due(now) and self.requested_at < max(machine.checkpoint_at, machine.process.stop_since):
            self.requested_at = now
            with open(self.room.save_request, "w"):
                pass
        if machine.has_stalled(now):
            self.log.trouble("stall", "the job has said nothing new of its progress for too long")
        else:
            self.log.resolve("stall")

    def look_at_mark(self) -> None:
        with contextlib.suppress(OSError):
            self.machine.mark = os.stat(self.mark()).st_mtime_ns

    def take_output(self, data: bytes) -> None:
        self.output_bytes += len(data)
        self.log.add(data)
        self.progress.feed(data, self.now())

    def take_in(self, event: tuple[Any, ...]) -> None:
        now = self.now()
        has_ended = self.machine.exit is not None
        if event[0] == "orders" and self.machine.take_orders(event[1], now):
            if has_ended and self.machine.exit is None:
                self.progress.forget()
                self.keeper.restored = {}
            self.log.begin(event[1].get("job", ""))
            self.execs.take(event[1].get("exec"), event[2])
            url = event[1]["next_orders_url"]
            self.web.put_headers = event[1]["put_urls"]["headers"]
            self.memory.values.update(next_orders_url=url, permit_ttl_s=event[1]["permit_ttl_s"])
            self.orders_urls = [url, self.first_orders_url]
            if not self.machine.mark:
                self.look_at_mark()  # of the run before a reboot
            if self.machine.is_surplus():
                named = event[1]["instance"]
                self.log.trouble("orders", f"for machine {named}, and this is {self.machine.instance}: it is to go")
        elif event[0] == "taken_over":
            self.machine.give_up(event[1], now)
            if self.machine.life.is_given_up:
                self.log.say("this machine is its user's from now on: what ran here ends, and it is not destroyed")
        elif event[0] == "done":
            self.machine.next_number = self.keeper.next_number()
            self.machine.finish_task(event[1], not event[2], now)
            self.wake.set()
        elif event[0] == "busy":
            self.machine.take_sign_of_life(now)
        elif event[0] == "quit":
            self.look_at_notice()
            self.machine.quit(now, self.notice.grace_s)

    def remember(self) -> None:
        try:
            self.memory.save(**self.machine.to_remember())
            self.log.resolve("memory")
        except OSError as error:  # a full disk must not keep it from what comes next
            self.log.trouble("memory", str(error))

    def attempt(self, task: str) -> None:
        error = ""
        try:
            if task in ("checkpoint", "prefetch"):
                step_aside()
            getattr(self, task)()
            self.log.resolve(task)
        except Abandoned as failure:
            error = str(failure) or "abandoned"
        except Exception as failure:  # every task is tried again
            error = f"{type(failure).__name__}: {failure}"
            self.log.trouble(task, error)
        self.events.put(("done", task, error))

    # -- the job's process

    def start(self, command: str) -> None:
        """What takes its time comes first: the machine is at work once its process is."""
        assert self.machine.orders is not None
        work = self.machine.orders["work"]
        self.progress.forget()
        self.progress = Progress(self.progress.path, work["progress"])
        problem, uid = "", None
        env: dict[str, str] = {}
        try:
            os.makedirs(self.beneath(work["workdir"]), exist_ok=True)
            self.room.furnish()
            env, uid = self.surroundings(command, work)
            self.run_as = (env, uid) if command == "run" else self.run_as
        except OSError as error:
            problem = str(error)
        self.keeper.job_uid = uid if command == "run" else None
        self.machine.begin_process(command, self.now())
        self.saved_before = self.memory["last_ckpt_n"]
        self.drain_until = None
        self.stillness = Stillness(self.now())
        self.remember()
        self.kills = Kills()
        try:
            if problem:
                raise OSError(problem)
            shell = find_shell(work.get("in_bash", False), env)
            unreadable = find_syntax_error(shell, work[command], env)
            if unreadable:
                self.log.trouble(command, unreadable)
                self.machine.end_process(SYNTAX_CODE, self.now(), utc_now(), reason="syntax")
                return
            shell = [*shell, "-c", work[command]]
            self.child.start(command, shell, self.beneath(work["workdir"]), env, self.keeper.job_uid)
        except (OSError, ValueError) as error:
            self.log.trouble(command, str(error))
            self.machine.end_process(127, self.now(), utc_now())

    def surroundings(self, command: str, work: dict[str, Any]) -> tuple[dict[str, str], int | None]:
        """The job's environment, and the user that its command gets if it gets one of its own. Raises ``OSError``."""
        env = {name: value for name, value in os.environ.items() if name not in WITHHELD}
        found = self.memory["arrival_env"]  # what the check on arrival has found to be needed here
        env.update({"PYTHONUNBUFFERED": "1", **self.room.variables(), **found, **work["env"]})
        helper = [self.room.helper, env.get("PYTHONPATH")]
        ours = {
            "AUTOPILOT_CHECKPOINT_PATH": self.checkpoint_path(),
            "AUTOPILOT_CHECKPOINT_MARK": self.mark(),
            "PYTHONPATH": os.pathsep.join(filter(None, helper)),
        }
        user = JobUser(self.child.uid, self.room.home, spared=(self.home, self.room.directory))
        workdir = self.beneath(work["workdir"]) if command == "run" else ""
        obstacle = "its job file says so" if work["as_root"] else ""
        obstacle = obstacle or user.obstacle(workdir, self.checkpoint_path(), env)
        if obstacle:
            self.log.say(f"{command} runs as the agent's own user: {obstacle}")
            return {**env, **ours}, None
        return {**env, **user.variables(), **work["env"], **ours}, self.child.uid

    def exec_surroundings(self) -> tuple[str, dict[str, str], int | None]:
        """Those of the command, or that it would have. Raises ``OSError``."""
        assert self.machine.orders is not None
        work = self.machine.orders["work"]
        workdir = self.beneath(work["workdir"])
        os.makedirs(workdir, exist_ok=True)
        env, uid = self.run_as or self.surroundings("run", work)
        return workdir, {name: value for name, value in env.items() if name not in TOLD_BY}, uid

    def finish(self, code: int) -> None:
        kind = self.machine.process.kind
        if kind == "run":
            self.look_at_mark()  # it may have saved last of all
        self.child.drain()  # what it wrote comes before the word of its end
        self.log.say(f"{kind} ended with code {code}")
        process = self.machine.process
        has_saved = self.memory["last_ckpt_n"] != self.saved_before
        self.machine.end_process(code, self.now(), utc_now(), has_saved, memory=self.kills.report(code))
        self.remember()
        if kind == "run" or code != 0:  # a setup that went well may leave services for the run
            self.end_what_is_left([kind])
        if kind == "run" and self.checkpoint_path():
            self.keeper.look_last(self.checkpoint_path(), is_cut=process.state != ENDING)
        if self.machine.has_failed_soon:
            self.keeper.doubt(self.machine.epoch)
        self.child.drain()

    def end_what_is_left(self, kinds: list[str]) -> None:
        left = [pid for kind in kinds for pid in self.child.sweep(kind)]
        self.is_swept = not left
        if left:
            self.log.trouble("left", f"processes {left} of the job do not end: no other task may begin here")
        else:
            self.log.resolve("left")

    # -- tasks, each in a thread of its own

    def checkpoint_path(self) -> str:
        work = self.machine.orders["work"] if self.machine.orders else {}
        path = work.get("checkpoint_path")
        return self.beneath(work["workdir"], path) if path else ""

    def workdir(self) -> str:
        return self.beneath(self.machine.orders["work"]["workdir"] if self.machine.orders else "/")

    def mark(self) -> str:
        """The file that the job touches when its checkpoint is whole."""
        return os.path.join(self.workdir(), "autopilot-checkpoint")

    def prefetch(self) -> None:
        self.keeper.prefetch()

    def renew(self) -> None:
        """What the task before has left goes, but for the inputs: the next one finds what the first one found."""
        assert self.machine.orders is not None
        self.end_what_is_left(["run"] if self.execs.is_running else ["run", "exec"])
        if not self.is_swept:
            raise OSError("processes of the task before live on, and may be on its GPU")
        work, workdir = self.machine.orders["work"], self.workdir()
        left_by_job = [[workdir, *work["outputs"]], *filter(None, [self.checkpoint_path()])]
        of_others = [slot["path"] for slot in self.machine.orders.get("left") or ()]
        self.workplace.renew(workdir, [*work["inputs"], *of_others], left_by_job)
        self.room.forget_task()
        self.keeper.forget_task()
        self.run_as = None
        self.log.say("the work directory is as it was before the last task")

    def restore(self) -> None:
        if not self.memory["surveyed"] and not self.memory["run_epoch"]:
            self.memory.save(surveyed=self.workplace.survey(self.workdir()))
        run = self.keeper.restore(self.checkpoint_path())
        if run:
            self.room.keep_mlflow_run(run)

    def checkpoint(self) -> None:
        machine, upload = self.machine, self.machine.upload
        self.keeper.is_alone, self.keeper.kept_slots = upload.is_alone, upload.kept
        self.keeper.checkpoint(
            self.checkpoint_path(),
            machine.epoch,
            self.progress.read()[0],
            take=upload.is_fresh,
            whole_at=upload.whole_at,
            final=upload.is_final,
            ended_well=upload.ended_well,
            mlflow_run=self.room.mlflow_run(),
        )

    def check(self) -> None:
        """Once for a machine: what it has found is told until the end."""
        assert self.machine.orders is not None
        arrival = Arrival(self.machine.orders["check"], self.workdir(), self.web, self.speed)
        found = arrival.look()
        self.log.say(f"the check on arrival took {found['took_s']} s")
        self.memory.save(arrival=found, arrival_env=arrival.env)

    def code(self) -> None:
        assert self.machine.orders is not None
        code, workdir = self.machine.orders["code"], self.beneath(self.machine.orders["work"]["workdir"])
        os.makedirs(workdir, exist_ok=True)

        def newest() -> Any:  # the URLs that it begins with may end before it does
            return self.machine.orders and self.machine.orders.get("code")

        transfer = Transfer(newest, self.ask, self.speed)
        CodeDownload(self.web, transfer, workdir, os.path.join(self.home, "code.done")).fetch(code)
        self.log.say(f"code {code['sha256'][:12]} is there")

    def inputs(self) -> None:
        assert self.machine.orders is not None
        work = self.machine.orders["work"]
        for path, url in work["inputs"].items():
            fetch_input(url, self.beneath(work["workdir"], path))
        for number, slot in enumerate(self.machine.orders.get("left") or ()):
            self.keeper.fetch_left(number, slot, self.beneath(work["workdir"], slot["path"]))

    def outputs(self) -> None:
        assert self.machine.orders is not None
        work = self.machine.orders["work"]
        self.keeper.is_alone = self.machine.is_alone(self.now())
        self.keeper.send_outputs(self.beneath(work["workdir"]), work["outputs"], self.machine.epoch)

    def report(self) -> None:
        """By the heartbeat, which counts the output as well."""
        self.drain()
        self.reported_exit = self.machine.exit
        if not (self.beat(is_due=True) or {}).get("exit"):
            raise OSError("the mailbox is another machine's, or another task's")

    def drain(self) -> None:
        """Send what the job has written last: its end says why. What finds no place in time is cut before it."""
        if self.drain_until is None:
            self.drain_until = self.now() + DRAIN_S
        is_over = False
        while not (is_over or self.log.is_all_sent):
            is_over = self.now() >= self.drain_until
            try:
                self.ship_logs(is_last=is_over)
            except OSError as error:
                self.log.trouble("ship_logs", str(error))
            if not (is_over or self.log.is_all_sent):
                self.ask()  # the next heartbeat says how far it is, and the next orders have more addresses
                time.sleep(min(BRISK_POLL_S, max(BRISK_S / self.speed, 0.25)))

    def destroy(self) -> None:
        self.say_last_word()
        ask_market(os.environ, self.web, self.log)

    def say_last_word(self) -> None:
        """Reports the last checkpoint, for a daemon that comes back."""

        def tell() -> None:
            with contextlib.suppress(Exception):
                self.beat()

        teller = threading.Thread(target=tell, daemon=True)
        teller.start()
        teller.join(LAST_WORD_S)

    # -- the mailbox

    def watch_gpus(self) -> None:
        """And disk and load: what is read of them may take its time."""
        while True:
            self.readings.take(self.workdir(), self.machine.process.kind == "run", self.now)
            # What the user runs beside the job is no sign of the job's life.
            is_watched = self.machine.is_judged_by_gpus() and not self.execs.is_running
            if is_watched and are_busy(self.readings.at(self.now())["gpus"]):
                self.events.put(("busy",))
            time.sleep(max(BRISK_S / self.speed, 0.25))

    def ask(self) -> None:
        """For newer orders, at once."""
        self.pace.ask("fetch_orders")
        self.wake.set()

    def watch_files(self) -> None:
        """What the job saves, for as long as it does not say itself when that is whole."""
        step_aside()
        while True:
            self.look_at_files()
            time.sleep(max(self.keeper.pace().look_s, 0.25))

    def look_at_files(self) -> None:
        path = self.checkpoint_path()
        if not path or self.machine.process.kind != "run":
            return
        self.progress.look(path, self.now())
        if not self.machine.mark:
            self.keeper.look(path)

    def correspond(self) -> None:
        """Until the machine is its user's. What fails once is tried again and not told: the addresses of a task that
        has left its machine to the next one are refused until the next one's orders are there."""
        failed: set[str] = set()
        while not self.machine.life.is_given_up:
            is_brisk = time.monotonic() < self.execs.brisk_until
            apart_s = 0.0 if is_brisk else self.pace.apart_s(self.now(), float(self.memory["permit_ttl_s"]))
            others: tuple[Callable[[], Any], ...] = (self.fetch_orders, self.ship_logs)
            due = [act for act in others if self.pace.is_due(act.__name__, self.now(), apart_s)]
            for act in (*due, self.beat):
                if act in due:
                    self.pace.note_done(act.__name__, self.now())
                try:
                    act()
                    failed.discard(act.__name__)
                    self.log.resolve(act.__name__)
                except Exception as error:
                    self.pace.ask(act.__name__)
                    if act.__name__ in failed:
                        self.log.trouble(act.__name__, str(error))
                    failed.add(act.__name__)
            pause = min(BRISK_S / self.speed, BRISK_POLL_S if is_brisk else BRISK_S)
            self.wake.wait(max(pause, 0.25))
            self.wake.clear()

    def fetch_orders(self) -> None:
        asked_at = awake()
        try:
            data, answered_at = self.web.get_dated(self.orders_urls[0])
        except OSError:
            self.orders_urls = self.orders_urls[1:] + self.orders_urls[:1]
            raise
        taken_over = parse_taken_over(data)
        if taken_over is not None:
            self.events.put(("taken_over", taken_over))
            return
        orders = parse_orders(data)
        if orders is None:
            raise ValueError("the orders cannot be read")
        asked = orders.get("exec")
        until = fresh_until(asked, answered_at, asked_at) if asked else None
        if until is not None:
            self.execs.expect_more()
        self.events.put(("orders", orders, until))

    def ship_logs(self, is_last: bool = False) -> None:
        if not self.machine.orders or self.machine.is_surplus():
            return
        orders = self.machine.orders
        self.log.ship(orders.get("job", ""), orders["put_urls"]["log"], self.web.put, is_last)
        if self.log.has_much:  # more addresses are needed, and the next look is for more of it
            for act in ("fetch_orders", "ship_logs"):
                self.pace.ask(act)

    def beat(self, is_due: bool = False) -> dict[str, Any] | None:
        """Tell what is new, or what there is when it is time for that; answers what was told."""
        machine = self.machine
        with self.beating:  # an older one must not arrive after a newer one
            with self.taking_in:  # while orders for the next task are half taken in, it would tell of the task before
                if machine.orders is None or machine.is_surplus():  # the mailbox is another machine's
                    return None
                url, body = machine.orders["put_urls"]["heartbeat"], self.describe(machine.orders)
            if not is_due and not self.pace.must_tell(body, self.now()):
                return None
            self.web.put(url, json.dumps(body).encode())
            self.pace.note_arrival(body, self.now())
            return body

    def describe(self, orders: dict[str, Any]) -> dict[str, Any]:
        """What the next heartbeat tells."""
        machine, memory = self.machine, self.memory
        self.beats += 1
        is_of_other = machine.is_of_other()  # what it knows is of another task than the one that it writes to
        step, progress = said = (None, None) if is_of_other else self.progress.read()
        recognised = self.progress.recognise(self.now()) if said == (None, None) and not is_of_other else None
        last_n = None if is_of_other else memory["last_ckpt_n"]
        return {
            **{"v": 1, "boot": memory["boot"], "seq": self.beats, "run_epoch": orders["run_epoch"]},
            **{"orders_seq_seen": machine.seq, "state": machine.state(), "saved": machine.is_saved()},
            **{"step": step, "progress": progress, "bytes_sent": self.web.bytes_sent, "next_log_n": self.log.next_n},
            **{"last_ckpt_n": last_n, "next_ckpt_n": memory["next_ckpt_n"], **self.keeper.wants()},
            **self.keeper.cost,
            "readings": {
                **self.readings.at(self.now()),
                **{"still_s": self.still_s(), "arrival": memory["arrival"], "recognised": recognised},
            },
            "can": [each for each in ABILITIES if each != NEXT_TASK or (memory["surveyed"] and self.is_swept)],
            "ssh": self.ssh.report(),
            "notice": self.notice.report(),
            "error": self.log.error(),
            "exit": None if is_of_other else self.exit_record(),
        }

    def exit_record(self) -> dict[str, Any] | None:
        """The record of the run that ended last, once its last files are sent."""
        ended = self.machine.exit
        return asdict(ended) if ended is not None and ended == self.reported_exit else None

    def still_s(self) -> float | None:
        """How long the command has been inactive; None if it does not run."""
        return self.stillness.count() if self.machine.process.kind == "run" else None


def awake() -> float:
    """Real seconds, which suspension does not stop."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def host_boot() -> str:
    """Which start of the host this is, to whose clock ``awake`` belongs; empty: unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def utc_now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
