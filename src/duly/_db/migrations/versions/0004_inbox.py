"""The receiver's side: the inbox, what is parked, and HTTP idempotency keys."""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Run this version's text."""
    run_file("0004_inbox")
