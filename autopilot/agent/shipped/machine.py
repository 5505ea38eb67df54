"""What to do next: a pure state machine. No I/O, no clock, no randomness.

``states`` draws its states and holds their tables. This module turns events into steps along them, and answers what
is to be done. The order of what a served machine does:

    code ─► inputs ─► setup ─► restore ─► run ─► checkpoint, as often as ordered ─► last checkpoint ─► outputs ─► report
     ▲                   └───► prefetch, for as long as its role is to wait
   renew, once the orders are another task's

The last checkpoint comes before the report: a job that is reported as ended is saved.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from .slots import HEARD_S, KEPT_FROM_A_RUN, KEPT_FROM_A_SAVE, KEPT_FROM_THE_LAST, space_saves
from .states import (
    ABANDONED,
    DISK,
    EMPTY,
    ENDED,
    ENDING,
    EXPIRED,
    GIVEN_UP,
    IN_USE,
    NONE,
    OUTPUTS_SENT,
    RESTORED,
    RESULT,
    RUNS,
    SENDING,
    SERVING,
    UNSAVED,
    Claim,
    Exit,
    Life,
    Process,
    Tries,
    Upload,
    move,
)

BOOT_GRACE_S = 120.0  # to fetch newer orders after a sleep that outlasted the permit
SAVE_BOUND_S = 90.0  # from the end of the permit to the self-destroy, whose answer may take half a minute more
TERM_GRACE_S = 60.0
RETRY_FIRST_S, RETRY_MOST_S = 5.0, 300.0
QUIT_S = 4.0  # real: hosts end what runs ten seconds after they asked for it
PREPARE_TRIES = 10  # some twenty minutes: what has failed so often on a machine that is heard does not pass by itself
SOON_S = 300.0  # the daemon goes by the same, on its own clock
REPEAT_S = 60.0  # a destroy that was accepted is asked for again: we are still here
GOODBYES = ("destroy",)  # it need not wait for another task
LATE_PERMIT_S = 900.0  # of orders that are read late: as much of their permit is given from then on


class Machine:
    """Decides what to do next, from orders, results and the time; does nothing itself.

    ``decide`` answers one command or None: ``setup run term kill`` act on the job's process; ``renew code prefetch
    restore checkpoint inputs outputs report destroy`` are tasks that end in ``finish_task``; ``abandon`` cuts
    short the checkpoint under way because a newer one is there to be saved; ``quit`` ends the agent. From any state,
    asking again leads to what the newest orders demand.
    """

    def __init__(self, now: float, memory: dict[str, Any], second: float = 1.0, instance: str = "") -> None:
        """``now`` keeps counting while the machine sleeps, and restarts with its host."""
        self.second = second  # one real second, in market seconds: what processes and networks need at the least
        self.instance = instance  # what its market calls this machine; empty: it does not say
        self.orders: dict[str, Any] | None = None
        self.seq = int(memory["orders_seq"])
        self.permit_until = now + self._left_of_permit(memory, now)
        self.looked_at = self._last_look(memory)
        self.life = Life(GIVEN_UP) if memory.get("given_up") else Life()
        self.quit_s = QUIT_S * second
        self.is_noticed_late = False
        self.process = Process()
        self.disk = UNSAVED if memory["dirty"] else EMPTY
        self.upload = Upload()
        self.exit = Exit(**memory["exit"]) if memory["exit"] else None
        self.result = ENDED if self.exit else NONE
        self.has_left_files = False  # the run that ended, since this boot
        self.run_since, self.has_failed_soon = now, False  # soon: what it began from may be to blame
        self.epoch = int(memory["run_epoch"])
        self.job = str(memory.get("job", ""))  # whose files lie on the disk; agents of older versions do not remember
        # Of ``code``, ``inputs`` and ``setup``. An agent of an older version remembers no code.
        is_done = {"setup": memory["setup_done"], "code": memory.get("code_done", False)}
        self.prepared = frozenset(step for step, done in is_done.items() if done)
        self.prefetched = ""
        self.checkpoint_at = self.heard_at = now
        self.next_number = 0  # of a checkpoint, set by their sender
        self.mark = self.mark_taken = 0  # when the job last said that its checkpoint is whole; the one last sent
        self.claim = Claim(None, now)
        self.tasks: dict[str, str] = {}  # under way: what was to be restored when it began
        self.tries: dict[str, Tries] = {}
        self.has_heard = False  # whether orders came since the last failure: else it is the network that fails

    def to_remember(self) -> dict[str, Any]:
        """What the ``memory`` of the next boot must hold."""
        return {
            "orders_seq": self.seq,
            "setup_done": "setup" in self.prepared,
            "code_done": "code" in self.prepared,
            "exit": asdict(self.exit) if self.exit else None,
            "dirty": self.is_dirty,
            "run_epoch": self.epoch,
            "job": self.job,
            "permit_ends_at": self.permit_until,
            "given_up": self.life.is_given_up,
        }

    def _left_of_permit(self, memory: dict[str, Any], now: float) -> float:
        """A permit keeps counting while its machine sleeps: waking without newer orders must not renew it.

        A restart of the host takes an unknown time, after which the permit may last for its whole length.
        """
        ttl_s, ends_at = float(memory["permit_ttl_s"]), memory.get("permit_ends_at")
        if ends_at is None:
            return ttl_s
        return min(ttl_s, max(float(ends_at) - now, BOOT_GRACE_S, 5 * self.second))

    def _last_look(self, memory: dict[str, Any]) -> float | None:
        """When orders were read in the boot before, at the latest the newest ones that renewed; None: unknown."""
        ends_at = memory.get("permit_ends_at")
        return None if ends_at is None else float(ends_at) - float(memory["permit_ttl_s"])

    def _end_of_permit(self, orders: dict[str, Any], looked_at: float | None, now: float) -> float:
        """New orders are no older than the look before, which did not show them: a long permit counts from that one.

        So a machine that was cut off, or slept, gets no second permit from orders that it reads hours later. Where the
        host of a virtual machine counts the permit, both count alike.
        """
        ttl_s = float(orders["permit_ttl_s"])
        if ttl_s <= LATE_PERMIT_S or orders.get("host"):
            return now + ttl_s
        return max(now + LATE_PERMIT_S, now if looked_at is None else looked_at + ttl_s)

    # -- what happens

    def take_orders(self, orders: dict[str, Any], now: float) -> bool:
        """Go by them unless they are older than what is known; only a higher ``seq`` renews the permit."""
        looked_at, self.looked_at = self.looked_at, now
        if (orders["seq"], orders["run_epoch"]) < (self.seq, self.orders["run_epoch"] if self.orders else 0):
            return False
        if orders["seq"] > self.seq:
            self.seq = orders["seq"]
            self.permit_until = self._end_of_permit(orders, looked_at, now)
        before = self.restore_name()
        if orders != self.orders:
            self._hear(orders, now)
        self.orders, self.has_heard = orders, True
        self.job = self.job or orders.get("job", "")
        if self.restore_name() != before:
            self.tries["restore"] = replace(self._tries("restore"), in_vain=0)
        if self.exit is not None and self._role() == "run" and self.exit.run_epoch < orders["run_epoch"]:
            self._start_over()
        if self.is_surplus():
            self._expire(now)
        return True

    def _hear(self, orders: dict[str, Any], now: float) -> None:
        """New orders came: what was spread over the permit happens as often as ordered again."""
        self.heard_at = now
        self.checkpoint_at = min(self.checkpoint_at, now + self._interval(orders))

    def give_up(self, instance: str, now: float) -> None:
        """The user has taken over the machine of that name. If it is this one, nothing of ours runs or is sent from now
        on, and no end of a permit destroys it."""
        if self.instance in ("", instance):
            self.life = self.life.move("give_up", now)
        if self.life.is_given_up:
            self.disk = move(DISK, self.disk, "renew")

    def begin_process(self, kind: str, now: float) -> None:
        self.process = Process(kind).move("start")
        self.claim = Claim(self.claim.progress, now)
        if kind == "run":
            self.exit, self.result = None, move(RESULT, self.result, "start")
            self.disk, self.run_since, self.has_failed_soon = move(DISK, self.disk, "start"), now, False
            self.epoch = self.orders["run_epoch"] if self.orders else self.epoch
            self.checkpoint_at = now + self._interval(self.orders)
            self.mark_taken = self.mark

    def take_progress(self, progress: Any, now: float) -> None:
        """What the job says of its progress now."""
        if progress != self.claim.progress:
            self.claim = Claim(progress, now)

    def take_sign_of_life(self, now: float) -> None:
        """Its GPUs work."""
        self.claim = Claim(self.claim.progress, now)

    def end_process(self, code: int, now: float, finished_at: str, has_saved: bool = False, reason: str = "") -> None:
        """``has_saved``: a run has made a checkpoint since it began. ``reason``: why it did not begin."""
        process, self.process = self.process, Process()
        if process.kind == "run":
            self.disk = move(DISK, self.disk, "end")
            self.tries.pop("checkpoint", None)  # the last one does not wait for what failed of those before
        elif code == 0:
            self.prepared |= {"setup"}
        was_stopped = process.is_ending and not process.has_hung
        if was_stopped or (process.kind == "setup" and code == 0):
            return
        if process.kind == "run":
            ended_by = reason or ("stalled" if process.has_hung else "exited")
            self._end_run(self.epoch, code, ended_by, finished_at, has_saved)
            is_soon = not reason and now - self.run_since < SOON_S and not has_saved
            self.has_failed_soon = bool(code and self.restore_name()) and is_soon
        elif self.orders and self._role() == "run":
            self._end_run(self.orders["run_epoch"], code, reason or "setup_failed", finished_at)
        else:
            self._fail("setup", now)

    def finish_task(self, task: str, ok: bool, now: float) -> None:
        about, upload = self.tasks.pop(task), self.upload
        if task == "checkpoint":
            self.upload = upload.move("end")
        if ok:
            self._succeed(task, about, now)
        elif task != "checkpoint" or upload.state != ABANDONED:
            self.mark_taken = upload.mark_before if task == "checkpoint" else self.mark_taken
            self._fail(task, now)
            if task in ("renew", "code", "inputs", "restore"):
                self._fail_in_vain(task)

    def quit(self, now: float, grace_s: float = 0.0) -> None:
        """The agent itself was told to end. ``grace_s``: what it has for that, where somebody says."""
        if self.life.state in (SERVING, EXPIRED):
            self.quit_s = max(grace_s, QUIT_S * self.second)
            self.tries = {}
        self.life = self.life.move("quit", now)

    def _expire(self, now: float) -> None:
        """What has failed before is tried again at once: there is no time to wait for it."""
        if self.life.state == SERVING:
            self.tries = {}
        self.life = self.life.move("expire", now)

    def take_notice(self, now: float) -> None:
        """The machine may be taken away soon, or not: the work is saved now and goes on."""
        self.checkpoint_at = min(self.checkpoint_at, now)
        self.is_noticed_late = "checkpoint" in self.tasks  # what is under way holds no more than was there before

    # -- what to do

    def decide(self, now: float) -> str | None:
        if now >= self.permit_until:
            self._expire(now)  # for good: a late renewal finds a machine on its way out
        if self.life.state == SERVING:
            return self._serve(now)
        if self.life.state == GIVEN_UP:
            return self._leave_alone(now)
        return self._go(now) if self.life.state == EXPIRED else self._quit(now)

    def state(self) -> str:
        """The word for the heartbeat, of ``AGENT_STATES``."""
        role, has_ended = self._role(), self.exit is not None
        if self.life.is_expired:
            return "expired"
        if self.life.is_given_up:
            return "left"
        if has_ended and not self.process.kind and not self.is_dirty:
            return "finished"
        if role == "save_and_stop" or (has_ended and self.is_dirty):
            return "saving"
        if role == "leave":
            return "left"
        if self.process.kind or not self._is_prepared():
            return "running" if self.process.kind == "run" else "setting_up"
        # Newer checkpoints come while it waits: with one of them here the rest of the newest is soon fetched.
        is_ready = self._is_restored() if role == "run" else self.prefetched or not self.restore_name()
        return "waiting" if is_ready else "restoring"

    @property
    def is_dirty(self) -> bool:
        """Whether the job has run since the last upload that was taken after its end."""
        return self.disk in (IN_USE, UNSAVED) and not self.is_of_other()

    def is_of_other(self) -> bool:
        """Whether the files on the disk are those of another task than the orders': nothing of them may be sent."""
        named = self.orders.get("job", "") if self.orders else ""
        return bool(named) and named != self.job

    def is_surplus(self) -> bool:
        """Whether the orders are for another machine: one create has made both, and this one is not needed."""
        return bool(self.instance and self.orders and self.orders["instance"] not in ("", self.instance))

    def is_saved(self) -> bool:
        """Ordered to save and stop, and nothing runs and nothing is left to upload."""
        return self._role() == "save_and_stop" and not self.process.kind and not self.is_dirty

    def restore_name(self) -> str:
        """What the orders want restored."""
        restore = self.orders["restore"] if self.orders else None
        return f"{restore['lease']}/{restore['n']}" if restore else ""

    def is_due(self, now: float) -> bool:
        """Whether the job should save: a checkpoint is due, or its process is about to end."""
        return self.process.kind == "run" and (now >= self.checkpoint_at or self.process.is_ending)

    def is_judged_by_gpus(self) -> bool:
        """Whether nothing else can tell if the job hangs: it is watched, and says nothing of its progress."""
        is_watched = bool(self.orders and self.orders["work"]["stall_s"]) and self.process.kind == "run"
        return is_watched and self.claim.progress in (None, (None, None))

    def has_stalled(self, now: float) -> bool:
        """Whether the job has given no sign of life for longer than its orders find bearable.

        New progress is one; of a job that says nothing of its progress, work of the GPUs.
        """
        bearable = self.orders["work"]["stall_s"] if self.orders else 0
        return bool(bearable) and self.process.kind == "run" and now >= self.claim.at + bearable

    def is_alone(self, now: float) -> bool:
        """Whether only the addresses at hand may be used: no newer orders come, or the end has come."""
        return self.life.state != SERVING or now >= self.heard_at + HEARD_S

    def may_exec(self, now: float) -> bool:
        """Whether commands of the user's may run here beside the job: for as long as it is to run here."""
        return self.life.state == SERVING and now < self.permit_until and self._role() == "run"

    # -- by the state of its life

    def _serve(self, now: float) -> str | None:
        role = self._role()
        if self.process.is_ending or (self.process.kind and role in ("save_and_stop", "leave")):
            return self._stop_process(now)
        if role == "run":
            return self._run(now)
        if role == "save_and_stop":
            return self._save_and_report(now)
        return self._wait(now) if role == "wait" else None

    def _go(self, now: float) -> str | None:
        """Its permit is over: save what may be saved, for a bounded time, then go.

        What could not be saved goes with it: a machine that is left stopped bills its disk until somebody looks.
        """
        bound = max(SAVE_BOUND_S, 5 * self.second)
        is_over, is_fenced = now >= self.life.since + bound, self._is_fenced()
        if self.process.kind and not is_over:
            return self._stop_process(now, bound / 2)
        if self.orders and (self.is_dirty or self._is_unreported()) and not is_fenced and not is_over:
            return self._save_and_report(now)
        return self._begin("destroy", now)

    def _leave_alone(self, now: float) -> str | None:
        """The machine is its user's. The agent stays, for its end may be the container's."""
        if self.upload.state == SENDING:
            self.upload = self.upload.move("abandon")
            return "abandon"
        return self._stop_process(now) if self.process.kind else None

    def _quit(self, now: float) -> str | None:
        is_over = now >= self.life.since + self.quit_s
        if self.process.kind and not is_over:
            return self._stop_process(now, self.quit_s / 2)
        if is_over or self._is_fenced() or not self.is_dirty:
            return "quit"
        return self._begin("checkpoint", now) if self.orders else None  # they say where to: they may still come

    # -- by its role

    def _role(self) -> str | None:
        if self.is_surplus():
            return "leave"
        return self.orders["role"] if self.orders else None

    def _is_fenced(self) -> bool:
        """Whether another machine does the work, or another work is to be done: this one must upload nothing."""
        return self._role() in ("wait", "leave") or self.is_of_other()

    def _run(self, now: float) -> str | None:
        assert self.orders is not None
        epoch = self.orders["run_epoch"]
        if self.process.kind == "run":
            return self._watch(epoch, now)
        if self.exit is not None and not self.process.kind and self.exit.run_epoch >= epoch:
            return self._save_and_report(now)
        if self.process.kind or not self._is_prepared():
            return self._prepare(now)
        return self._start("run", now) if self._is_restored() else self._begin("restore", now)

    def _watch(self, epoch: int, now: float) -> str | None:
        """The command runs: it goes on, saves, or is ended."""
        assert self.orders is not None
        if self.epoch != epoch:  # promoted again, perhaps after others ran: start over from the newest checkpoint
            return self._stop_process(now)
        if self.has_stalled(now) and self.orders["work"]["stall_fails"]:
            return self._stop_process(now, has_hung=True)
        waits = self.mark and self.mark == self.mark_taken  # its files are whole only when it says so
        return self._begin("checkpoint", now) if now >= self.checkpoint_at and not waits else None

    def _wait(self, now: float) -> str | None:
        if self.process.kind == "run":
            return self._stop_process(now)
        if self.process.kind or not self._is_prepared():
            return self._prepare(now)
        return self._begin("prefetch", now) if self.restore_name() != self.prefetched else None

    def _is_prepared(self) -> bool:
        if self.is_of_other():
            return False
        return all(step in self.prepared or not self._asks_for(step) for step in ("code", "inputs", "setup"))

    def _asks_for(self, step: str) -> bool:
        if not self.orders:
            return False
        if step == "inputs" and self.orders.get("left"):
            return True
        return bool(self.orders.get("code") if step == "code" else self.orders["work"].get(step))

    def _is_restored(self) -> bool:
        return self.disk in (RESTORED, IN_USE)

    def _prepare(self, now: float) -> str | None:
        """What ``setup`` and ``run`` need, then ``setup``."""
        if self.process.kind:
            return None
        if self.is_of_other():
            return self._begin("renew", now)
        for task in ("code", "inputs"):
            if self._asks_for(task) and task not in self.prepared:
                return self._begin(task, now)
        return self._start("setup", now)

    def _save_and_report(self, now: float) -> str | None:
        if self.is_dirty:
            return self._begin("checkpoint", now)
        if not self._is_unreported():
            return None
        keeps = self.orders["work"]["outputs"] if self.orders else ()
        if keeps and self.result == ENDED and self.exit is not None and self.exit.exit_code == 0:
            return self._begin("outputs", now)
        return self._begin("report", now)

    def _is_unreported(self) -> bool:
        return self.result in (ENDED, OUTPUTS_SENT)

    def _interval(self, orders: dict[str, Any] | None) -> float:
        return max(float(orders["checkpoint_interval_s"]) if orders else 0.0, 0.25 * self.second)

    def _until_next_save(self, now: float) -> float:
        interval = self._interval(self.orders)
        if not self.is_alone(now):
            return interval
        return space_saves(self.orders, self.next_number, interval, self.permit_until - now)

    # -- steps along the tables

    def _start(self, kind: str, now: float) -> str | None:
        return None if self.tasks or now < self._tries(kind).not_before else kind

    def _begin(self, task: str, now: float) -> str | None:
        is_outdated = self.upload.state == SENDING and not self.upload.is_final and not self.process.kind
        if task == "checkpoint" and is_outdated:
            self.upload = self.upload.move("abandon")
            return "abandon"
        is_blocked = task in self.tasks or (self.tasks and task not in GOODBYES)
        if is_blocked or now < self._tries(task).not_before:
            return None
        self.tasks[task] = str(self.orders["job"]) if task == "renew" and self.orders else self.restore_name()
        if task == "checkpoint":
            self._begin_upload(now)
        return task

    def _begin_upload(self, now: float) -> None:
        is_final = not self.process.kind
        kept = KEPT_FROM_A_SAVE if is_final else KEPT_FROM_A_RUN
        ended_well = is_final and self.exit is not None and self.exit.exit_code == 0
        self.upload = Upload(
            is_final=is_final,
            ended_well=ended_well,
            is_fresh=ended_well or not self.mark or self.mark != self.mark_taken,
            whole_at=0 if ended_well else self.mark,
            mark_before=self.mark_taken,
            is_alone=self.is_alone(now),
            kept=KEPT_FROM_THE_LAST if self.life.is_expired else kept,
        ).move("begin")
        self.mark_taken = self.mark

    def _stop_process(self, now: float, grace_s: float = TERM_GRACE_S, has_hung: bool = False) -> str | None:
        if self.process.state == RUNS:
            self.process = self.process.move("term", stop_since=now, has_hung=has_hung)
            return "term"
        if self.process.state == ENDING and now >= self.process.stop_since + max(grace_s, 2 * self.second):
            self.process = self.process.move("kill")
            return "kill"
        return None

    def _start_over(self) -> None:
        """Another run is ordered after an exit: what was prepared still is, and the files stay as they lie."""
        self.exit, self.result = None, move(RESULT, self.result, "start")
        if self.has_left_files and not (self.has_failed_soon or self.is_of_other()):
            self.disk = move(DISK, self.disk, "again")

    def _end_run(self, epoch: int, code: int, reason: str, finished_at: str, has_saved: bool = True) -> None:
        killer = -code if code < 0 else code - 128 if 128 < code <= 192 else None
        self.exit = Exit(epoch, code, killer, reason, finished_at, has_saved)
        self.has_left_files = reason in ("exited", "stalled")
        self.result = move(RESULT, self.result, "end")

    def _succeed(self, task: str, about: str, now: float) -> None:
        self.tries[task] = Tries(not_before=now + (REPEAT_S if task in GOODBYES else 0))
        if task in ("code", "inputs"):
            self.prepared |= {task}
        elif task == "renew":
            self._forget_task(about)
        elif task == "prefetch":
            self.prefetched = about
        elif task == "checkpoint":
            self.checkpoint_at = now if self.is_noticed_late else now + self._until_next_save(now)
            self.is_noticed_late = False
        event = "save" if task == "checkpoint" and self.upload.is_final else task
        self.disk = move(DISK, self.disk, event)
        self.result = move(RESULT, self.result, event)

    def _forget_task(self, job: str) -> None:
        """The disk is that of the task ``job`` now: of the one before nothing is left but what the setup made."""
        self.job, self.prepared, self.prefetched = job, self.prepared & {"setup"}, ""
        self.mark = self.mark_taken = 0
        self.upload, self.tries, self.has_left_files = Upload(), {}, False

    def _fail(self, what: str, now: float) -> None:
        tries = self._tries(what)
        # A machine that comes back after hours without a network bills until its own end is asked for again.
        most_s = REPEAT_S if what in GOODBYES else RETRY_MOST_S
        wait_s = max(min(RETRY_FIRST_S * 2 ** min(tries.failures, 10), most_s), 0.25 * self.second)
        self.tries[what] = replace(tries, failures=tries.failures + 1, not_before=now + wait_s)

    def _fail_in_vain(self, task: str) -> None:
        """A command that cannot be begun here has failed, once that was tried often enough."""
        in_vain = self._tries(task).in_vain + self.has_heard
        self.has_heard = False
        has_failed = in_vain >= PREPARE_TRIES and self._role() == "run"
        self.tries[task] = replace(self._tries(task), in_vain=0 if has_failed else in_vain)
        if has_failed and self.orders:
            self._end_run(self.orders["run_epoch"], 1, task + "_failed", "")

    def _tries(self, task: str) -> Tries:
        return self.tries.get(task, Tries())
