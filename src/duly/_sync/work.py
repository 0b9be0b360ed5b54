"""What one attempt is to do, and what is written of it.

It words rows; it decides nothing, and it keeps secrets and unstorable text out of them.
"""

from __future__ import annotations

import os
import re
import time
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from duly._core import wording
from duly._core.commands import holder
from duly._core.instants import NEVER_US, format_instant, from_us
from duly._core.ops import Hold, Release, Resume
from duly._core.payload import stored
from duly._core.redact import redact
from duly._core.states import ErrorOrigin, Outcome
from duly._db.sessions.base import Session, host_clock_us, key_params
from duly._sync.markers import Marker
from duly._sync.process import host_name, process_identity
from duly._sync.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from datetime import timedelta

    from duly._core import ops
    from duly._core.destination import Destination
    from duly._core.occurrence import Occurrence
    from duly._core.payload import Payload
    from duly._core.schedules import Schedule

TRACEBACK_MAX = 8_000
MESSAGE_MAX = 2_000
_SQLALCHEMY_HINT = re.compile(r"\n?\(Background on this error at: [^)]*\)")


@dataclass(frozen=True, slots=True)
class Work:
    """What one attempt is to do, and for whom."""

    request: ops.Request
    payload: Payload
    handler: Callable[[Run], Any]
    schedule: Schedule | None
    zone: Any
    source: str
    started_by: str
    retry_on: tuple[type[BaseException], ...] = (Exception,)
    timeout: timedelta | None = None
    run_class: type[Run] = Run
    destinations: Mapping[str, Destination] | None = None

    @property
    def occurrence(self) -> Occurrence:
        """The occurrence of the request."""
        return self.request.occurrence


class Account:
    """The times and rows of one attempt, in microseconds of the database's clock."""

    def __init__(self, work: Work, secrets: Iterable[str], pid: int) -> None:
        self._work = work
        self._secrets = tuple(secrets)
        self._pid = pid
        self._began = time.monotonic()
        self._started_us: int | None = None
        self._claim: dict[str, Any] | None = None
        self._held = ""

    @property
    def duration_s(self) -> float:
        """Seconds since the attempt began."""
        return time.monotonic() - self._began

    @property
    def started_us(self) -> int:
        """When the attempt began; by this host's clock until the database's is learnt."""
        if self._started_us is None:
            return host_clock_us() - int(self.duration_s * 1e6)
        return self._started_us

    def learn_clock(self, clock_us: int) -> None:
        """The database's clock, which a claim brought along; no statement is spent on it."""
        self._started_us = clock_us - int(self.duration_s * 1e6)

    def claim(self, session: Session) -> dict[str, Any]:
        """Binds of the claim, and of whatever asks for the row it made."""
        if self._claim is None:
            request = self._work.request
            self._claim = {
                **key_params(request.occurrence),
                "fingerprint": stored(request.fingerprint),
                "attempt_id": session.encode_id(request.attempt_id),
            }
        return self._claim

    def finished(self, session: Session) -> dict[str, Any]:
        """Binds of a finished attempt's row."""
        self._learn(session)
        started_us = self._started_us or 0
        return {
            **self.claim(session),
            "started_by": self._work.started_by[:200],
            "source": self._work.source[:40],
            "host": host_name(),
            "pid": self._pid,
            "started_us": started_us,
            "finished_us": started_us + int(self.duration_s * 1e6),
        }

    def _learn(self, session: Session) -> None:
        if self._started_us is None:
            self.learn_clock(session.clock_us())

    def keep(self, session: Session, op: Hold | Resume | Release) -> bool:
        """Write what a command's start, its completion or its failure means for the key."""
        mine = self.claim(session)
        if isinstance(op, Hold):
            self._learn(session)
            at = format_instant(from_us(self.started_us))
            self._held = (
                f"held: the command was started at {at} on host {host_name()} by duly's process"
                f" {os.getpid()} ({holder(self._work.request.attempt_id)}), and is not completed"
            )
            session.change("hold", {**mine, "reason": self._held})
            return True
        held = {**mine, "reason": self._held}
        if not session.change("resume_held" if isinstance(op, Resume) else "release_held", held):
            return False
        if isinstance(op, Release):
            # A tick may have passed by what was held, and may be about to say so.
            nominal_us = self._work.occurrence.nominal_us
            job = self._work.occurrence.job
            session.change("reopen", {"job": job, "nominal_us": nominal_us, "never_us": NEVER_US})
            row = self.ended(session, Outcome.FAILED, op.error, op.origin)
            session.change("record_attempt", row)
        return True

    def ended(
        self,
        session: Session,
        outcome: Outcome,
        error: BaseException | None,
        origin: ErrorOrigin | None,
    ) -> dict[str, Any]:
        """Binds of the row of an attempt that was not applied."""
        said = trace = kind = None
        if error is not None:
            kind = type(error).__qualname__[:200]
            # Cut with a margin first, so that a secret is either whole or gone.
            said = self._clean(wording.said(error)[: 2 * MESSAGE_MAX])[:MESSAGE_MAX]
            # The end names the error; a bound may cost the middle.
            lines = "".join(traceback.format_exception(error))[-2 * TRACEBACK_MAX :]
            trace = self._clean(lines)[-TRACEBACK_MAX:]
        return {
            **self.finished(session),
            "outcome": outcome.value,
            "error_origin": origin.value if origin else None,
            "error_type": kind,
            "error_message": said,
            "error_traceback": trace,
            "final": self._is_final(error, origin),
        }

    def _is_final(self, error: BaseException | None, origin: ErrorOrigin | None) -> bool | None:
        """Whether the job's `retry=` says that this error is not worth another attempt."""
        if origin is not ErrorOrigin.HANDLER or error is None:
            return None
        return None if isinstance(error, self._work.retry_on) else True

    def marker(self) -> Marker:
        """The attempt as it is marked while under way."""
        occurrence = self._work.occurrence
        return Marker(
            attempt_id=self._work.request.attempt_id,
            job=occurrence.job,
            nominal_us=occurrence.nominal_us,
            partition_key=occurrence.partition,
            correction=occurrence.correction,
            started_by=self._work.started_by[:200],
            host=host_name(),
            process=process_identity()[:200],
            pid=self._pid,
            started_us=self.started_us,
        )

    def _clean(self, text: str) -> str:
        """Without secrets, and without what a text column cannot hold."""
        plain = text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
        return redact(_SQLALCHEMY_HINT.sub("", plain), self._secrets)
