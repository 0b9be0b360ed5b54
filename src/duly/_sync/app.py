"""`duly.App`: jobs of one process on one database, and what can be done with them.

It wires definitions, starts and ticks together. Decisions about an attempt are in
`_core/protocol.py`, about a prune in `_core/retention.py`, about what is due in
`_core/catch_up.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from duly._core.instants import as_utc
from duly._core.job import define, find
from duly._core.policies import CatchUp, Retry
from duly._sync.claim import seconds
from duly._sync.consuming import Consuming
from duly._sync.defining import defined, naming
from duly._sync.delivering import Delivering
from duly._sync.refusals import Result
from duly._sync.run import Run
from duly._sync.starting import UNSET, Wanted

if TYPE_CHECKING:
    from datetime import date, datetime, timedelta

    from duly._core.revision import Revision
    from duly._core.schedules import Schedule
    from duly._core.schedules.period import Period
    from duly._core.start import Start
    from duly._db.waiting import Stop
    from duly._sync.ticking import Ran, TickReport
    from duly._sync.worker import Stopped
    from duly.errors import DulyError

Handler = TypeVar("Handler", bound=Callable[..., Any])


class App(Delivering, Consuming):
    """The jobs of one process and the database that keeps them.

    Args:
        database: A URL or a SQLAlchemy Engine; the business database itself.
        schema: Of the ledger, where it is not the connection's default.
        allow_untested: Take a server that duly was never tested on.
        evidence_after: How long an attempt runs before it is marked as under way.
        started_by: Who starts attempts here, for people; the default names user and host.
        name: Of the App. With a name, a job that its code no longer defines is retired.
        listen: On PostgreSQL: tell relays of other processes of the messages that attempts here
            commit, and let relays here listen for those of others.

    Raises:
        UsageError: The URL cannot be read, or names what duly does not serve, or cannot listen.
            The database is not touched before it is needed.
    """

    # Definitions

    def job(
        self,
        name: str,
        *,
        schedule: str | Schedule | None = None,
        timezone: str | None = None,
        period: Period | None = None,
        period_offset: int = 0,
        payload: Any = None,
        catch_up: CatchUp = "each",
        skip_after: timedelta | None = None,
        max_per_tick: int = 100,
        max_running: int = 1,
        in_order: bool = False,
        retry: Retry | None = None,
        deadline: timedelta | None = None,
        timeout: timedelta | None = None,
        starts: datetime | None = None,
        ends: datetime | None = None,
        formerly: str | Sequence[str] = (),
        partitions: Sequence[str] | str | None = None,
        jitter: timedelta | None = None,
        tolerance: timedelta | None = None,
    ) -> Callable[[Handler], Handler]:
        """Define a job; the decorated function stays a plain function.

        Args:
            name: `[a-z0-9][a-z0-9._-]{0,99}`; the job's identity.
            schedule: Cron text, a schedule such as `duly.Every(…)`, or None.
            timezone: A name of the IANA zone data, for cron text and for local dates; by
                default the schedule's own, or UTC.
            period: `hour`, `day`, `week`, `month`, `quarter` or `year`: the nominal time is the
                start of that period in the zone, whatever time of day the schedule starts it.
            period_offset: -1 if a start is for the period before the one it lies in.
            payload: JSON-ready; what an attempt gets unless another is given.
            catch_up: What ticks do with missed occurrences: `each`, `skip`, `reconcile` or
                `none`; see `duly._core.policies.Policies` for this and what follows.
            skip_after: With `skip`: how long ago an occurrence may have been due and be run.
            max_per_tick: How many occurrences one tick starts at most.
            max_running: How many different occurrences ticks run at once, on all hosts.
            in_order: Stop at the first that is not applied.
            retry: When a failed occurrence is tried again; by default after 30 s, then twice
                as long each time, at most an hour, without end.
            deadline: How long after its due time a missing occurrence is overdue.
            timeout: How long the handler may take.
            starts: Nothing due before is expected; by default, before the registration.
            ends: Nothing due from then on is expected.
            formerly: Names that the job had before, oldest first; their keys stay its keys.
            partitions: The names of the parts of each occurrence, or a query that gives them.
            jitter: A start that a starter makes waits up to this long, the same on every
                host; it never moves the nominal time.
            tolerance: How much too early a start may come and still mean the time that is
                about to fall due; 1 s by default, at most a minute.

        Raises:
            KeyInvalid, ScheduleInvalid, PayloadInvalid, HandlerInvalid, DuplicateJob
        """
        with naming(name):
            made = defined(
                name,
                _undecorated,
                schedule=schedule,
                timezone=timezone,
                period=period,
                period_offset=period_offset,
                payload=payload,
                policies={
                    "catch_up": catch_up,
                    "skip_after": skip_after,
                    "max_per_tick": max_per_tick,
                    "max_running": max_running,
                    "in_order": in_order,
                    "retry": retry or Retry(),
                    "deadline": deadline,
                    "timeout": timeout,
                    "starts": starts,
                    "ends": ends,
                },
                formerly=formerly,
                partitions=partitions,
                jitter=jitter,
                tolerance=tolerance,
            )

        def decorate(handler: Handler) -> Handler:
            job = replace(made, handler=handler)
            define(self.jobs, job)
            self.jobs[name] = job
            return handler

        return decorate

    # Acting

    def init(self) -> tuple[str | None, str | None]:
        """Create or upgrade duly's tables; a missing SQLite file is made.

        Returns:
            The schema version before and after; before is None where there was none.
        """
        from duly._db.migrate import migrate

        self.database.create_file()
        versions = migrate(self.database)
        self._readiness.ensure()
        return versions

    def register(self, *, adopt: bool = False) -> tuple[list[Revision], dict[str, DulyError]]:
        """Tell the ledger of every job that is defined here; `tick` does it too.

        Args:
            adopt: Make definitions that equal earlier revisions the new ones.

        Returns:
            The revisions that were written, and the jobs that may not run, with the reason.
        """
        self._readiness.ensure()
        return self._registry.register(adopt=adopt)

    def run(
        self,
        job: str,
        at: Start | datetime | date | str | None = None,
        *,
        partition: str = "",
        payload: Any = UNSET,
        wait: timedelta | float = 10.0,
        off_schedule: bool = False,
        early: bool = False,
    ) -> Result:
        """Start one occurrence.

        Args:
            job: The name of a defined job.
            at: An aware datetime, RFC 3339 text with an offset, or a local date with exactly
                one nominal time; what a starter says (`duly.triggers`), which is floored onto
                the nominal times; None for the newest due.
            partition: Free text, at most 200 code points.
            payload: Instead of the job's own.
            wait: How long to wait for a rival or a contended database, a timedelta or
                seconds. It does not bound the handler; a lock wait of one statement of the
                handler's ends after 10 s, and is then contention.
            off_schedule: *at* need not be one of the job's nominal times.
            early: *at* may lie in the future.

        Returns:
            `applied` or `duplicate`.

        Raises:
            PayloadConflict, AlreadySettled, Busy, Expired, TransactionEnded, NotDue,
            ConnectionLost, UsageError: By who must act.
            Exception: The handler's own, unchanged, after it was recorded as `failed`.
        """
        found = find(self.jobs, job)
        wanted = Wanted(at, partition, payload, seconds(wait), off_schedule, early)
        self._readiness.ensure()
        return self._starting.start(found, wanted)

    def tick(self, now: datetime | None = None) -> TickReport:
        """Run what is due and missing, once, by each job's policies.

        Any number of hosts may tick at once: the key decides, and a job's slots keep its
        occurrences from overlapping. A handler's exception is recorded and told in the report.

        Args:
            now: Instead of the database's clock: what is due by then.
        """
        self._readiness.ensure()
        return self._ticking.tick(None if now is None else as_utc(now, name="now"))

    def work(
        self,
        *,
        threads: int = 4,
        grace: timedelta | float = 30.0,
        poll: timedelta | float = 30.0,
        told: Callable[[Ran], object] | None = None,
        stop: Stop | None = None,
        signals: bool = True,
    ) -> Stopped:
        """Stay, and run what is due of every job, and send messages, until it is told to stop.

        It wakes within a second of each due time, asks the database nothing in between, and
        goes on after the database was away. In the main thread SIGTERM and Ctrl-C stop it.

        Args:
            threads: How many jobs run at once; 1 on SQLite, which has one writer.
            grace: How long a stop waits for what runs, a timedelta or seconds; then it is
                rolled back. A second signal does not wait.
            poll: How often the ledger is looked at although nothing is due: for jobs resumed,
                failures to try again, and what other hosts left. At least a second.
            told: Called with each occurrence that was started.
            stop: An event of threads or of asyncio; stops it too, when it is set. It is looked
                at each second.
            signals: False to leave SIGTERM and Ctrl-C to a program that handles them itself.

        Returns:
            How it ended. Where it is not clean, a handler did not come back, and the process
            should end: its thread still holds a connection.
        """
        from datetime import timedelta

        from duly._sync.worker import Worker

        bounds = {"grace": grace, "poll": poll}
        spans = {name: timedelta(seconds=seconds(given)) for name, given in bounds.items()}
        worker = Worker(self, threads=threads, told=told, **spans)
        with self._relaying():
            return worker.work(stop, signals=signals)


def _undecorated(run: Run) -> None:
    """Stands in for the handler until the decorator gets it."""


__all__ = ["App", "Result", "Run"]
