"""Runs the SQL text of one version, with the ledger's schema filled in."""

from __future__ import annotations

from importlib.resources import files

from alembic import op

from duly._db.dialects import DIALECTS
from duly._db.queries import qualify


def run_file(stem: str) -> None:
    """Run `versions/<stem>.<database>.sql`, statement by statement."""
    context = op.get_context()
    name = "mariadb" if context.dialect.name == "mysql" else context.dialect.name
    text = files("duly._db.migrations.versions").joinpath(f"{stem}.{name}.sql").read_text("utf-8")
    schema = context.opts.get("version_table_schema")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    for statement in "\n".join(lines).split(";\n"):
        if statement.strip():
            op.execute(qualify(statement.strip().rstrip(";"), DIALECTS[name], schema))
