"""Rings in other processes: commits are notified over PostgreSQL, and relays listen.

It decides nothing, and nothing depends on it: a relay that heard nothing looks by itself. It never
speaks in anybody's transaction, where a NOTIFY would hold a lock of the whole server at the
commit: it has connections of its own, one that tells and one for each that listens.
"""

from __future__ import annotations

import atexit
import logging
import os
import selectors
import socket
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final

from duly._db.dialects import POSTGRESQL
from duly._db.translate import first_line
from duly._db.waiting import OwnLoop, awaited, joined
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._db.connect import Database

log = logging.getLogger("duly.relay")

TELL: Final = "NOTIFY duly_outbox"
LISTEN: Final = "LISTEN duly_outbox"
READ: Final = "SELECT 1"
"""Reads what has come; an error says that the line is lost."""
READ_S: Final = 30.0
"""How often that is asked when nothing comes."""
AGAIN_S: Final = 0.5
"""How long a lost line is left alone."""
CLOSE_S: Final = 2.0


class Line:
    """Of one App: what tells other processes of its commits, and what hears of theirs.

    Raises:
        UsageError: The database has no such line.
    """

    def __init__(self, database: Database) -> None:
        if database.dialect is not POSTGRESQL:
            raise UsageError(
                f"listen=True is for PostgreSQL, and {database.where} is {database.dialect.title}:"
                " leave it out; a relay in another process looks at the outbox by itself (poll=)"
            )
        self._database = database
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._orders: SimpleQueue[bool] = SimpleQueue()

    def tell(self) -> None:
        """Tell all relays that listen, soon; nobody waits for it, and it may be lost."""
        if os.getpid() != self._pid:
            self._begin()  # a child has none of its parent's threads
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._serve, args=(self._orders,), name="duly-tell", daemon=True
                )
                self._thread.start()
                atexit.register(self.close)  # a process that ends at once tells first
            if self._orders.empty():
                self._orders.put(True)

    def listen(self, call: Callable[[], None]) -> Listener:
        """From now on *call* when somebody tells, and when it may have been missed.

        It is called by a thread of the listener's own.
        """
        return Listener(self._database, call)

    def close(self) -> None:
        """Tell what is to be told, and let go of the connection; it may be used again."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            thread, orders = self._thread, self._orders
            self._thread, self._orders = None, SimpleQueue()
            atexit.unregister(self.close)
        if thread is not None:
            orders.put(False)
            joined(thread, CLOSE_S)

    def _serve(self, orders: SimpleQueue[bool]) -> None:
        wire: _Wire | None = None
        while orders.get():
            try:
                wire = wire or _Wire(self._database)
                try:
                    wire.execute(TELL)
                except Exception:
                    wire.close()  # it was open for long, perhaps, and the server started anew
                    wire = _Wire(self._database)
                    wire.execute(TELL)
            except Exception as error:
                log.info("not_told", extra={"error": first_line(error)})
                if wire is not None:
                    wire.close()
                wire = None
        if wire is not None:
            wire.close()


class Listener:
    """Hears of commits on a connection of its own, until it is closed; a lost one is made anew."""

    def __init__(self, database: Database, call: Callable[[], None]) -> None:
        self._database, self._call = database, call
        self._ended, self._end = socket.socketpair()
        self._is_lost = False
        self._thread = threading.Thread(target=self._serve, name="duly-listen", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Do not call any more."""
        self._end.close()
        joined(self._thread, CLOSE_S)

    def _serve(self) -> None:
        with self._ended, selectors.DefaultSelector() as ended:
            ended.register(self._ended, selectors.EVENT_READ)
            while not ended.select(AGAIN_S if self._is_lost else 0):
                try:
                    self._attend()
                except Exception as error:
                    if not self._is_lost:
                        said = (
                            "the relay does not hear of other processes' commits"
                            f" ({first_line(error)}): it looks by itself (poll=) and tries to"
                            " listen again; a pooler in front of the server must be in session mode"
                        )
                        log.warning("line_lost", extra={"error": said})
                    self._is_lost = True

    def _attend(self) -> None:
        """Listen until the end.

        Raises:
            Exception: The line is lost.
        """
        wire = _Wire(self._database)
        try:
            wire.execute(LISTEN)
            if self._is_lost:
                log.warning("line_back", extra={"error": "the relay hears other processes again"})
            self._is_lost = False
            self._call()  # of what was committed meanwhile nobody hears any more
            with selectors.DefaultSelector() as either:
                either.register(self._ended, selectors.EVENT_READ)
                either.register(wire.fileno, selectors.EVENT_READ)
                while self._ended not in (came := _came(either)):
                    wire.execute(READ)
                    if came:
                        self._call()
        finally:
            wire.close()


def _came(selector: selectors.BaseSelector) -> set[Any]:
    return {key.fileobj for key, _ in selector.select(READ_S)}


class _Wire:
    """A connection in autocommit, of one thread."""

    def __init__(self, database: Database) -> None:
        self._loop = OwnLoop() if database.is_async else None
        try:
            self._raw = self._do(lambda: _connected(database))
            self._done(self._raw.rollback)  # of what the Engine did when it connected
            self._done(lambda: self._raw.set_autocommit(True))
        except BaseException:
            self._end_loop()
            raise
        # Without one, psycopg keeps what it hears until somebody asks.
        self._raw.add_notify_handler(_unread)

    @property
    def fileno(self) -> int:
        """What becomes readable when something comes."""
        number: int = self._raw.fileno()
        return number

    def execute(self, statement: str) -> None:
        """A statement without rows that matter, in a transaction of its own."""
        self._done(lambda: self._raw.execute(statement))

    def close(self) -> None:
        """Let go of it."""
        try:
            with suppress(Exception):
                self._done(self._raw.close)
        finally:
            self._end_loop()

    def _done(self, call: Callable[[], Any]) -> None:
        self._do(call if self._loop is None else lambda: awaited(call()))

    def _do(self, work: Callable[[], Any]) -> Any:
        return work() if self._loop is None else self._loop.do(work)

    def _end_loop(self) -> None:
        if self._loop is not None:
            self._loop.close()


def _connected(database: Database) -> Any:
    """The driver's connection, made as the Engine makes its own, but of no pool."""
    fairy = database.engine.pool.recreate().connect()
    raw = fairy.driver_connection
    fairy.detach()
    return raw


def _unread(_notice: object) -> None:
    """That something came is all that there is to know."""
