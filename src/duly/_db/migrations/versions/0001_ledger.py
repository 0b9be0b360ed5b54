"""The ledger: occurrences, attempts, duplicates, markers, guard, horizons, audit."""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Run this version's text."""
    run_file("0001_ledger")
