"""The look at the server, the file and the ledger that an App takes once per process.

Decides that a question never makes tables, and that an existing SQLite file gets them at its
first use.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from duly._db.checks import check_ledger, check_server
from duly._db.waiting import taken
from duly.errors import SchemaMissing

if TYPE_CHECKING:
    from duly._db.connect import Database


class Readiness:
    """Whether one database was looked at and may be used."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._ready = threading.Event()
        self._looking = threading.Lock()

    def ensure(self, *, only_read: bool = False) -> None:
        """Look, unless that was done.

        Raises:
            DulyError: The database cannot be used, or its tables are missing.
        """
        if self._ready.is_set():
            return
        with taken(self._looking):
            if self._ready.is_set():
                return
            database = self._database
            database.require_file()
            with database.session() as session:
                check_server(database, session)
            try:
                self._check_ledger()
            except SchemaMissing:
                if database.path is None or only_read:
                    raise
                from duly._db.migrate import migrate

                migrate(database)
                self._check_ledger()
            self._ready.set()

    def _check_ledger(self) -> None:
        # A new lease: the check of the server found the schema.
        with self._database.session() as session:
            check_ledger(self._database, session)
