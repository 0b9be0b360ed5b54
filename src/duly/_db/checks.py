"""What is looked at once per process before a database is trusted.

Decides whether a server is one that was tested, new enough, and keeps what it commits; and
where the ledger is. It refuses by name, with the remedy, and changes nothing.
"""

from __future__ import annotations

import re
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, cast

from duly._db.tables import require_current
from duly.errors import (
    InvariantBroken,
    OperatorError,
    UnsafeStorage,
    UnsupportedDatabase,
    UsageError,
)

if TYPE_CHECKING:
    from duly._db.connect import Database
    from duly._db.dialects import Dialect
    from duly._db.sessions.base import Session
    from duly._db.sessions.sqlite_driver import SqliteSession

# File systems over a network, where SQLite's locks are not to be trusted.
NETWORK_FILE_SYSTEMS = frozenset(
    {
        *("9p", "afs", "beegfs", "ceph", "cifs", "gpfs", "lustre", "ncpfs", "ocfs2", "orangefs"),
        *("fuse.glusterfs", "fuse.s3fs", "fuse.sshfs", "glusterfs"),
        *("nfs", "nfs3", "nfs4", "smb", "smb2", "smb3", "smbfs"),
    }
)
_OCTAL = re.compile(r"\\([0-7]{3})")


def check_server(database: Database, session: Session) -> None:
    """Refuse a server or a file that duly cannot keep its promise on; find the schema.

    Raises:
        UnsupportedDatabase: Of another make, or too old.
        UnsafeStorage: It may lose what it committed, or half of it.
    """
    if database.path is not None:
        _check_sqlite(database, session)
        return
    database.schema = default_schema(
        session, database.explicit_schema, where=database.where, untested=database.untested
    )
    if session.dialect.name == "mariadb":
        engines = other_engines(session, database.schema)
        database.nontransactional = frozenset(name.lower() for name in engines)


def check_ledger(database: Database, session: Session) -> None:
    """Refuse a ledger that is absent, of another version, or damaged; learn its id."""
    require_current(session, database.where)
    rows = session.run("read_guard", {})
    if not rows:
        raise InvariantBroken(
            f"duly_guard in {database.where} has no row, so no prune can be kept from an attempt:"
            " restore the table from a backup"
        )
    database.ledger_id = str(rows[0][0])


def file_system_of(path: Path, mounts: str) -> str | None:
    """The type of the file system that holds *path*.

    Args:
        path: Absolute, with links resolved.
        mounts: The text of /proc/self/mountinfo (proc(5), section mountinfo).
    """
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(_OCTAL.sub(lambda found: chr(int(found.group(1), 8)), fields[4]))
        if path.is_relative_to(point) and (best is None or len(str(point)) >= best[0]):
            best = (len(str(point)), after.split()[0])
    return best[1] if best else None


def _check_sqlite(database: Database, session: Session) -> None:
    _require_version(database.dialect, sqlite3.sqlite_version_info[:2], sqlite3.sqlite_version)
    assert database.path is not None
    mounts = Path("/proc/self/mountinfo")
    if mounts.exists():
        kind = file_system_of(Path(database.path).resolve(), mounts.read_text())
        if kind in NETWORK_FILE_SYSTEMS:
            raise UnsafeStorage(
                f"{database.path} is on a network file system ({kind}), where SQLite's locks do"
                " not hold and a commit may be lost: use a local disk, or PostgreSQL or MariaDB",
                file_system=kind,
            )
    extra = [name for name, _path in cast("SqliteSession", session).files() if name != "main"]
    if extra:
        raise UnsafeStorage(
            f"the engine attaches another file ({extra[0]!r}), and SQLite does not commit two"
            " files together in every mode: keep ledger and business tables in one file"
        )


def default_schema(
    session: Session, explicit: str | None, *, where: str = "this database", untested: bool = False
) -> str:
    """Check a server by its own words and return the ledger's schema.

    Raises:
        UnsupportedDatabase, UnsafeStorage: As `check_server`.
        OperatorError: Another schema holds a ledger, and none was named.
    """
    check = _check_postgresql if session.dialect.name == "postgresql" else _check_mariadb
    return check(session, explicit, where, untested)


