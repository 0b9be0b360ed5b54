"""What a person does to occurrences and jobs, with a reason: settle, correct, prune.

It decides nothing about an effect: the key does.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from duly._core import ops, retention
from duly._core.instants import as_utc, to_us
from duly._core.job import find
from duly._core.occurrence import CORRECTION_MAX, Occurrence
from duly._sync import prune, questions
from duly._sync.asking import Asking
from duly.errors import KeyInvalid, UsageError

if TYPE_CHECKING:
    from datetime import datetime

    from duly._sync.refusals import Result


class Overriding(Asking):
    """The overrides."""

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


def _required(text: object, name: str, most: int) -> str:
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"the {name} is required: say it in a few words")
    if len(text.strip()) > most:
        raise UsageError(f"the {name} has {len(text.strip())} characters, and at most {most} fit")
    return text.strip()
