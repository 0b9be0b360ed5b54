"""What is sent beyond the database: messages, their deliveries, their order."""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Run this version's text."""
    run_file("0003_outbox")