def _check_postgresql(session: Session, explicit: str | None, where: str, untested: bool) -> str:
    row = session.run("identify", {"schema": explicit})[0]
    version, number, current, role, ledgers, unlogged = row
    if isinstance(version, bytes):
        raise UnsafeStorage(
            "client_encoding is SQL_ASCII, so psycopg gives bytes in place of text: connect with"
            " client_encoding=utf8 (in the URL, or PGCLIENTENCODING)"
        )
    if (not str(version).startswith("PostgreSQL") or "-YB-" in str(version)) and not untested:
        raise _untested(where, str(version).split(" on ")[0])
    found = (number // 10_000, number % 10_000)
    _require_version(session.dialect, found, f"{found[0]}.{found[1]}")
    if role != "origin":
        raise UnsafeStorage(
            f"session_replication_role is {role!r} for this role, which switches off the foreign"
            " key that keeps a COMMIT from landing early: set it to 'origin'"
        )
    schema = explicit or current
    if schema is None:
        raise UsageError(
            f"no schema of the search_path exists in {where}: create one, or give schema="
        )
    others = sorted(set((ledgers or "").split(",")) - {"", schema})
    if others and explicit is None:
        raise OperatorError(
            f"another schema of {where} holds a ledger ({', '.join(others)}), and this role's"
            f" default schema is {schema!r}: two ledgers would apply an effect twice; give"
            " schema= (--schema) to say which one is meant",
            schemas=others,
        )
    if unlogged:
        raise UnsafeStorage(
            f"{unlogged} in schema {schema!r} is not an ordinary logged table, so a crash empties"
            f" it and keys run again: ALTER TABLE {str(unlogged).split(',')[0]} SET LOGGED"
        )
    return str(schema)


def _check_mariadb(session: Session, explicit: str | None, where: str, untested: bool) -> str:
    version, current, sql_mode, *reads_as = session.run("identify", {})[0]
    if isinstance(version, bytes):
        raise UsageError(
            "use_unicode is off, so the driver gives bytes in place of text: connect without"
            " use_unicode=False (use_unicode=0 in the URL)"
        )
    if "MariaDB" not in str(version):
        if not untested:
            raise _untested(where, f"MySQL {version}")
    else:
        numbers = [int(part) for part in re.findall(r"\d+", str(version))[:2]]
        _require_version(session.dialect, tuple(numbers), str(version).split("-")[0])
    schema = explicit or current
    if schema is None:
        raise UsageError(
            "no database of the server is chosen: name one in the URL (…/NAME), where you connect,"
            " or by schema="
        )
    if "STRICT_" not in str(sql_mode):
        raise UnsafeStorage(
            f"sql_mode ({sql_mode or 'empty'}) is not strict, so MariaDB stores truncated values"
            " without an error: add STRICT_TRANS_TABLES to sql_mode"
        )
    if "EMPTY_STRING_IS_NULL" in str(sql_mode):
        raise UnsafeStorage(
            f"sql_mode ({sql_mode}) makes MariaDB store NULL for an empty text, as the partition of"
            " most keys is: take EMPTY_STRING_IS_NULL out of sql_mode"
        )
    _require_charset(session.driver.character_set_name(), {str(name) for name in reads_as})
    engines = other_engines(session, str(schema))
    ours = sorted(name for name in engines if name.startswith("duly_"))
    if ours:
        raise UnsafeStorage(
            f"{ours[0]} has the engine {engines[ours[0]]}, which cannot roll back: ALTER TABLE"
            f" {ours[0]} ENGINE=InnoDB"
        )
    return str(schema)


def _require_charset(sent_as: str, reads_as: set[str]) -> None:
    """Refuse a session that stores another key than the driver was given."""
    # Up to MariaDB's 10.5 one name, and to PyMySQL both.
    if {name.replace("utf8mb3", "utf8") for name in reads_as} != {sent_as.replace("mb3", "")}:
        raise UnsafeStorage(
            f"the driver sends text as {sent_as}, and MariaDB reads it as"
            f" {' and '.join(sorted(reads_as))}, so one key could become two, or two one: connect"
            " with charset=utf8mb4, and leave out SET NAMES and character_set_…",
            character_sets=sorted(reads_as),
        )


def other_engines(session: Session, schema: str) -> dict[str, str]:
    """Tables of a MariaDB schema that a rollback does not reach, and their engines."""
    rows = session.run("other_engines", {"schema": schema})
    return {str(name): str(engine) for name, engine in rows}


def _untested(where: str, what: str) -> UnsupportedDatabase:
    return UnsupportedDatabase(
        f"{where} is {what}, on which duly was never tested: use PostgreSQL, MariaDB or SQLite,"
        " or pass allow_untested=True at your own risk",
        found=what,
    )


def _require_version(dialect: Dialect, found: tuple[int, ...], text: str) -> None:
    if found < dialect.least_version:
        least = ".".join(map(str, dialect.least_version))
        raise UnsupportedDatabase(
            f"{dialect.title} {text} is older than {least}, the least that duly supports:"
            " upgrade it",
            found=text,
            least=least,
        )
