"""Where one App keeps evidence that is not part of an effect: markers and duplicates.

On PostgreSQL and MariaDB both are rows; on SQLite both are side files. Losing any of it
changes no outcome.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any
from uuid import UUID

from duly._db.dialects import SQLITE, ErrorKind
from duly._db.sessions.base import Session, key_params
from duly._db.sessions.choose import make_session
from duly._db.side_files import ATTEMPTS, DUPLICATES, Line, SideFiles
from duly._db.waiting import OwnLoop
from duly._sync.markers import Marker, MarkerStore

if TYPE_CHECKING:
    from duly._core.occurrence import Occurrence
    from duly._db.connect import Database


log = logging.getLogger("duly.evidence")

_BRIEF_S = 0.1


class Evidence:
    """Markers and duplicates of one database, by its kind."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._side: SideFiles | None = None

    @property
    def side(self) -> SideFiles | None:
        """The side files; None on a server, or before the ledger's id is known."""
        database = self._database
        if database.dialect is not SQLITE or database.path is None or database.ledger_id is None:
            return None
        if self._side is None or self._side.ledger_id != database.ledger_id:
            self._side = SideFiles(database.path, database.ledger_id)
        return self._side

    def store(self) -> MarkerStore:
        """Where markers of this database go."""
        if self._database.dialect is SQLITE:
            return _SideStore(self)
        rows = _RowStore(self._database)
        return _LoopStore(rows) if self._database.is_async else rows

    def count_duplicate(self, session: Session, occurrence: Occurrence, started_by: str) -> None:
        """Count a refused start, without a sync where the database allows.

        The session has no transaction open, and has none afterwards.
        """
        if (side := self.side) is None:
            counted = {**key_params(occurrence), "started_by": started_by}
            session.change_alone("count_duplicate", counted)
            return
        line = {**key_params(occurrence), "by": started_by, "at": session.clock_us()}
        if side.append(DUPLICATES, line):
            try:
                self.fold(session)
            except Exception as error:
                # The line is kept: another fold finds it, and this start counts once.
                log.info("fold_put_off", extra={"error": str(error)})
                session.rollback()

    def record(self, session: Session, row: dict[str, Any]) -> None:
        """Write a finished attempt's row, in a transaction of its own.

        On SQLite another transaction may hold the file for long (a `busy` attempt ended for
        just that): then the row waits in a side file for the next reader.
        """
        side = self.side
        try:
            session.begin(1.0 if side is None else _BRIEF_S)
            session.change("record_attempt", row)
            session.commit(1.0)
        except Exception as error:
            if side is None or session.classify(error) is not ErrorKind.CONTENTION:
                raise
            session.rollback()
            line = {name: value for name, value in row.items() if name != "fingerprint"}
            side.append(ATTEMPTS, {**line, "attempt_id": row["attempt_id"].hex()})

    def fold(self, session: Session) -> None:
        """Bring what waits in SQLite's side files into the tables."""
        side = self.side
        if side is None:
            return

        def store_duplicates(lines: list[Line]) -> None:
            session.begin(_BRIEF_S)
            for line in lines:
                params = {**_key(line), "started_by": line["by"], "now_us": line["at"]}
                session.change("count_duplicate", params)
            session.commit(1.0)

        def store_attempts(lines: list[Line]) -> None:
            session.begin(_BRIEF_S)
            for line in lines:
                row = {"final": None, **line, "attempt_id": bytes.fromhex(line["attempt_id"])}
                if not session.run("attempt_is_recorded", row):
                    session.change("record_attempt", row)
            session.commit(1.0)

        side.fold(DUPLICATES, store_duplicates)
        side.fold(ATTEMPTS, store_attempts)

    def holders(self, session: Session, occurrence: Occurrence) -> list[Marker]:
        """The attempts under way at one occurrence that are known, oldest first."""
        if self._database.dialect is not SQLITE:
            return [
                marker_of(session, row)
                for row in session.run("running_on_key", key_params(occurrence))
            ]
        if (side := self.side) is None:
            return []
        key = key_params(occurrence)
        found = [marker_of_line(line) for line in side.alive() if _key(line) == key]
        return sorted(found, key=lambda marker: marker.started_us)

    def running(self, session: Session) -> list[Marker]:
        """Every marker of this database, of the living and (on a server) of the dead."""
        if self._database.dialect is not SQLITE:
            return [marker_of(session, row) for row in session.run("list_running", {"limit": 1000})]
        return [marker_of_line(line) for line in self.side.alive()] if self.side else []


def marker_of(session: Session, row: tuple[Any, ...]) -> Marker:
    """A marker from its row."""
    return Marker(session.decode_id(row[0]) or UUID(int=0), *row[1:])


def marker_of_line(line: Line) -> Marker:
    """A marker from its line in a side file."""
    return Marker(
        UUID(line["attempt_id"]), started_by=line["started_by"], host=line["host"],
        process=line["process"], pid=line["pid"], started_us=line["started_us"], **_key(line),
    )  # fmt: skip


def _key(line: Line) -> dict[str, Any]:
    return {name: line[name] for name in ("job", "nominal_us", "partition_key", "correction")}


def _values(marker: Marker) -> dict[str, Any]:
    return {name: getattr(marker, name) for name in Marker.__slots__}


class _SideStore:
    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence

    def add(self, marker: Marker) -> None:
        if side := self._evidence.side:
            line = {**_values(marker), "attempt_id": str(marker.attempt_id)}
            side.running.add(str(marker.attempt_id), line)

    def remove(self, attempt_id: UUID) -> None:
        if side := self._evidence.side:
            side.running.remove(str(attempt_id))

    def close(self) -> None:
        return


class _RowStore:
    """One connection per process, outside the pool, in autocommit, with a short lock bound."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._session: Session | None = None
        self._fairy: Any = None
        self._pool: Any = None

    def add(self, marker: Marker) -> None:
        session = self._open()
        values = {**_values(marker), "attempt_id": session.encode_id(marker.attempt_id)}
        session.change("mark_running", values)

    def remove(self, attempt_id: UUID) -> None:
        session = self._open()
        session.change("unmark_running", {"attempt_id": session.encode_id(attempt_id)})

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            self._fairy.close()
            self._pool.dispose()

    def _open(self) -> Session:
        if self._session is None:
            # Of a pool of its own: an event loop's connections are those of its pool. It is not
            # detached, for SQLAlchemy never closes a detached one of psycopg's asynchronous.
            self._pool = self._database.engine.pool.recreate()
            fairy = self._pool.connect()
            raw = fairy.driver_connection
            session = make_session(self._database.dialect, raw, self._database.schema)
            # Kept before it is used: whatever fails, `close` finds it.
            self._session, self._fairy = session, fairy
            session.serve_markers()
        return self._session


class _LoopStore:
    """The same for a driver of an event loop's: in a loop of the markers' thread."""

    def __init__(self, rows: _RowStore) -> None:
        self._rows = rows
        self._loop = OwnLoop()

    def add(self, marker: Marker) -> None:
        self._loop.do(lambda: self._rows.add(marker))

    def remove(self, attempt_id: UUID) -> None:
        self._loop.do(lambda: self._rows.remove(attempt_id))

    def close(self) -> None:
        self._loop.do(self._rows.close)
        self._loop.close()
