"""Making attempts for an App: one request becomes one result, or one error by who must act.

Decides nothing about an attempt (`_core/protocol.py` does); it drives the shell and words the
end.
"""

from __future__ import annotations

import atexit
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from duly._core.instants import from_us
from duly._core.protocol import attempt
from duly._core.states import Outcome
from duly._sync.deadline import Calls
from duly._sync.deciding import ACTOR_MAX, said_of
from duly._sync.evidence import Evidence
from duly._sync.lending import lending_engine, watch_errors
from duly._sync.manner import SYNCHRONOUS, Manner
from duly._sync.markers import Markers
from duly._sync.process import host_name, user_name
from duly._sync.refusals import NoSlot, Result, loaded, refusal
from duly._sync.shell import Probe, Shell
from duly._sync.work import Work

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from duly._core import ops
    from duly._core.destination import Destination
    from duly._core.job import Job
    from duly._core.payload import Payload
    from duly._core.resolve import Nominal
    from duly._core.schedules import Schedule
    from duly._db.connect import Database


class Attempts:
    """Makes attempts on one database.

    Attributes:
        evidence: Where what is not part of an effect is kept.
        markers: Of the attempts under way.
        calls: The handlers at work.
        probe: Looks at each op; for tests.
        destinations: Where handlers may send messages.
    """

    def __init__(
        self,
        database: Database,
        *,
        evidence_after_s: float,
        started_by: str | None,
        manner: Manner = SYNCHRONOUS,
    ) -> None:
        default = f"python:{user_name()}@{host_name()}"[:ACTOR_MAX]
        self.started_by = default if started_by is None else started_by
        self.evidence = Evidence(database)
        self.markers = Markers(self.evidence.store(), evidence_after_s)
        self.calls = Calls()
        self.probe: Probe | None = None
        self.destinations: dict[str, Destination] = {}
        self._database = database
        self._manner = manner
        self._lending = lending_engine(database.engine)
        watch_errors(database.engine)
        atexit.register(_close, weakref.ref(self.markers))

    @property
    def started_by(self) -> str:
        """Who starts them, for people.

        Raises:
            UsageError: Set to what is no line for the record.
        """
        return self._started_by

    @started_by.setter
    def started_by(self, who: str) -> None:
        self._started_by = said_of("started_by", who, ACTOR_MAX)

    def make(
        self,
        job: Job,
        request: ops.Request,
        payload: Payload,
        nominal: Nominal,
        *,
        schedule: Schedule | None,
        wait_s: float,
    ) -> Result:
        """Drive one attempt to its end.

        Raises:
            DulyError: The key is held, the database was contended, …
            NoSlot: As many occurrences of the job as may run at once are running.
            Exception: The handler's own.
        """
        work = Work(
            request,
            payload,
            job.handler,
            schedule,
            job.zone,
            nominal.source,
            self.started_by,
            job.policies.retry.on,
            job.policies.timeout,
            run_class=self._manner.run,
            destinations=self.destinations,
        )
        shell = self.shell(work, wait_s=wait_s)
        # A command brings a protocol of its own: its work is outside the transaction.
        protocol = getattr(job.handler, "duly_protocol", attempt)
        report = shell.drive(protocol(request))
        self._database.attempt_ended(applied=report.outcome is Outcome.APPLIED)
        return ended(work, shell, report, due_at=nominal.due_at)

    def shell(self, work: Work, *, wait_s: float, kind: Callable[..., Shell] = Shell) -> Shell:
        """What performs the ops of one attempt at *work*."""
        return kind(
            self._database,
            self._lending,
            work,
            wait_s=wait_s,
            evidence=self.evidence,
            markers=self.markers,
            calls=self.calls,
            manner=self._manner,
            probe=self.probe,
        )


def ended(work: Work, shell: Shell, report: ops.Report, *, due_at: datetime) -> Result:
    """The result of an attempt that has come to its end.

    Raises:
        DulyError, NoSlot, Exception: As `Attempts.make`.
    """
    request, key = work.request, work.request.occurrence.key
    if report.no_slot:
        raise NoSlot(key)
    if report.interrupted is not None:
        how = report.outcome or "not known: run it again, the key decides"
        report.interrupted.add_note(f"{key}: the commit was under way and is settled: {how}")
        raise report.interrupted
    times: dict[str, Any] = {
        "duration": timedelta(seconds=shell.account.duration_s),
        "source": work.source,
        "late": from_us(shell.account.started_us) - due_at,
    }
    if report.outcome is Outcome.APPLIED:
        return Result(report.outcome, key, request.attempt_id, loaded(shell.value), **times)
    standing = report.standing
    if report.outcome is Outcome.DUPLICATE and standing and standing.attempt_id:
        value = loaded(standing.result)
        return Result(report.outcome, key, standing.attempt_id, value, **times)
    if report.outcome is Outcome.FAILED and not report.unreachable:
        assert report.error is not None
        raise report.error
    raise refusal(request, report, shell.holders) from report.error


def _close(reference: weakref.ref[Markers]) -> None:
    markers = reference()
    if markers is not None:
        markers.close()
