"""Several statements of duly's own in one message, on a psycopg connection.

Each is a statement of its own, with a snapshot of its own; after one that fails the server
skips the rest. It uses libpq's pipeline without psycopg's, which looks after its socket in a
busy loop. It decides nothing, and never leaves a connection in pipeline mode.
"""

from __future__ import annotations

import re
import weakref
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

import psycopg
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result
from psycopg.generators import fetch_many, send
from psycopg.pq import ExecStatus

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from psycopg.pq.abc import PGresult

_wires: weakref.WeakKeyDictionary[Any, Wire] = weakref.WeakKeyDictionary()
_BIND = re.compile(r"%\((\w+)\)s")


class Statement(NamedTuple):
    """A statement's text, as psycopg takes it, and its binds."""

    text: str
    params: Mapping[str, Any] | None = None


COMMIT, ROLLBACK = Statement("COMMIT"), Statement("ROLLBACK")


class _Form:
    """A statement's text, as the server takes it.

    Attributes:
        names: Of its binds, in the order of their numbers.
        uses: How often it was sent on this connection since it was prepared last.
    """

    def __init__(self, text: str, encoding: str) -> None:
        self.names: list[str] = []
        numbered = _BIND.sub(self._number, text).replace("%%", "%")
        self.query = numbered.encode(encoding)
        self.key = (self.query, (0,) * len(self.names))
        self.uses = 0
        self._encoding = encoding

    def bound(self, params: Mapping[str, Any]) -> list[bytes | None]:
        """The binds by their numbers, each as PostgreSQL reads it."""
        values: list[bytes | None] = []
        for name in self.names:
            value = params[name]
            kind = type(value)
            if value is None:
                values.append(None)
            elif isinstance(value, int):
                values.append(b"%d" % value)
            elif kind is UUID:
                values.append(b"%032x" % value.int)
            elif kind is bytes:
                values.append(b"\\x" + value.hex().encode())
            elif not isinstance(value, str):
                raise TypeError(f"no bind of {kind.__name__}")
            elif "\0" in value:
                raise psycopg.DataError("PostgreSQL text fields cannot contain NUL (0x00) bytes")
            else:
                values.append(value.encode(self._encoding))
        return values

    def _number(self, found: re.Match[str]) -> str:
        name = found.group(1)
        if name not in self.names:
            self.names.append(name)
        return f"${self.names.index(name) + 1}"


def wire_of(connection: Any) -> Wire:
    """A connection's one wire, which knows what was prepared on it."""
    found = _wires.get(connection)
    if found is None:
        found = _wires[connection] = Wire(connection)
    return found


def value_of(answer: PGresult, column: int = 0) -> str | None:
    """A column of the first row, as text."""
    found = answer.get_value(0, column) if answer.ntuples else None
    return None if found is None else bytes(found).decode()


def rows_of(connection: Any, answer: PGresult) -> list[tuple[Any, ...]]:
    """All rows, as psycopg reads them."""
    transformer = Transformer(connection)
    transformer.set_pgresult(answer)
    return transformer.load_rows(0, answer.ntuples, tuple)


class Wire:
    """Sends for one connection; it must not keep it alive."""

    def __init__(self, connection: Any) -> None:
        self._reference = weakref.ref(connection)
        self._encoding: str = connection.info.encoding
        self._forms: dict[str, _Form] = {}
        self._prepared = 0

    @property
    def _connection(self) -> Any:
        return self._reference()

    def begin(self, level: psycopg.IsolationLevel | None = None) -> Statement:
        """As psycopg begins, by the connection's own settings; at *level* if one is given."""
        raw = self._connection
        words = ["BEGIN"]
        if level is None and raw.isolation_level is not None:
            level = psycopg.IsolationLevel(raw.isolation_level)
        if level is not None:
            words.append(f"ISOLATION LEVEL {level.name.replace('_', ' ')}")
        if raw.read_only is not None:
            words.append("READ ONLY" if raw.read_only else "READ WRITE")
        if raw.deferrable is not None:
            words.append("DEFERRABLE" if raw.deferrable else "NOT DEFERRABLE")
        return Statement(" ".join(words))

    def sent(self, *statements: Statement) -> Generator[Any, Any, list[PGresult]]:
        """Send *statements* at once; a generator for the connection's `wait`.

        Returns:
            One result for each; those after the first that failed are marked as aborted.
        """
        pgconn = self._connection.pgconn
        # All of them before the pipeline: a bind that cannot be sent leaves no half of a message.
        bound = [self._bound(statement) for statement in statements]
        pgconn.enter_pipeline_mode()
        preparing = [self._send(pgconn, form, values) for form, values in bound]
        pgconn.pipeline_sync()
        yield from send(pgconn)
        answers: list[PGresult] = []
        for new in preparing:
            if new is not None:
                form, name = new
                prepared = (yield from fetch_many(pgconn))[0]
                if prepared.status == ExecStatus.COMMAND_OK:
                    # As one of psycopg's own, so that its DEALLOCATE ALL is noticed.
                    self._connection._prepared._names[form.key] = name  # noqa: SLF001
            answers += (yield from fetch_many(pgconn))[:1]
        yield from fetch_many(pgconn)  # the end of the message
        pgconn.exit_pipeline_mode()
        return answers

    def _bound(self, statement: Statement) -> tuple[_Form, list[bytes | None] | None]:
        """A statement's form, and its binds in their order; None where it has none."""
        form = self._forms.get(statement.text)
        if form is None:
            form = self._forms[statement.text] = _Form(statement.text, self._encoding)
        params = statement.params
        return form, form.bound(params) if params else None

    def _send(
        self, pgconn: Any, form: _Form, values: list[bytes | None] | None
    ) -> tuple[_Form, bytes] | None:
        """Queue one statement; its form and name if it is prepared with it."""
        connection = self._connection
        threshold = connection.prepare_threshold
        if values is None or threshold is None:
            pgconn.send_query_params(form.query, values)
            return None
        known: bytes | None = connection._prepared._names.get(form.key)  # noqa: SLF001
        if known is not None:
            pgconn.send_query_prepared(known, values)
            return None
        if form.uses < threshold:
            form.uses += 1
            pgconn.send_query_params(form.query, values)
            return None
        # Counted anew, as psycopg does: it forgets what was prepared at each ROLLBACK, and sends
        # another message for that, so what is often rolled back is better not prepared.
        form.uses = 0
        self._prepared += 1
        name = f"_duly_{self._prepared}".encode()
        pgconn.send_prepare(name, form.query)
        pgconn.send_query_prepared(name, values)
        return form, name

    def checked(self, answers: list[PGresult]) -> list[PGresult]:
        """The same answers.

        Raises:
            psycopg.Error: One of the statements failed.
        """
        for answer in answers:
            if answer.status == ExecStatus.FATAL_ERROR:
                raise error_from_result(answer, encoding=self._encoding)
        return answers
