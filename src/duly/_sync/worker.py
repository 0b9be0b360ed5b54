"""A worker: it stays, looks at each job when something of it is due, and runs that beside itself.

Decides only when to look (by `_core/wakeup.py`) and when to stop. What is run is the tick's plan,
and the key decides between workers; a database that is away for a while never ends it.
"""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from queue import Empty
from typing import TYPE_CHECKING, Any, Final

from duly._core.wakeup import DatabaseClock, Look, Steps, look_again, sleep_s
from duly._db.waiting import Queue, begin
from duly._sync import warned
from duly._sync.deadline import WorkerStopped
from duly._sync.looking import Worked, hard_end, look_of, next_due, require_connections
from duly._sync.ticking import Ran, Ticking
from duly.errors import TransientError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from duly._core.job import Job
    from duly._db.waiting import Stop
    from duly._sync.base import AppBase
    from duly._sync.registry import Known

log = logging.getLogger("duly.worker")

Told = Callable[[Ran], object]


LONGEST_BACKOFF_S: Final = 10.0
FIRST_BACKOFF_S: Final = 0.5
INTERRUPT_S: Final = 3.0
"""How long handlers that were ended may take to come back."""
END_S: Final = 1.0
"""How long a look at the database that is under way may hold up the end."""
THREADS_MAX: Final = 64
_STOPS: Final = ("SIGINT", "SIGTERM", "SIGHUP")


@dataclass(frozen=True, slots=True)
class Stopped:
    """How a worker ended.

    Attributes:
        signal: The number of the signal that stopped it; None if it was not one.
        rolled_back: The keys whose handlers had not come back when its grace was over.
        is_clean: Every thread has come back; else the process should end at once.
    """

    signal: int | None
    rolled_back: tuple[str, ...] = ()
    is_clean: bool = True


@dataclass(slots=True)
class _State:
    """What the worker knows of one job."""

    wake_at: datetime | None = None
    at_work: bool = False
    stuck: int = 0

    def is_due(self, now: datetime) -> bool:
        """Whether the job is to be looked at, and nobody does."""
        return not self.at_work and self.wake_at is not None and self.wake_at <= now


@dataclass(frozen=True, slots=True)
class _Checked:
    """What a look at all jobs found.

    Attributes:
        asked: The names of those that were looked at; None for all.
        read_s: The monotonic clock, just before the database's was read.
        error: It could not look.
    """

    asked: set[str] | None
    read_s: float = 0.0
    at: datetime | None = None
    due: list[tuple[Job, Known]] = field(default_factory=list)
    error: BaseException | None = None


class _Ticking(Ticking):
    """Ticks that tell each occurrence at once, and start none after the stop."""

    stopping = False
    told: Callable[[Ran], object]

    def _start(self, *args: Any, **named: Any) -> Ran | None:
        if self.stopping:
            return None
        ran = super()._start(*args, **named)
        if ran is not None:
            self.told(ran)
        return ran


