"""On PostgreSQL, full pages in the two indexes that grow with each occurrence."""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Run this version's text."""
    run_file("0005_room")
