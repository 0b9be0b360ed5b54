"""A ledger on a real database whose clock stands where a test puts it, and three hosts.

The clock is handed in from outside: this process's own for SQLite, and the server's for the
others. Nothing of duly is replaced.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pymysql
import pytest
import sqlalchemy

import duly
from duly import zones
from tests.contract.bank import autocommit
from tests.model.reference import DAY, OLDER, VANCOUVER, Terms, zone

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._core.job import Job
    from tests.servers.database import Database
    from tests.servers.server import Server

MICROSECOND = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
JOBS: Final = ("point", "day")
TABLES: Final = (
    "duly_occurrence", "duly_attempt", "duly_duplicate", "duly_audit", "duly_job_revision",
    "duly_pause", "duly_slot", "duly_partition", "duly_partition_set", "duly_job",
)  # fmt: skip
NEVER: Final = 20_000 * DAY


class Clock:
    """Stands still, but that each look at it takes a microsecond."""

    def __init__(self) -> None:
        self.at = datetime(2026, 1, 1, tzinfo=UTC)
        self._looks = 0

    def reset(self) -> None:
        """Nobody has looked yet: so many may that they would add up to a step."""
        self._looks = 0

    def us(self) -> int:
        """What it shows."""
        self._looks += 1
        return (self.at - EPOCH) // MICROSECOND + self._looks

    def ns(self) -> int:
        """The same, as `time.time_ns`."""
        return self.us() * 1000


class Row(NamedTuple):
    """A row of duly_occurrence."""

    nominal: datetime
    correction: int
    disposition: str
    reason: str | None


class Audited(NamedTuple):
    """A row of duly_audit: who, why, what, of which job, nominal time and correction."""

    decision: tuple[str, str, str, str, str, int]
    at: datetime


class Host:
    """A process with a definition of each job, and zone data.

    Attributes:
        handler: What a job's handler does before its effect.
    """

    def __init__(self, world: World, app: duly.App) -> None:
        self._world = world
        self.app = app
        self.terms: dict[str, Terms] = {}
        self.release = OLDER

    def deploy(self, terms: dict[str, Terms], release: str) -> None:
        """Start anew, with these definitions and that zone data."""
        self.terms, self.release = dict(terms), release
        # A new process has read nothing yet.
        self.app._registry._known.clear()
        self.app.jobs.clear()
        for job, each in terms.items():
            what = (job, each, release)
            if what not in self._world.made:
                with self.acting():
                    self._define(job, each)
                self._world.made[what] = self.app.jobs[job]
            self.app.jobs[job] = self._world.made[what]

    @contextmanager
    def acting(self) -> Iterator[duly.App]:
        """While inside, this process is the host: its zone data answers."""
        # More than the minute has passed for which a process believes what it was told of a job.
        self.app._registry._known.clear()
        with pytest.MonkeyPatch.context() as patch, zones.recorded(zone(VANCOUVER, self.release)):
            patch.setattr(zones, "data_version", lambda: self.release)
            yield self.app

    @contextmanager
    def other_period(self, job: str) -> Iterator[duly.App]:
        """While inside, its code has another `period=` of the job."""
        terms = replace(self.terms[job], schedule="0 3 * * *")
        with self.acting() as app:
            before = app.jobs.pop(job)
            self._define(job, terms, by_day=job != "day")
            try:
                yield app
            finally:
                app.jobs[job] = before

    def _define(self, job: str, terms: Terms, *, by_day: bool | None = None) -> None:
        schedule: Any = terms.schedule
        if isinstance(schedule, int):
            schedule = duly.Every(timedelta(minutes=schedule), anchor=self._world.anchor)
        retry = {
            "at once": duly.Retry(first=timedelta(0), most=timedelta(0)),
            "twice": duly.Retry(attempts=2, first=timedelta(0), most=timedelta(0)),
            "never": duly.Retry(first=NEVER, most=NEVER),
        }
        by_day = job == "day" if by_day is None else by_day
        options: dict[str, Any] = {"period": "day", "period_offset": -1} if by_day else {}
        self.app.job(
            job,
            schedule=schedule,
            timezone=terms.zone,
            payload={"serial": terms.serial},
            catch_up=terms.catch_up,
            skip_after=terms.skip_after,
            max_per_tick=terms.max_per_tick,
            in_order=terms.in_order,
            retry=retry[terms.retry],
            starts=terms.starts,
            ends=terms.ends,
            **options,
        )(self._world.handle)


class World:
    """The database, its clock, and the hosts.

    Attributes:
        counted: What a run did, and how often; for the report of a long one.
    """

    def __init__(self, database: Database, clock: Clock, anchor: datetime) -> None:
        self.database = database
        self.clock = clock
        self.anchor = anchor
        self.broken: set[str] = set()
        self.counted: Counter[str] = Counter()
        self.made: dict[tuple[str, Terms, str], Job] = {}
        self._open = ExitStack()
        app = duly.App(database.url)
        app.init()
        app.close()
        self._observer = autocommit(database)
        self._hand_clock_in()
        self.run(
            "CREATE TABLE effect (job VARCHAR(100) NOT NULL, nominal_us BIGINT NOT NULL,"
            " correction INTEGER NOT NULL, serial INTEGER NOT NULL)"
        )
        self.hosts = [Host(self, self._app()) for _ in range(3)]
        self.watcher = Host(self, self._app())

    def close(self) -> None:
        """Let go of every connection."""
        self._open.close()
        self._observer.close()

    def clear(self) -> None:
        """Begin with an empty ledger."""
        for table in (*TABLES, "effect"):
            self.run(f"DELETE FROM {table}")
        self.run("UPDATE duly_guard SET pruned_us = NULL")
        self.clock.reset()
        if self.database.name == "postgresql":
            self.run("ALTER SEQUENCE looks RESTART")
        self.broken.clear()
        for host in (*self.hosts, self.watcher):
            host.app.jobs.clear()
            host.app._registry._known.clear()

    def set_clock(self, at: datetime) -> None:
        """From now on every clock stands there."""
        self.clock.at = at
        if self.database.name == "postgresql":
            self.run(f"UPDATE clock SET us = {self.clock.us()}")

    def stop(self, server: Server, *, abrupt: bool) -> None:
        """End the server that the database is on: at once, as by a power cut, or in order."""
        self.counted["servers killed" if abrupt else "servers stopped"] += 1
        self._observer.close()
        if abrupt:
            server.kill()
        else:
            server.stop()

    def start(self, server: Server) -> None:
        """Start it on what it had written; every host's connections are dead by now."""
        server.start()
        self._observer = autocommit(self.database)

    def handle(self, run: duly.Run) -> None:
        """The handler of both jobs."""
        occurrence = run.occurrence
        run.execute(
            "INSERT INTO effect (job, nominal_us, correction, serial) VALUES (:job, :us, :n, :s)",
            {
                "job": occurrence.job,
                "us": occurrence.nominal_us,
                "n": occurrence.correction,
                "s": run.payload["serial"],
            },
        )
        if occurrence.job in self.broken:
            raise BrokenError(occurrence.key)

    # What is there

    def run(self, sql: str) -> list[tuple[Any, ...]]:
        """Execute *sql* by itself and return its rows."""
        cursor = self._observer.cursor()
        try:
            cursor.execute(sql)
            return list(cursor.fetchall()) if cursor.description else []
        finally:
            cursor.close()

    def settled(self, job: str) -> list[Row]:
        """What the ledger holds of *job*."""
        rows = self.run(
            "SELECT nominal_us, correction, disposition, reason FROM duly_occurrence"
            f" WHERE job = '{job}' ORDER BY nominal_us, correction"
        )
        return [Row(instant(us), int(number), *rest) for us, number, *rest in rows]

    def effects(self, job: str) -> list[tuple[datetime, int, int]]:
        """Nominal time, correction and serial of every effect."""
        rows = self.run(
            "SELECT nominal_us, correction, serial FROM effect"
            f" WHERE job = '{job}' ORDER BY nominal_us, correction"
        )
        return [(instant(us), int(number), int(serial)) for us, number, serial in rows]

    def failed(self, job: str) -> dict[datetime, tuple[int, datetime]]:
        """How often what is not settled failed, and when last."""
        rows = self.run(
            "SELECT nominal_us, COUNT(*), MAX(finished_us) FROM duly_attempt AS a"
            f" WHERE job = '{job}' AND correction = 1 AND outcome IN ('failed', 'abandoned')"
            " AND NOT EXISTS (SELECT 1 FROM duly_occurrence AS o WHERE o.job = a.job"
            " AND o.nominal_us = a.nominal_us AND o.correction = 1) GROUP BY nominal_us"
        )
        return {instant(us): (int(count), instant(last)) for us, count, last in rows}

    def audited(self) -> list[Audited]:
        """What people decided."""
        rows = self.run(
            "SELECT at_us, actor, reason, action, job, nominal_us, correction FROM duly_audit"
        )
        return [
            Audited((actor, reason, action, job, _nominal(action, us), int(number)), instant(at))
            for at, actor, reason, action, job, us, number in rows
        ]

    def everything(self, job: str) -> list[list[tuple[Any, ...]]]:
        """Every row about *job*."""
        columns = {
            "duly_job": ("name", "name, horizon_us, complete_us"),
            "duly_job_revision": ("job", "revision, digest, effective_us"),
            "duly_attempt": ("job", "nominal_us, correction, outcome"),
            "duly_occurrence": ("job", "nominal_us, correction, disposition"),
            "effect": ("job", "nominal_us, correction, serial"),
        }
        return [
            sorted(map(tuple, self.run(f"SELECT {what} FROM {table} WHERE {key} = '{job}'")))
            for table, (key, what) in columns.items()
        ]

    # The clock

    def _hand_clock_in(self) -> None:
        if self.database.name == "postgresql":
            # What is unqualified is looked for in the search path, in this order.
            name = self.run("SELECT current_database()")[0][0]
            self.run(f'ALTER DATABASE "{name}" SET search_path = public, pg_catalog')
            self.run("CREATE TABLE clock (us BIGINT NOT NULL)")
            self.run("INSERT INTO clock VALUES (0)")
            self.run("CREATE SEQUENCE looks")
            self.run(
                "CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE"
                " AS $$ SELECT timestamptz 'epoch'"
                " + (us + nextval('looks')) * interval '1 microsecond' FROM clock $$"
            )

    def _app(self) -> duly.App:
        where: Any = self.database.url
        if self.database.name == "mariadb":
            where = sqlalchemy.create_engine(where, creator=self._clocked)
            self._open.callback(where.dispose)
        app = duly.App(where)
        self._open.callback(app.close)
        return app

    def _clocked(self) -> pymysql.Connection[Any]:
        assert self.database.server is not None
        address = self.database.server.address
        connection = _Clocked(
            host=address.host,
            port=address.port,
            user=address.user,
            password=address.password,
            database=self.database.server.database_of(self.database.url),
            charset="utf8mb4",
        )
        connection.clock = self.clock
        return connection


class _Clocked(pymysql.Connection):
    """A connection to a server whose SYSDATE is a test's clock: MariaDB lets nobody shadow it."""

    clock: Clock

    def query(self, sql: Any, unbuffered: bool = False) -> int:  # noqa: FBT002  # as in PyMySQL
        if isinstance(sql, bytes):
            sql = sql.decode()
        if "SYSDATE(6)" in sql:
            seconds, us = divmod(self.clock.us(), 1_000_000)
            sql = sql.replace("UNIX_TIMESTAMP(SYSDATE(6))", f"{seconds}.{us:06d}")
        return super().query(sql, unbuffered)


class BrokenError(Exception):
    """What a handler raises."""


def _nominal(action: str, us: Any) -> str:
    """What a decision is about: a pause and its end are about no occurrence."""
    return str(instant(us) if action in {"waive", "correct"} else None)


def instant(us: Any) -> datetime:
    """Of stored microseconds."""
    return EPOCH + int(us) * MICROSECOND


@contextmanager
def world(database: Database, anchor: datetime) -> Iterator[World]:
    """A world whose clock is this process's too."""
    clock = Clock()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time_ns", clock.ns)
        made = World(database, clock, anchor)
        try:
            yield made
        finally:
            made.close()
