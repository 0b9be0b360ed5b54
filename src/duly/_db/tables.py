"""The names of duly's tables, the version of their schema, and reading that version.

The tables themselves are made by the migrations; the version is read without Alembic,
because a run every minute cannot pay for its import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly.errors import SchemaMissing, SchemaNewer, SchemaOutdated

if TYPE_CHECKING:
    from duly._db.sessions.base import Session

HEAD = "0005"
VERSION_TABLE = "duly_schema_version"


def schema_version(session: Session) -> str | None:
    """The version of the tables in the session's schema; None if there are none."""
    if not session.has_table(VERSION_TABLE):
        return None
    rows = session.run("schema_version", {})
    return str(rows[0][0]) if rows else None


def require_current(session: Session, where: str) -> None:
    """Refuse a ledger that is absent, or of another version than this code's.

    Raises:
        SchemaMissing, SchemaOutdated, SchemaNewer: With the remedy.
    """
    version = schema_version(session)
    if version is None:
        raise SchemaMissing(
            f"{where} has no tables of duly's: run `duly init` once, with a role that may"
            " create tables",
            where=where,
        )
    if version < HEAD:
        raise SchemaOutdated(
            f"the tables in {where} are of version {version} and this duly needs {HEAD}:"
            " run `duly init` to upgrade them",
            found=version,
            needed=HEAD,
        )
    if version > HEAD:
        raise SchemaNewer(
            f"the tables in {where} are of version {version}, newer than this duly knows"
            f" ({HEAD}): upgrade duly on this host",
            found=version,
            needed=HEAD,
        )
