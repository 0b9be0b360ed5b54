"""What is expected, since when: revisions, pauses, slots, partitions."""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Run this version's text."""
    run_file("0002_expectation")
