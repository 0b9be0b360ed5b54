"""What differs between databases, as data: names, least versions, clocks, error codes.

Errors are classified by code, never by text (SQLite's result codes, SQLSTATE, MariaDB's
errno). Nothing elsewhere may ask `if dialect == …`; it reads a field of `Dialect`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from duly._db.ending import mariadb_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class ErrorKind(Enum):
    """What a database's error means for an attempt."""

    DUPLICATE_KEY = auto()
    CONTENTION = auto()
    """Rolled back for another's sake; the whole transaction may be tried again."""
    LOST = auto()
    """The connection is gone, or the server cannot be reached."""
    READ_ONLY = auto()
    DENIED = auto()
    NO_TABLE = auto()
    NO_DATABASE = auto()
    SEAL_MISSING = auto()
    """A COMMIT before the seal, refused by duly's deferred foreign key (PROTOCOL 4)."""
    OTHER = auto()
    """A database error of another kind: re-raised, never guessed."""


SEAL_CONSTRAINT = "fk_duly_occurrence_sealed"


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One database, as data.

    Attributes:
        name: `sqlite`, `postgresql` or `mariadb`; also the name of its SQL file.
        title: For people.
        least_version: The oldest that is supported.
        paramstyle: Turns a bind's name into the driver's spelling.
        now_us: An expression for the database's clock, integer microseconds.
        kinds: Error code to kind; a code is an int or a SQLSTATE, or its class of two letters.
        code_of: Reads the code off a driver's error.
        ends_transaction: A regular expression for statements that end a transaction; its groups
            are the words to name, `unread` what runs a text that only the server reads.
        lead: A regular expression for what may stand before such a statement.
        plainly: The first words of a statement as the server reads them, for `ends_transaction`.
        quote: How the database quotes a name.
        modules: The top-level packages of its drivers.
        text_instants: It has no type for an instant, so one is bound as text, in UTC.
        stopped: Codes of a statement that a time limit, or a person, has stopped.
        tables_locked: Codes of a statement on a table that the session's LOCK TABLES leaves out.
    """

    name: str
    title: str
    least_version: tuple[int, ...]
    paramstyle: Callable[[str], str]
    now_us: str
    kinds: dict[int | str, ErrorKind]
    code_of: Callable[[BaseException], int | str | None]
    ends_transaction: str
    lead: str = r"(?:\s|--[^\n]*(?:\n|\Z)|/\*.*?\*/|;)*"
    plainly: Callable[[str], str] = str
    quote: str = '"'
    modules: tuple[str, ...] = ()
    text_instants: bool = True
    stopped: frozenset[int | str] = frozenset()
    tables_locked: frozenset[int | str] = frozenset()

    def classify(self, error: BaseException) -> ErrorKind | None:
        """What *error* means; None if it is not an error of this database's driver.

        Wrappers (SQLAlchemy's, Django's) are looked through.
        """
        for cause in _causes(error):
            if type(cause).__module__.split(".")[0] not in self.modules:
                continue
            code = self.code_of(cause)
            if isinstance(code, str):
                if code == "23503" and _constraint(cause) == SEAL_CONSTRAINT:
                    return ErrorKind.SEAL_MISSING
                return self.kinds.get(code) or self.kinds.get(code[:2]) or ErrorKind.OTHER
            if isinstance(code, int):
                return self.kinds.get(code, ErrorKind.OTHER)
            return ErrorKind.OTHER
        return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """The error, then what a wrapper of the driver's errors wraps.

    What a handler raises `from` a driver's error is the handler's own.
    """
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        cause = todo.pop(0)
        if cause is None or id(cause) in seen:
            continue
        seen.add(id(cause))
        yield cause
        module = type(cause).__module__
        if module.startswith("sqlalchemy."):
            wrapped = getattr(cause, "orig", None)
            todo.append(wrapped if isinstance(wrapped, BaseException) else None)
        elif module.startswith("django.db"):
            todo.append(cause.__cause__)


def _constraint(error: BaseException) -> str | None:
    return getattr(getattr(error, "diag", None), "constraint_name", None)


def _sqlite_code(error: BaseException) -> int | None:
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        # "Cannot operate on a closed database" and its like carry no code.
        return _SQLITE_CLOSED if type(error).__name__ == "ProgrammingError" else None
    # Extended codes keep the primary one in the low byte; only constraints need the rest.
    return int(code) if code & 0xFF == _SQLITE_CONSTRAINT else int(code) & 0xFF


def _postgresql_code(error: BaseException) -> str | None:
    state = getattr(error, "sqlstate", None)
    if state is not None:
        return str(state)
    # psycopg's own errors have no SQLSTATE: the server was not reached, or went away. It was
    # reached where it had asked for a password, which then was missing or wrong.
    attempt = getattr(error, "pgconn", None)
    if (
        attempt is not None
        and attempt.status == _PG_BAD
        and (attempt.used_password or attempt.needs_password)
    ):
        return "28P01"
    return "08000" if type(error).__name__ in {"OperationalError", "ConnectionTimeout"} else None


def _mariadb_code(error: BaseException) -> int | None:
    args = error.args
    if args and isinstance(args[0], int):
        # PyMySQL's InterfaceError(0, "") is a statement on a closed connection.
        return _MARIADB_CLOSED if args[0] == 0 else args[0]
    return _MARIADB_CLOSED if type(error).__name__ == "InterfaceError" else None


_SQLITE_CONSTRAINT = 19
_PG_BAD = 1  # CONNECTION_BAD of libpq's ConnStatusType
_SQLITE_CLOSED = -1
_MARIADB_CLOSED = 2006

SQLITE = Dialect(
    name="sqlite",
    title="SQLite",
    least_version=(3, 37),
    paramstyle=lambda name: f":{name}",
    now_us=":now_us",
    kinds={
        1555: ErrorKind.DUPLICATE_KEY,  # SQLITE_CONSTRAINT_PRIMARYKEY
        2067: ErrorKind.DUPLICATE_KEY,  # SQLITE_CONSTRAINT_UNIQUE
        5: ErrorKind.CONTENTION,  # SQLITE_BUSY
        6: ErrorKind.CONTENTION,  # SQLITE_LOCKED
        8: ErrorKind.READ_ONLY,  # SQLITE_READONLY
        10: ErrorKind.LOST,  # SQLITE_IOERR
        14: ErrorKind.NO_DATABASE,  # SQLITE_CANTOPEN
        26: ErrorKind.NO_DATABASE,  # SQLITE_NOTADB
        _SQLITE_CLOSED: ErrorKind.OTHER,
    },
    code_of=_sqlite_code,
    ends_transaction=r"(COMMIT|END|ROLLBACK(?!\s+(?:TRANSACTION\s+)?TO\b)|BEGIN)",
    modules=("sqlite3", "aiosqlite"),
    stopped=frozenset({9}),  # SQLITE_INTERRUPT
)

POSTGRESQL = Dialect(
    name="postgresql",
    title="PostgreSQL",
    least_version=(13,),
    paramstyle=lambda name: f"%({name})s",
    now_us="(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::bigint",
    kinds={
        "23505": ErrorKind.DUPLICATE_KEY,
        "40001": ErrorKind.CONTENTION,  # serialization_failure
        "40P01": ErrorKind.CONTENTION,  # deadlock_detected
        "55P03": ErrorKind.CONTENTION,  # lock_not_available
        "08": ErrorKind.LOST,
        "57P01": ErrorKind.LOST,  # admin_shutdown
        "57P02": ErrorKind.LOST,  # crash_shutdown
        "57P03": ErrorKind.LOST,  # cannot_connect_now
        "53300": ErrorKind.LOST,  # too_many_connections
        "57P04": ErrorKind.LOST,  # database_dropped
        "57P05": ErrorKind.LOST,  # idle_session_timeout
        "25P03": ErrorKind.LOST,  # idle_in_transaction_session_timeout
        "25P04": ErrorKind.LOST,  # transaction_timeout
        "25006": ErrorKind.READ_ONLY,
        "28": ErrorKind.DENIED,
        "42501": ErrorKind.DENIED,
        "42P01": ErrorKind.NO_TABLE,
        "3F000": ErrorKind.NO_TABLE,  # invalid_schema_name
        "3D000": ErrorKind.NO_DATABASE,
    },
    code_of=_postgresql_code,
    ends_transaction=(
        r"(COMMIT|END|ABORT|ROLLBACK(?!\s+(?:(?:WORK|TRANSACTION)\s+)?TO\b)|BEGIN"
        r"|START\s+TRANSACTION|PREPARE\s+TRANSACTION)"
    ),
    modules=("psycopg", "psycopg_pool", "psycopg2"),
    text_instants=False,
    stopped=frozenset({"57014"}),  # query_canceled: statement_timeout too
)

MARIADB = Dialect(
    name="mariadb",
    title="MariaDB",
    least_version=(10, 6),
    paramstyle=lambda name: f"%({name})s",
    now_us="CAST(UNIX_TIMESTAMP(SYSDATE(6)) * 1000000 AS SIGNED)",
    kinds={
        1062: ErrorKind.DUPLICATE_KEY,
        1213: ErrorKind.CONTENTION,  # deadlock: the whole transaction was rolled back
        1205: ErrorKind.CONTENTION,  # lock wait timeout: only the statement was
        1020: ErrorKind.CONTENTION,  # record has changed since last read
        2002: ErrorKind.LOST,
        2003: ErrorKind.LOST,
        2006: ErrorKind.LOST,
        2013: ErrorKind.LOST,
        1927: ErrorKind.LOST,  # connection was killed
        1053: ErrorKind.LOST,  # server shutdown
        1040: ErrorKind.LOST,  # too many connections
        1047: ErrorKind.LOST,  # Galera without quorum
        1290: ErrorKind.READ_ONLY,
        1792: ErrorKind.READ_ONLY,
        1836: ErrorKind.READ_ONLY,
        1044: ErrorKind.DENIED,
        1045: ErrorKind.DENIED,
        1142: ErrorKind.DENIED,
        1698: ErrorKind.DENIED,
        1146: ErrorKind.NO_TABLE,
        1049: ErrorKind.NO_DATABASE,
    },
    code_of=_mariadb_code,
    ends_transaction=(
        r"(COMMIT|ROLLBACK(?! (?:WORK )?TO\b)|BEGIN(?! NOT ATOMIC)|START TRANSACTION|XA"
        r"|ALTER|TRUNCATE|RENAME|LOCK TABLES?|UNLOCK TABLES?|GRANT|REVOKE|OPTIMIZE|REPAIR|FLUSH"
        r"|ANALYZE (?:LOCAL |NO_WRITE_TO_BINLOG )?TABLES?|CHECK (?:TABLES?|VIEW)|CACHE INDEX|RESET"
        r"|BACKUP|INSTALL|UNINSTALL"
        r"|CREATE(?! (?:OR REPLACE )?TEMPORARY TABLE)|DROP(?! TEMPORARY TABLES?| PREPARE))"
        r"|(?P<unread>PREPARE|EXECUTE)"
        r"|(SET) (?:.*, )?(?:(?:SESSION|LOCAL) |@ @ (?:(?:SESSION|LOCAL) \. )?)?"
        r"(AUTOCOMMIT(?= (?:: )?=)|PASSWORD|DEFAULT ROLE)"
    ),
    lead=r"(?:SET STATEMENT .*? FOR )*",
    plainly=mariadb_words,
    quote="`",
    modules=("pymysql", "asyncmy"),
    stopped=frozenset({1317, 1969}),  # KILL QUERY, max_statement_time
    tables_locked=frozenset({1099, 1100}),
)

DIALECTS: dict[str, Dialect] = {d.name: d for d in (SQLITE, POSTGRESQL, MARIADB)}


def code_text(dialect: Dialect, error: BaseException) -> Any:
    """The driver's code of *error*, or None; for messages."""
    for cause in _causes(error):
        if type(cause).__module__.split(".")[0] in dialect.modules:
            return dialect.code_of(cause)
    return None
