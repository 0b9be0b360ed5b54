"""${message}"""

from __future__ import annotations

from duly._db.migrations.statements import run_file

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}


def upgrade() -> None:
    """Run this version's text."""
    run_file("${up_revision}_${message}")
