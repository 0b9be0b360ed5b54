"""Alembic's entry: runs the migrations on the connection, or into the text, it is handed.

It makes no connection and decides nothing; `migrate.py` calls it.
"""

from __future__ import annotations

from alembic import context

from duly._db.tables import VERSION_TABLE

_given = context.config.attributes

if context.is_offline_mode():
    context.configure(
        dialect_name=_given["dialect_name"],
        version_table=VERSION_TABLE,
        version_table_schema=_given["schema"],
    )
else:
    context.configure(
        connection=_given["connection"],
        version_table=VERSION_TABLE,
        version_table_schema=_given["schema"],
    )

with context.begin_transaction():
    context.run_migrations()
