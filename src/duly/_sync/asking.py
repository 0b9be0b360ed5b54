"""What can be asked of an App: histories, explanations, the occurrence that a start means.

It decides nothing about an occurrence, and never makes tables.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._core.job import find
from duly._core.occurrence import Occurrence
from duly._core.resolve import nominal_time
from duly._sync import questions
from duly._sync.base import AppBase
from duly._sync.defining import naming

if TYPE_CHECKING:
    from datetime import date, datetime

    from duly._core.evidence import Explanation, History
    from duly._core.start import Start


class Asking(AppBase):
    """The questions."""

    def sweep(self) -> int:
        """Record attempts whose process died as abandoned; returns how many there were."""
        from duly._sync.sweep import sweep

        self._readiness.ensure(only_read=True)
        return sweep(self.database, self._attempts.evidence)

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
        return Occurrence(found.ledger_name, nominal.time, partition)
