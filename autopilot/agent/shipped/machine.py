"""What to do next: a pure state machine. No I/O, no clock, no randomness."""

from __future__ import annotations

from typing import Any

SAVE_BOUND_S = 90.0  # from the end of the permit to the self-destroy, whose answer may take half a minute more
TERM_GRACE_S = 60.0
RETRY_FIRST_S, RETRY_MOST_S = 5.0, 300.0
PREPARE_TRIES = 10  # some twenty minutes: what has failed so often on a machine that is heard does not pass by itself
REPEAT_S = 60.0  # a destroy that was accepted is asked for again: we are still here


class Machine:
    """Decides what to do next, from orders, results and the time; does nothing itself.

    ``decide`` answers one command or None: ``setup run term kill`` act on the job's process; ``prefetch restore
    checkpoint inputs outputs report destroy stop`` are tasks that end in ``task_done``; ``abandon`` cuts short the
    checkpoint that is under way, for a newer one is there to be saved; ``quit`` ends the agent. Whatever happened,
    asking again leads to what the newest orders want.
    """

    def __init__(self, now: float, memory: dict[str, Any], second: float = 1.0, instance: str = "") -> None:
        self.second = second  # one real second, in market seconds: what processes and networks need at the least
        self.instance = instance  # what its market calls this machine; empty: it does not say
        self.orders: dict[str, Any] | None = None
        self.seq = int(memory["orders_seq"])
        self.permit_until = now + float(memory["permit_ttl_s"])
        self.setup_done = bool(memory["setup_done"])
        self.exit: dict[str, Any] | None = memory["exit"]
        self.dirty = bool(memory["dirty"])  # the job has run since the last upload that was taken after its end
        self.epoch = int(memory["run_epoch"])
        self.process: str | None = None
        self.inputs_there = self.outputs_sent = False
        self.restored = self.reported = self.killed = self.final = self.abandoning = False
        self.prefetching = self.prefetched = ""
        self.stop_since: float | None = None
        self.expired_since: float | None = None
        self.heard = False  # whether orders came since the last failure: else it is the network that fails
        self.vain: dict[str, int] = {}  # failures of what the command needs first, while orders came
        self.quit_since: float | None = None
        self.checkpoint_at = now
        self.mark = self.mark_taken = self.mark_before = 0  # when the job last said that its checkpoint is whole
        self.fresh, self.whole_at = True, 0
        self.claim: Any = None  # the job's newest word on its progress
        self.claimed_at = now
        self.stalled = False
        self.tasks: list[str] = []
        self.failures: dict[str, int] = {}
        self.not_before: dict[str, float] = {}

    # -- what happens

    def orders_received(self, orders: dict[str, Any], now: float) -> bool:
        """Take them unless they are older than what is known; only a higher ``seq`` renews the permit."""
        if orders["seq"] < self.seq:
            return False
        if orders["seq"] > self.seq:
            self.seq = orders["seq"]
            self.permit_until = now + orders["permit_ttl_s"]
        before, self.orders, self.heard = self.restore_name(), orders, True
        if self.restore_name() != before:
            self.vain.pop("restore", None)
        if self.is_surplus() and self.expired_since is None:
            self.expired_since = now
        return True

    def process_started(self, kind: str, now: float) -> None:
        self.process, self.stop_since, self.killed = kind, None, False
        if kind == "run":
            self.exit, self.reported, self.dirty, self.outputs_sent = None, False, True, False
            self.epoch = self.orders["run_epoch"] if self.orders else self.epoch
            self.checkpoint_at = now + self._interval()
            self.mark_taken = self.mark
        self.claimed_at, self.stalled = now, False

    def progressed(self, claim: Any, now: float) -> None:
        """What the job says of its progress now."""
        if claim != self.claim:
            self.claim, self.claimed_at = claim, now

    def process_ended(self, code: int, now: float, finished_at: str) -> None:
        kind, stopped = self.process, self.stop_since is not None and not self.stalled
        self.process = self.stop_since = None
        if kind == "run":
            self.restored = False
        elif kind == "setup" and code == 0:
            self.setup_done = True
        if stopped or (kind == "setup" and code == 0):
            return
        if kind == "run" or self._role() == "run":
            killer = -code if code < 0 else code - 128 if 128 < code <= 192 else None
            epoch = self.epoch if kind == "run" or not self.orders else self.orders["run_epoch"]
            self.exit = {
                "run_epoch": epoch,
                "exit_code": code,
                "signal": killer,
                "reason": "stalled" if self.stalled else "exited" if kind == "run" else "setup_failed",
                "finished_at": finished_at,
            }
            self.reported = False
        else:
            self._failed("setup", now)

    def task_done(self, task: str, ok: bool, now: float) -> None:
        self.tasks.remove(task)
        abandoned, self.abandoning = self.abandoning and task == "checkpoint", False
        if abandoned and not ok:
            return
        if not ok:
            self.mark_taken = self.mark_before if task == "checkpoint" else self.mark_taken
            self._failed(task, now)
            if task in ("inputs", "restore"):
                self._tried_in_vain(task)
            return
        self.failures[task] = self.vain[task] = 0
        self.not_before[task] = now + (REPEAT_S if task in ("destroy", "stop") else 0)
        if task == "restore":
            self.restored = True
        elif task == "prefetch":
            self.prefetched = self.prefetching
        elif task == "checkpoint":
            self.checkpoint_at = now + self._interval()
            self.dirty = self.dirty and not self.final
        elif task == "inputs":
            self.inputs_there = True
        elif task == "outputs":
            self.outputs_sent = True
        elif task == "report":
            self.reported = True

    # -- what to do

    def decide(self, now: float) -> str | None:
        if now >= self.permit_until and self.expired_since is None:
            self.expired_since = now  # for good: whoever renews it now finds a machine on its way out
        role = self._role()
        fenced = role in ("wait", "leave")
        if self.quit_since is not None:
            over = now >= self.quit_since + 4 * self.second
            if self.process and not over:
                return self._end_process(now, 2 * self.second)
            return "quit" if over or fenced or not self.dirty else self._begin("checkpoint", now)
        if self.expired_since is not None:
            bound = max(SAVE_BOUND_S, 5 * self.second)
            over = now >= self.expired_since + bound
            if self.process and not over:
                return self._end_process(now, bound / 2)
            if self.orders and (self.dirty or self._unreported()) and not fenced and not over:
                return self._save_and_report(now)
            return self._begin("stop" if self.dirty and not fenced else "destroy", now)
        if self.stop_since is not None or (self.process and role in ("save_and_stop", "leave")):
            return self._end_process(now)
        if role == "run":
            return self._run(now)
        if role == "save_and_stop":
            return self._save_and_report(now)
        if role == "wait":
            return self._wait(now)
        return None

    def state(self) -> str:
        """The word for the heartbeat."""
        role = self._role()
        if self.expired_since is not None:
            return "expired"
        if self.exit is not None and self.process is None and not self.dirty:
            return "finished"
        if role == "save_and_stop" or (self.exit is not None and self.dirty):
            return "saving"
        if role == "leave":
            return "left"
        if self.process:
            return "running" if self.process == "run" else "setting_up"
        if not self._set_up():
            return "setting_up"
        # Newer checkpoints come while it waits: with one of them here the rest of the newest is soon fetched.
        is_ready = self.restored if role == "run" else self.prefetched or not self.restore_name()
        return "waiting" if is_ready else "restoring"

    def is_surplus(self) -> bool:
        """Whether the orders are for another machine: one create has made both, and this one is wanted by nobody."""
        return bool(self.instance and self.orders and self.orders["instance"] not in ("", self.instance))

    def saved(self) -> bool:
        """Ordered to save and stop, and nothing runs and nothing is left to upload."""
        return self._role() == "save_and_stop" and self.process is None and not self.dirty

    def restore_name(self) -> str:
        """What the orders want restored."""
        restore = self.orders["restore"] if self.orders else None
        return f"{restore['lease']}/{restore['n']}" if restore else ""

    def is_due(self, now: float) -> bool:
        """Whether the job should save: a checkpoint is due, or its process is about to end."""
        return self.process == "run" and (now >= self.checkpoint_at or self.stop_since is not None)

    def is_judged_by_gpus(self) -> bool:
        """Whether nothing else can tell if the job hangs: it is watched, and says nothing of its progress."""
        is_watched = bool(self.orders and self.orders["work"]["stall_s"]) and self.process == "run"
        return is_watched and self.claim in (None, (None, None))

    def has_stalled(self, now: float) -> bool:
        """Whether the job has given no sign of life for longer than its orders find bearable.

        New progress is one; of a job that says nothing of its progress, work of the GPUs.
        """
        bearable = self.orders["work"]["stall_s"] if self.orders else 0
        return bool(bearable) and self.process == "run" and now >= self.claimed_at + bearable

    def _role(self) -> str | None:
        if self.is_surplus():
            return "leave"
        return self.orders["role"] if self.orders else None

    def _interval(self) -> float:
        return max(float(self.orders["checkpoint_interval_s"]) if self.orders else 0.0, 0.25 * self.second)

    def _run(self, now: float) -> str | None:
        assert self.orders is not None
        epoch = self.orders["run_epoch"]
        if self.exit is not None and self.process is None and self.exit["run_epoch"] >= epoch:
            return self._save_and_report(now)
        if self.process == "run":
            if self.epoch != epoch:  # promoted anew, perhaps after others ran: start over from the newest checkpoint
                return self._end_process(now)
            if self.has_stalled(now) and self.orders["work"]["stall_fails"]:
                self.stalled = True
                return self._end_process(now)
            waits = self.mark and self.mark == self.mark_taken  # its files are whole only when it says so
            return self._begin("checkpoint", now) if now >= self.checkpoint_at and not waits else None
        if self.process or not self._set_up():
            return self._prepare(now)
        return self._start("run", now) if self.restored else self._begin("restore", now)

    def _wait(self, now: float) -> str | None:
        if self.process == "run":
            return self._end_process(now)
        if self.process or not self._set_up():
            return self._prepare(now)
        return self._begin("prefetch", now) if self.restore_name() != self.prefetched else None

    def _set_up(self) -> bool:
        work = self.orders["work"] if self.orders else {"setup": "", "inputs": {}}
        return (self.setup_done or not work["setup"]) and (self.inputs_there or not work["inputs"])

    def _prepare(self, now: float) -> str | None:
        """What ``setup`` and ``run`` need, then ``setup``."""
        if self.process:
            return None
        if self.orders and self.orders["work"]["inputs"] and not self.inputs_there:
            return self._begin("inputs", now)
        return self._start("setup", now)

    def _save_and_report(self, now: float) -> str | None:
        if self.dirty:
            return self._begin("checkpoint", now)
        if not self._unreported():
            return None
        keeps = self.orders["work"]["outputs"] if self.orders else ()
        if keeps and not self.outputs_sent and self.exit is not None and self.exit["exit_code"] == 0:
            return self._begin("outputs", now)
        return self._begin("report", now)

    def _unreported(self) -> bool:
        return self.exit is not None and not self.reported

    def _start(self, kind: str, now: float) -> str | None:
        return None if self.tasks or now < self.not_before.get(kind, now) else kind

    def _begin(self, task: str, now: float) -> str | None:
        if task == "checkpoint" and task in self.tasks and not (self.process or self.final or self.abandoning):
            self.abandoning = True
            return "abandon"
        blocked = task in self.tasks or (self.tasks and task not in ("destroy", "stop"))
        if blocked or now < self.not_before.get(task, now):
            return None
        self.tasks.append(task)
        if task == "checkpoint":
            self.final = self.process is None
            ended_well = self.final and self.exit is not None and self.exit["exit_code"] == 0
            self.fresh = ended_well or not self.mark or self.mark != self.mark_taken
            self.whole_at = 0 if ended_well else self.mark
            self.mark_before, self.mark_taken = self.mark_taken, self.mark
        elif task == "prefetch":
            self.prefetching = self.restore_name()
        return task

    def _end_process(self, now: float, grace_s: float = TERM_GRACE_S) -> str | None:
        if self.stop_since is None:
            self.stop_since = now
            return "term"
        if not self.killed and now >= self.stop_since + max(grace_s, 2 * self.second):
            self.killed = True
            return "kill"
        return None

    def _tried_in_vain(self, task: str) -> None:
        """A command that cannot be begun here has failed, once that was tried often enough."""
        self.vain[task] = self.vain.get(task, 0) + self.heard
        self.heard = False
        if self.vain[task] < PREPARE_TRIES or self._role() != "run" or self.orders is None:
            return
        self.vain[task] = 0
        head = {"run_epoch": self.orders["run_epoch"], "exit_code": 1, "signal": None}
        self.exit, self.reported = {**head, "reason": task + "_failed", "finished_at": ""}, False

    def _failed(self, what: str, now: float) -> None:
        self.failures[what] = self.failures.get(what, 0) + 1
        wait_s = min(RETRY_FIRST_S * 2 ** min(self.failures[what] - 1, 10), RETRY_MOST_S)
        self.not_before[what] = now + max(wait_s, 0.25 * self.second)
