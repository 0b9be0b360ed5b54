"""duly's tables, through `manage.py migrate`: the same statements as `duly init`.

One migration for each version of the tables; each brings them to this release's version, so
that it makes no difference which of the two ways was taken, or how often.
"""

from __future__ import annotations

from typing import Any, NoReturn

from duly.errors import UsageError


def create(_apps: Any, schema_editor: Any) -> None:
    """Create or upgrade the tables, if this database is the one that DULY names."""
    from duly.contrib.django import app
    from duly.contrib.django.conf import options

    wrapper = schema_editor.connection
    if wrapper.alias != options().using:
        return
    if wrapper.vendor == "sqlite" and wrapper.is_in_memory_db():
        _create_in_memory(wrapper)
    else:
        app.init()


def keep(_apps: Any, _schema_editor: Any) -> NoReturn:
    """Never drop them: without its keys, everything that was done would be done again.

    Raises:
        UsageError: Always.
    """
    raise UsageError(
        "duly's migrations are not reversed: without its keys, what was done would be done again;"
        " drop the duly_* tables by hand if that is what you want"
    )


def _create_in_memory(wrapper: Any) -> None:
    """For tests that call `duly.claim`: only Django's own connection can see that database."""
    import sqlalchemy
    from sqlalchemy.pool import StaticPool

    from duly._db.migrate import upgrade

    wrapper.ensure_connection()
    engine = sqlalchemy.create_engine(
        "sqlite://", creator=lambda: wrapper.connection, poolclass=StaticPool
    )
    with engine.connect() as connection:
        upgrade(connection, None)
        connection.commit()
