"""The ways in: how somebody brings one occurrence to its database.

Each promise that does not depend on the way is tested through every one of them; the fault and
the race suite go through them too. A new way is one more entry in `WAYS` with what it can do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession
from sqlalchemy.pool import NullPool

from tests.cells import Cell
from tests.contract import callers, django_project, doors
from tests.contract.bank import Bank
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable

    import duly
    from tests.cells import Kind, Mode
    from tests.contract.doors import Door
    from tests.servers.database import DatabaseName


@dataclass(frozen=True)
class Way:
    """A way in, by name.

    Attributes:
        name: In a test's id.
        open: Opens it on a bank.
        databases: Those that have it.
        own: duly opens and ends the transaction: failures are recorded, results stored.
        mode: Whether it is awaited.
        kind: Whose connection it is.
    """

    name: str
    open: Callable[[Bank], Door]
    own: bool
    mode: Mode
    kind: Kind
    databases: tuple[DatabaseName, ...]

    @property
    def cells(self) -> set[Cell]:
        """Where it leads in."""
        return {Cell(database, self.mode, self.kind) for database in self.databases}


def own(
    name: str,
    opens: Callable[[Bank], Door],
    kind: Kind = "own",
    mode: Mode = "sync",
    databases: tuple[DatabaseName, ...] = DATABASES,
) -> Way:
    """A way on which duly opens and ends the transaction."""
    return Way(name, opens, own=True, mode=mode, kind=kind, databases=databases)


def claim(name: str, opens: Callable[[Bank], Door], kind: Kind, mode: Mode = "sync") -> Way:
    """A way on which the caller opens and ends it."""
    return Way(name, opens, own=False, mode=mode, kind=kind, databases=DATABASES)


class DjangoBank(Bank):
    """A bank whose Apps run on Django's connections, unless a test names another database."""

    def app(self, database: Any = None, **options: Any) -> duly.App:
        if database is not None:
            return super().app(database, **options)
        return django_project.app_on(self, **options)


AppKind = Literal["own", "django"]
KINDS: dict[AppKind, type[Bank]] = {"own": Bank, "django": DjangoBank}

WAYS = (
    own("app-url", doors.app_on_url),
    own("app-engine", doors.app()),
    own("app-autocommit-engine", doors.app(isolation_level="AUTOCOMMIT")),
    own("app-explicit-begin-engine", doors.app_explicit_begin, databases=("sqlite",)),
    own("app-nullpool-engine", doors.app(poolclass=NullPool)),
    own("app-one-connection-engine", doors.app(pool_size=1, max_overflow=0)),
    own("once-block", doors.once_block),
    own("app-session", doors.app_session, kind="session"),
    own("app-django", doors.app_django, kind="django"),
    own("app-django-cursor", doors.app_django_cursor, kind="django"),
    own("aio-app-url", doors.aio_on_url, mode="async"),
    own("aio-app-engine", doors.aio(), mode="async"),
    own("aio-app-autocommit-engine", doors.aio(isolation_level="AUTOCOMMIT"), mode="async"),
    own("aio-app-nullpool-engine", doors.aio(poolclass=NullPool), mode="async"),
    own("aio-once-block", doors.AioBlockDoor, mode="async"),
    own("aio-app-session", doors.aio_session, kind="session", mode="async"),
    claim("claim-driver", callers.driver(Bank.connect), "driver"),
    claim("claim-driver-begin", callers.driver_begin(Bank.autocommit), "driver"),
    claim("claim-sqlalchemy-connection", callers.sqlalchemy_connection, "session"),
    claim("claim-sqlalchemy-session", callers.sqlalchemy_session, "session"),
    claim("claim-django", callers.django, "django"),
    claim("claim-aio-driver", callers.driver(Bank.aio_connect), "driver", mode="async"),
    claim(
        "claim-aio-driver-begin", callers.driver_begin(Bank.aio_autocommit), "driver", mode="async"
    ),
    claim(
        "claim-aio-sqlalchemy-connection",
        callers.aio_sqlalchemy(AsyncConnection),
        "session",
        mode="async",
    ),
    claim(
        "claim-aio-sqlalchemy-session",
        callers.aio_sqlalchemy(AsyncSession),
        "session",
        mode="async",
    ),
)
