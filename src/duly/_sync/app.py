"""`duly.App`: jobs of one process on one database, and what can be asked of them.

It wires definitions, shells and evidence together. Decisions about an attempt are in
`_core/protocol.py`, about a prune in `_core/retention.py`.
"""

from __future__ import annotations

import atexit
import weakref
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import date, datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from duly._core import ops, retention
from duly._core.instants import as_utc, to_us
from duly._core.job import Job, define, find
from duly._core.occurrence import CORRECTION_MAX, Occurrence
from duly._core.policies import CatchUp, Retry
from duly._core.resolve import nominal_time
from duly._db.connect import Database
from duly._sync import prune, questions
from duly._sync.attempts import Attempts
from duly._sync.claim import seconds
from duly._sync.defining import defined, naming
from duly._sync.readiness import Readiness
from duly._sync.refusals import Result
from duly._sync.registry import Registry
from duly._sync.run import Run
from duly._sync.starting import UNSET, Starting, Wanted
from duly.errors import DulyError, KeyInvalid, UsageError

if TYPE_CHECKING:
    from sqlalchemy.engine import URL, Engine

    from duly._core.evidence import Explanation, History
    from duly._core.revision import Revision
    from duly._core.schedules import Schedule
    from duly._core.schedules.period import Period
    from duly._core.start import Start
    from duly._sync.shell import Probe

Handler = TypeVar("Handler", bound=Callable[..., Any])


class App:
    """The jobs of one process and the database that keeps them.

    Args:
        database: A URL or a SQLAlchemy Engine; the business database itself.
        schema: Of the ledger, where it is not the connection's default.
        allow_untested: Take a server that duly was never tested on.
        evidence_after: How long an attempt runs before it is marked as under way.
        started_by: Who starts attempts here, for people; the default names user and host.
        name: Of the App. With a name, a job that its code no longer defines is retired.

    Raises:
        UsageError: The URL cannot be read, or names what duly does not serve. The database
            is not touched before it is needed.
    """

    def __init__(
        self,
        database: str | URL | Engine,
        *,
        schema: str | None = None,
        allow_untested: bool = False,
        evidence_after: timedelta | float = 0.25,
        started_by: str | None = None,
        name: str = "",
    ) -> None:
        self.database = Database(database, schema=schema, untested=allow_untested)
        self.jobs: dict[str, Job] = {}
        self.name = name
        self._attempts = Attempts(
            self.database, evidence_after_s=seconds(evidence_after), started_by=started_by
        )
        self._registry = Registry(
            self.database, self.jobs, app=name, writer=self._attempts.started_by
        )
        self._starting = Starting(self.database, self._registry, self._attempts)
        self._readiness = Readiness(self.database)
        atexit.register(_close, weakref.ref(self))

    @property
    def started_by(self) -> str:
        """Who starts attempts here, for people."""
        return self._attempts.started_by

    @started_by.setter
    def started_by(self, who: str) -> None:
        self._attempts.started_by = who

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
                about to fall due; 1 s by default.

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

    def resolve(self, key: str, *, settle_as: str, reason: str, actor: str) -> Result | None:
        """Settle a torn occurrence, as a person who looked at the data.

        Args:
            key: Of the torn occurrence; with `corrected`, of any settled one.
            settle_as: `waived`: its effect is there, or not wanted. `corrected`: make it, as
                the correction with the next number; both commit together.
            reason: Why; not empty.
            actor: Who.

        Returns:
            The correction's result, or None for `waived`.

        Raises:
            UsageError: An empty reason, an unknown word, a key that is not settled.
            OperatorError: `waived` for an occurrence that is not torn.
        """
        occurrence = Occurrence.parse(key)
        order = ops.Order(_required(actor, "actor", 200), _required(reason, "reason", 2000))
        if settle_as not in {"waived", "corrected"}:
            raise UsageError(f"settle as 'waived' or 'corrected', not {settle_as!r}")
        self._readiness.ensure()
        if settle_as == "waived":
            questions.waive(self.database, occurrence, order)
            return None
        job = find({each.ledger_name: each for each in self.jobs.values()}, occurrence.job)
        if occurrence.correction == CORRECTION_MAX:
            raise KeyInvalid(f"{key} has no next correction")
        questions.require_settled(self.database, occurrence)
        return self._starting.correct(job, occurrence, order)

    def prune(
        self, *, older_than: timedelta | datetime, clock_is_right: bool = False
    ) -> list[retention.PrunedJob]:
        """Delete settled records at or below a nominal time; their keys stay refused.

        Args:
            older_than: An age by the database's clock, or an aware instant.
            clock_is_right: Nothing was recorded for a day, and that is as it should be.

        Raises:
            PruneRefused: It would pass the floor, or the clock is in doubt.
        """
        self._readiness.ensure(only_read=True)
        self.sweep()
        if isinstance(older_than, timedelta):
            if older_than <= timedelta(0):
                raise UsageError(f"older_than={older_than} is not an age: give more than zero")
            age = older_than // timedelta(microseconds=1)
            protocol = retention.prune(None, age_us=age, clock_is_right=clock_is_right)
        else:
            bound = to_us(as_utc(older_than, name="older_than"))
            protocol = retention.prune(bound, clock_is_right=clock_is_right)
        return prune.drive(self.database, self._attempts.evidence, protocol, self._probe)

    def sweep(self) -> int:
        """Record attempts whose process died as abandoned; returns how many there were."""
        from duly._sync.sweep import sweep

        self._readiness.ensure(only_read=True)
        return sweep(self.database, self._attempts.evidence)

    # Asking

    def history(self, job: str, *, limit: int = 50) -> History:
        """What happened to *job*, newest first; a job needs no definition here."""
        self.sweep()
        return questions.history(
            self.database, self._attempts.evidence, job, limit, known=self.jobs
        )

    def explain(self, key: str | Occurrence, *, limit: int = 50) -> Explanation:
        """All that is known of one key, with a verdict to quote."""
        occurrence = Occurrence.parse(key) if isinstance(key, str) else key
        self.sweep()
        return questions.explanation(self.database, self._attempts.evidence, occurrence, limit)

    def occurrence(
        self, job: str, at: Start | datetime | date | str | None = None, *, partition: str = ""
    ) -> Occurrence:
        """The occurrence that a start of *job* would mean; without `at`, the newest due."""
        found = find(self.jobs, job)
        self.database.require_file()  # its clock is all that is asked
        with naming(found.name):
            nominal = nominal_time(
                at,
                found.schedule,
                zone=found.zone,
                now=questions.now(self.database),
                off_schedule=True,
                early=True,
                tolerance=found.tolerance,
            )
        return Occurrence(found.name, nominal.time, partition)

    def close(self) -> None:
        """Let go of connections; an App may be used again afterwards."""
        self._attempts.markers.close()
        self.database.engine.dispose()

    # For tests

    @property
    def _probe(self) -> Probe | None:
        return self._attempts.probe

    @_probe.setter
    def _probe(self, probe: Probe | None) -> None:
        self._attempts.probe = probe


def _undecorated(run: Run) -> None:
    """Stands in for the handler until the decorator gets it."""


def _required(text: object, name: str, most: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"the {name} is required: say it in a few words")
    if len(text.strip()) > most:
        raise UsageError(f"the {name} has {len(text.strip())} characters, and at most {most} fit")
    return text.strip()


def _close(reference: weakref.ref[App]) -> None:
    app = reference()
    if app is not None:
        app._attempts.markers.close()  # noqa: SLF001 - of a class in this module


__all__ = ["App", "Result", "Run"]
