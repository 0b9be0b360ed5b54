"""Django, set up once in this process, and a connection of it for each ledger.

Settings can be configured once; the databases of tests are added to them as they come.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import pymysql
from sqlalchemy.engine import make_url

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duly
    from tests.contract.bank import Bank
    from tests.servers.database import Database

_ENGINES = {"sqlite": "sqlite3", "postgresql": "postgresql", "mariadb": "mysql"}


@cache
def connections() -> Any:
    """`django.db.connections`, of a project that has no database of its own."""
    pymysql.install_as_MySQLdb()
    import django
    from django.conf import settings

    settings.configure(DATABASES={}, INSTALLED_APPS=[], USE_TZ=True)
    django.setup()
    from django.db import connections as handler

    return handler


def alias_of(database: Database) -> str:
    """The alias of a database in Django's settings."""
    handler = connections()
    alias = database.url
    if alias not in handler.settings:
        given = {"default": {}, alias: settings_of(database)}
        handler.settings[alias] = handler.configure_settings(given)[alias]
    return alias


def settings_of(database: Database) -> dict[str, Any]:
    """What stands for a database in `DATABASES`."""
    url = make_url(database.url)
    engine = f"django.db.backends.{_ENGINES[database.name]}"
    if database.name == "sqlite":
        return {"ENGINE": engine, "NAME": url.database, "OPTIONS": {"timeout": 0.2}}
    socket = {
        name: value for name, value in url.query.items() if "socket" in name or name == "host"
    }
    options = {k: v for k, v in url.query.items() if k not in socket}
    host = url.host or next(iter(socket.values()), "")
    return {
        "ENGINE": engine,
        "NAME": url.database,
        "USER": url.username or "",
        "PASSWORD": url.password or "",
        "HOST": host,
        "PORT": str(url.port or ""),
        "OPTIONS": options,
    }


@contextmanager
def atomic(bank: Bank) -> Iterator[Any]:
    """Django's own transaction on this thread's connection to a bank."""
    from django.db import transaction

    wrapper = connection_of(bank)
    with transaction.atomic(using=wrapper.alias):
        yield wrapper


def app_on(bank: Bank, **options: Any) -> duly.App:
    """An App on Django's connections to a bank, closed with it."""
    alias = alias_of(bank.database)
    from duly.contrib.django import App

    app = App(alias, **{**bank._options, **options})
    bank.on_close(app.close)
    connection_of(bank)
    return app


def connection_of(bank: Bank) -> Any:
    """This thread's Django connection to a bank, closed with the bank."""
    wrapper = connections()[alias_of(bank.database)]
    bank.on_close(lambda: _close(wrapper))
    return wrapper


def _close(wrapper: Any) -> None:
    wrapper.inc_thread_sharing()  # a thread of the test's may have opened it
    with suppress(Exception):  # the test may have broken it
        wrapper.close()
    wrapper.connection = None
    wrapper.dec_thread_sharing()
