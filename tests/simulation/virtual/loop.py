"""An event loop in virtual time: no threads, no sockets, no waiting; rng alone decides who runs first.

What is ready at one moment runs in an order drawn from the seed, and when nothing is, time jumps to the next
timer. Work belongs to a ``Process`` by its context: a killed process never runs again, a frozen one runs on later.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import heapq
import itertools
import random
from asyncio import events
from collections.abc import Callable, Coroutine, Generator
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

_PROCESS: contextvars.ContextVar[Process | None] = contextvars.ContextVar("process", default=None)


class Process:
    """What dies together: everything that was begun from within it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.is_frozen = False
        self.steps = 0
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self.held: list[asyncio.Handle] = []
        self.context = contextvars.copy_context()
        self.context.run(_PROCESS.set, self)


class Deadlock(RuntimeError):
    """Nothing is ready and no timer is set."""


class VirtualLoop(asyncio.AbstractEventLoop):
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._now_s = 0.0
        self._ready: list[tuple[asyncio.Handle, Process | None]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle, Process | None]] = []
        self._order = itertools.count()
        self._is_closed = False
        self._offloaded: list[asyncio.Future[Any]] = []
        """Kept, so that what waits for one that never comes is not collected as forgotten."""
        self.outside = contextvars.copy_context()
        """For callbacks that belong to no process."""
        self.on_step: Callable[[Process], None] | None = None
        """Called after each step of a process."""
        self.on_error: Callable[[dict[str, Any]], None] | None = None
        self.is_offloaded_done: Callable[[], bool] = lambda: True
        """Whether the work that is being sent to a thread ever comes back."""

    # --- time and what is to run

    def time(self) -> float:
        return self._now_s

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        context = contextvars.copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, context.get(_PROCESS)))
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now_s + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        context = contextvars.copy_context() if context is None else context
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        heapq.heappush(self._timers, (when, next(self._order), timer, context.get(_PROCESS)))
        return timer

    def after(self, delay_s: float, act: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
        """Something that happens in the world, even if processes die meanwhile."""
        return self.call_at(self._now_s + delay_s, act, *args, context=self.outside)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Cancelled timers are passed over when their time comes."""

    # --- futures, tasks, processes

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Coroutine[Any, Any, T] | Generator[Any, None, T],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[T]:
        process = (contextvars.copy_context() if context is None else context).get(_PROCESS)
        task: asyncio.Task[T] = asyncio.Task(coro, loop=self, name=name, context=context)
        if process is not None:
            process.tasks[task] = None
            task.add_done_callback(lambda done: process.tasks.pop(done, None), context=self.outside)
        return task

    def start(self, process: Process, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        return self.create_task(main, context=process.context, name=process.name)

    def kill(self, process: Process) -> None:
        """As SIGKILL: none of its code runs on, nothing that it had in mind remains."""
        process.is_alive = False
        tasks, process.tasks = list(process.tasks), {}
        process.held.clear()
        for task in tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            coroutine = task.get_coro()
            assert coroutine is not None, "tasks are made of coroutines"
            # Its frames end here and not when the garbage collector finds them: replays must not depend on that.
            process.context.copy().run(_closed, coroutine)

    def freeze(self, process: Process) -> None:
        """As SIGSTOP."""
        process.is_frozen = True

    def thaw(self, process: Process) -> None:
        process.is_frozen = False
        if process.is_alive:
            self._ready += [(handle, process) for handle in process.held]
        process.held.clear()

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., T], *args: Any
    ) -> asyncio.Future[T]:
        """Done here and now, or never: some threads take longer than anybody waits."""
        future: asyncio.Future[T] = self.create_future()
        self._offloaded.append(future)
        if self.is_offloaded_done():
            try:
                future.set_result(func(*args))
            except Exception as problem:
                future.set_exception(problem)
        return future

    # --- running

    def run_until_complete(self, future: Any) -> Any:
        main = asyncio.ensure_future(future, loop=self)
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not main.done():
                self._run_once()
        finally:
            events._set_running_loop(before)
        return main.result()

    def _run_once(self) -> None:
        if not self._ready:
            self._pass_time()
        batch, self._ready = self._ready, []
        if len(batch) > 1:
            self._rng.shuffle(batch)
        for handle, process in batch:
            if handle._cancelled:
                continue
            if process is None:
                handle._run()
            elif process.is_frozen:
                process.held.append(handle)
            elif process.is_alive:
                process.steps += 1
                handle._run()
                if self.on_step is not None:
                    self.on_step(process)

    def _pass_time(self) -> None:
        while self._timers and self._timers[0][2]._cancelled:
            heapq.heappop(self._timers)
        if not self._timers:
            raise Deadlock(f"nothing is left to happen at {self._now_s} s")
        self._now_s = max(self._now_s, self._timers[0][0])
        while self._timers and self._timers[0][0] <= self._now_s:
            _, _, timer, process = heapq.heappop(self._timers)
            self._ready.append((timer, process))

    # --- the rest of what asyncio asks of a loop

    def is_running(self) -> bool:
        return not self._is_closed

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        self._is_closed = True
        self._ready.clear()
        self._timers.clear()

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.on_error is not None:
            self.on_error(context)

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)


def _closed(coroutine: Any) -> None:
    with contextlib.suppress(RuntimeError):  # it waits for something even on its way out, and will not be woken
        coroutine.close()