class Worker:
    """One worker of this process.

    Args:
        threads: How many jobs run at once, in threads or in tasks.
        grace: How long a stop waits for what runs.
        poll: How often the ledger is looked at although nothing is due.
        told: Called where `work` was called for each occurrence that was started.
    """

    def __init__(
        self, app: AppBase, *, threads: int, grace: timedelta, poll: timedelta, told: Told | None
    ) -> None:
        if not 1 <= threads <= THREADS_MAX:
            raise UsageError(f"threads={threads!r} is not allowed: give 1 to {THREADS_MAX}")
        if poll < timedelta(seconds=1):
            raise UsageError("poll= must be a second at least: due times do not wait for it")
        if not any(job.schedule for job in app.jobs.values()):
            raise UsageError(
                "no job of this App has a schedule, so a worker would wait for ever: give one"
                " schedule=, or start jobs by name with `duly run`"
            )
        require_connections(app, threads)
        self._app = app
        # SQLite has one writer: a second thread could only wait for the first one's handler.
        self._threads = threads if app.database.path is None else 1
        self._grace_s = max(0.0, grace.total_seconds())
        self._poll = poll
        self._told = told
        attempts, registry = app._attempts, app._registry  # noqa: SLF001 - a part of the App
        self._registry = registry
        self._calls = attempts.calls
        self._ticking = _Ticking(app.database, app.jobs, registry, attempts)
        self._events: Queue[Any] = Queue()
        self._tasks: Queue[Callable[[], None] | None] = Queue()
        self._checks: Queue[Callable[[], None] | None] = Queue()
        self._ticking.told = self._events.put
        self._states = {name: _State() for name, job in app.jobs.items() if job.schedule}
        self._signals: list[int] = []
        self._clock, self._steps = DatabaseClock(), Steps()
        self._is_checking = False
        self._check_at_s = 0.0
        self._failures = 0
        self._refused: dict[str, str] = {}
        self._behind: list[str] = []
        self._is_started = False

    def work(self, stop: Stop | None = None, *, signals: bool = True) -> Stopped:
        """Work until *stop*, or, if *signals* are heard, SIGTERM or Ctrl-C.

        Raises:
            DulyError: The first look at the database found what trying again does not change.
            BaseException: What *told* raised, or a cancellation; what ran has ended.
        """
        queues = (*[self._tasks] * self._threads, self._checks)
        strands = [begin(_serve, tasks, name="duly-worker") for tasks in queues]
        with self._listening(signals=signals):
            try:
                try:
                    while not self._signals and not (stop is not None and stop.is_set()):
                        self._look()
                        self._next_event()
                except BaseException as error:
                    self._abandon(error)
                    raise
                return self._stop()
            finally:
                self._ticking.stopping = True
                for tasks in queues:
                    tasks.put(None)
                until = time.monotonic() + (0.0 if self._at_work() else END_S)
                for strand in strands:
                    strand.join(max(0.0, until - time.monotonic()))

    def _abandon(self, error: BaseException) -> None:
        """What runs is not left to itself: nobody would end it, or tell of it."""
        self._told = None
        if not isinstance(error, Exception):  # a cancellation does not wait
            self._grace_s = 0.0
        self._stop()

    # Looking

    def _look(self) -> None:
        """Ask for a check, if one is due."""
        monotonic_s = time.monotonic()
        if self._steps.stepped(time.time(), monotonic_s):
            log.info("clock_stepped")
            self._check_at_s = monotonic_s
        if self._is_checking:
            return
        everything = monotonic_s >= self._check_at_s
        now = self._clock.now(monotonic_s)
        asked = set[str]()
        if now is not None and self._failures == 0:
            asked = {name for name, state in self._states.items() if state.is_due(now)}
        if everything or asked:
            self._is_checking = True
            if everything:
                self._check_at_s = monotonic_s + self._poll.total_seconds()
            self._checks.put(lambda: self._check(None if everything else asked))

    def _check(self, asked: set[str] | None) -> None:
        """Beside the worker: ask the ledger."""
        try:
            if asked is None:
                self._app._readiness.ensure()  # noqa: SLF001 - a part of the App
            _, refused = self._registry.register()
            said = {name: str(error) for name, error in refused.items()}
            for name in said.keys() - {
                n for n, text in self._refused.items() if said.get(n) == text
            }:
                log.warning("job_refused", extra={"job": name, "error": said[name]})
            self._refused = said
            read_s = time.monotonic()
            at, due = self._ticking.due(None, refused, asked)
            if asked is None:
                self._say_behind(at)
            self._events.put(_Checked(asked, read_s, at, due))
        except BaseException as error:
            self._events.put(_Checked(asked, error=error))

    def _say_behind(self, at: datetime) -> None:
        """Tell once of a clock that went back, or was ahead once."""
        behind = self._ticking.clock_behind(at)
        for name in sorted(set(behind) - set(self._behind)):
            log.warning("clock_behind", extra=warned.clock_behind(name, at))
        self._behind = behind

    def _next_event(self) -> None:
        now = self._clock.now(time.monotonic())
        seconds = 1.0
        if now is not None and not self._is_checking and self._failures == 0:
            seconds = sleep_s(now, [s.wake_at for s in self._states.values() if not s.at_work])
        try:
            event = self._events.get(timeout=max(0.001, seconds))
        except Empty:
            return
        self._take(event)

    def _take(self, event: Any) -> None:
        match event:
            case Ran():
                if self._told is not None:
                    self._told(event)
            case _Checked():
                self._is_checking = False
                self._checked(event)
            case Worked():
                self._worked(event)
            case _:
                pass  # a signal; it only wakes

    def _checked(self, found: _Checked) -> None:
        if found.at is None:
            assert found.error is not None
            self._away(found.error)
            return
        if self._failures:
            log.warning("database_back", extra={"error": "the ledger answers again"})
        self._failures, self._is_started = 0, True
        self._clock.learn(found.at, found.read_s)
        due = {job.name: known for job, known in found.due}
        for name, state in self._states.items():
            if state.at_work or not (found.asked is None or name in found.asked):
                continue
            job = self._app.jobs[name]
            state.wake_at = look_again(Look(found.at, next_due(job, found.at)), self._poll)
            if name in due and not self._ticking.stopping:
                state.at_work = True
                self._tasks.put(self._task(job, due[name], found.at))

    def _away(self, error: BaseException) -> None:
        """The ledger cannot be asked: wait a little, ever longer, and ask again."""
        if not self._is_started and not isinstance(error, TransientError):
            raise error
        if self._failures == 0:
            log.warning("database_away", extra={"error": str(error)})
        delay_s = min(FIRST_BACKOFF_S * 2.0 ** min(self._failures, 10), LONGEST_BACKOFF_S)
        self._failures += 1
        self._check_at_s = time.monotonic() + delay_s

    # Working

    def _task(self, job: Job, known: Known, at: datetime) -> Callable[[], None]:
        def work() -> None:
            try:
                done = self._ticking.job(job, known, at)
            except BaseException as error:
                self._events.put(Worked(job, at, None, error))
            else:
                self._events.put(Worked(job, at, done))

        return work

    def _worked(self, found: Worked) -> None:
        state = self._states[found.job.name]
        state.at_work = False
        look = look_of(found, next_due(found.job, found.at), state.stuck)
        state.stuck = look.stuck
        state.wake_at = look_again(look, self._poll)
        if found.error is not None and not isinstance(found.error, WorkerStopped):
            log.warning("tick_failed", extra={"job": found.job.name, "error": str(found.error)})

    # Stopping

    def _stop(self) -> Stopped:
        """Start nothing new, wait for what runs, then end it."""
        self._ticking.stopping = True
        until = time.monotonic() + self._grace_s
        while self._at_work() and len(self._signals) < 2:
            left_s = until - time.monotonic()
            if left_s <= 0:
                break
            self._wait(left_s)
        number = self._signals[0] if self._signals else None
        if not self._at_work():
            self._drain()
            return Stopped(number)
        with hard_end(number):
            why = WorkerStopped(number or signal.SIGTERM)
            ended = self._calls.end_all(why, within_s=INTERRUPT_S)
            until = time.monotonic() + INTERRUPT_S
            while self._at_work() and (left_s := until - time.monotonic()) > 0:
                self._wait(left_s)
            self._drain()
        keys = tuple(sorted(call.key for call in ended))
        return Stopped(number, keys, is_clean=not self._at_work())

    def _at_work(self) -> bool:
        return any(state.at_work for state in self._states.values())

    def _wait(self, seconds: float) -> None:
        try:
            self._take(self._events.get(timeout=min(1.0, seconds)))
        except Empty:
            return

    def _drain(self) -> None:
        """Tell what was done up to the end."""
        while not self._events.empty():
            self._take(self._events.get())

    @contextmanager
    def _listening(self, *, signals: bool) -> Iterator[None]:
        """In the main thread: a signal stops the worker; one that was ignored stays so."""
        previous: dict[int, Any] = {}
        if signals and threading.current_thread() is threading.main_thread():
            for name in _STOPS:
                number = getattr(signal, name)
                if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                    previous[number] = signal.signal(number, self._arrived)
        try:
            yield
        finally:
            for number, action in previous.items():
                signal.signal(number, action)

    def _arrived(self, number: int, _frame: Any) -> None:
        # Neither a lock nor a line: the main thread may be in the middle of either.
        self._signals.append(number)
        if len(self._signals) > 2:
            os._exit(128 + number)
        self._events.put(None)


def _serve(tasks: Queue[Callable[[], None] | None]) -> None:
    while (task := tasks.get()) is not None:
        task()
