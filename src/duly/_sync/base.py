"""What every part of an App stands on: its database, its jobs, and the parts that do the work.

It wires; it decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._core.instants import from_us
from duly._db.connect import Database
from duly._db.line import Line
from duly._sync.attempts import Attempts
from duly._sync.claim import seconds
from duly._sync.manner import SYNCHRONOUS
from duly._sync.readiness import Readiness
from duly._sync.registry import Registry
from duly._sync.starting import Starting
from duly._sync.ticking import Ticking

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime, timedelta

    from sqlalchemy.engine import URL, Engine

    from duly._core.job import Job
    from duly._sync.manner import Manner
    from duly._sync.shell import Probe


class AppBase:
    """An App without its methods; `duly.App` says what it takes."""

    def __init__(
        self,
        database: str | URL | Engine | Database,
        *,
        schema: str | None = None,
        allow_untested: bool = False,
        evidence_after: timedelta | float = 0.25,
        started_by: str | None = None,
        name: str = "",
        listen: bool = False,
        manner: Manner = SYNCHRONOUS,
    ) -> None:
        if not isinstance(database, Database):
            database = Database(
                database, schema=schema, untested=allow_untested, is_async=manner.is_async
            )
        self.database = database
        if listen:
            database.line = Line(database)
        self.jobs: dict[str, Job] = {}
        self.consumers: dict[str, Callable[..., Any]] = {}
        self.name = name
        self._manner = manner
        self._attempts = Attempts(
            self.database,
            evidence_after_s=seconds(evidence_after),
            started_by=started_by,
            manner=manner,
        )
        self._registry = Registry(
            self.database, self.jobs, app=name, writer=self._attempts.started_by
        )
        self._starting = Starting(self.database, self._registry, self._attempts)
        self._ticking = Ticking(self.database, self.jobs, self._registry, self._attempts)
        self._readiness = Readiness(self.database)

    @property
    def started_by(self) -> str:
        """Who starts attempts here, for people."""
        return self._attempts.started_by

    @started_by.setter
    def started_by(self, who: str) -> None:
        self._attempts.started_by = who

    def _clock(self) -> datetime:
        """The database's clock."""
        return from_us(self.database.clock_us())

    def close(self) -> None:
        """Let go of connections; an App may be used again afterwards."""
        self._attempts.markers.close()
        for each in self._attempts.destinations.values():
            each.channel.close()
        if self.database.line is not None:
            self.database.line.close()
        self.database.engine.dispose()

    # For tests

    @property
    def _probe(self) -> Probe | None:
        return self._attempts.probe

    @_probe.setter
    def _probe(self, probe: Probe | None) -> None:
        self._attempts.probe = probe
