"""`duly.App` on one of Django's databases.

Decides when Django's settings are looked at: at the first use, not where jobs are defined, so
that a test runner may name its own database in between. What an App does is `duly.App`'s.
"""

from __future__ import annotations

import threading
import weakref
from typing import TYPE_CHECKING, Any

from duly._sync.app import App as BaseApp
from duly.contrib.django.conf import Options, options
from duly.contrib.django.database import DjangoDatabase

if TYPE_CHECKING:
    from datetime import timedelta

_made: weakref.WeakSet[App] = weakref.WeakSet()
_PARTS = frozenset(
    {"database", "_attempts", "_registry", "_starting", "_ticking", "_readiness", "_manner"},
)


class App(BaseApp):
    """Jobs on one of Django's databases; the rest is as `duly.App`.

    A handler runs in duly's transaction on Django's own connection of its thread: the ORM,
    inner `atomic` blocks and `transaction.on_commit` work as ever, and `run.execute` sees the
    same transaction.

    Args:
        using: The alias in `DATABASES`; the business database itself.
        schema: Of the ledger, where it is not the connection's default.
        allow_untested: Take a server that duly was never tested on.
        evidence_after: How long an attempt runs before it is marked as under way.
        started_by: Who starts attempts here, for people; the default names user and host.
        name: Of the App. With a name, a job that its code no longer defines is retired.
        listen: On PostgreSQL: tell relays of other processes of the messages that attempts here
            commit, and let relays here listen for those of others.
    """

    def __init__(
        self,
        using: str = "default",
        *,
        schema: str | None = None,
        allow_untested: bool = False,
        evidence_after: timedelta | float = 0.25,
        started_by: str | None = None,
        name: str = "",
        listen: bool = False,
    ) -> None:
        self.jobs = {}
        self.consumers = {}
        self._making = threading.RLock()
        self._given = Options(
            using, schema, allow_untested, evidence_after, started_by, name, listen
        )

    def __getattr__(self, part: str) -> Any:
        """A part that is made at its first use.

        Raises:
            UsageError: Django's settings name a database that duly cannot use.
        """
        if part not in _PARTS:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {part!r}")
        with self._making:
            if part not in vars(self):
                self._make(self._options())
        return vars(self)[part]

    def close(self) -> None:
        """Let go of connections; an App may be used again afterwards."""
        if "database" in vars(self):
            super().close()

    @staticmethod
    def close_all() -> None:
        """Close every App on Django's databases of this process."""
        for app in list(_made):
            app.close()

    def _options(self) -> Options:
        return self._given

    def _make(self, given: Options) -> None:
        database = DjangoDatabase(given.using, schema=given.schema, untested=given.allow_untested)
        jobs, consumers = self.jobs, self.consumers
        super().__init__(
            database,
            evidence_after=given.evidence_after,
            started_by=given.started_by,
            name=given.name,
            listen=given.listen,
        )
        self.jobs.update(jobs)
        self.consumers.update(consumers)
        _made.add(self)


class ProjectApp(App):
    """The App that the settings block `DULY` describes."""

    def _options(self) -> Options:
        return options()
