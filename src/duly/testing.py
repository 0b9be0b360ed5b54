"""Makes an attempt fail on purpose, so that its promise can be tested where it is kept.

`fault` fails one op of an App's attempts or prunes, before or after the op was performed; `cut`
takes a connection away as a dead network would. Both act on the shipped code, never on a copy of
it, and nothing stays behind when the `with` block is left.

    import duly.testing

    with duly.testing.fault(app, op="Commit", when="after", kind="raise") as injected:
        result = app.run("daily-credit", at="2026-09-13T00:00:00Z")
    assert injected.fired == 1
    assert result.outcome is duly.Outcome.APPLIED  # settled by asking the key
"""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, assert_never, get_args

from sqlalchemy import Connection

from duly._core import ops, retention
from duly._db.sessions.base import Session
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly._sync.app import App

__all__ = ["OPS", "Injected", "InjectedError", "Kind", "When", "cut", "fault"]

Kind: TypeAlias = Literal["raise", "cut", "kill", "interrupt", "terminate"]
"""What happens.

- `raise`: an error is raised; `error=` says which.
- `cut`: the connection goes away under the op, as if the network had; nothing is raised here.
- `kill`: this process ends at once by SIGKILL: nothing is flushed, closed or rolled back.
- `interrupt`: KeyboardInterrupt, as Ctrl-C raises it.
- `terminate`: SystemExit(143), as a handler of SIGTERM raises it.
"""
When: TypeAlias = Literal["before", "after"]

OPS: tuple[str, ...] = tuple(
    kind.__name__ for kind in dict.fromkeys((*get_args(ops.Op), *get_args(retention.PruneOp)))
)
"""The names of all ops, of attempts and of prunes; see `duly._core.ops` and `retention`."""

_SIGKILL = 9


class InjectedError(Exception):
    """What `kind="raise"` raises unless another error is given."""


@dataclass(slots=True)
class Injected:
    """What a fault has done so far.

    Attributes:
        seen: The ops that were performed while it was in force, in order; an op is in it as
            soon as it is begun.
        fired: How often the fault happened.
    """

    seen: list[str] = field(default_factory=list)
    fired: int = 0


@contextmanager
def fault(
    app: App,
    *,
    op: str,
    when: When = "after",
    kind: Kind = "raise",
    error: BaseException | None = None,
    times: int = 1,
    skip: int = 0,
) -> Iterator[Injected]:
    """Let an op of every attempt and prune of *app* fail, until the block is left.

    Blocks may be nested; the outer fault happens first. It acts in every thread of this process.

    Args:
        app: Whose attempts; a `duly.App`.
        op: The op's name, one of `OPS`: "Claim", "Seal", "Commit", …
        when: Before the op is performed, or after it was and before duly hears of it. After
            "Commit" the effect is there, and only the answer is lost.
        kind: What happens; see `Kind`.
        error: For `raise` only: the error itself, such as one of the driver's.
        times: How often, at most.
        skip: How many chances to let pass first.

    Yields:
        What the fault has seen and done.

    Raises:
        UsageError: There is no such op, kind or moment, or *error* does not go with *kind*.
    """
    if op not in OPS:
        raise UsageError(f"there is no op {op!r}: choose one of {', '.join(sorted(OPS))}")
    if kind not in get_args(Kind) or when not in get_args(When):
        kinds = ", ".join(get_args(Kind))
        raise UsageError(f"no fault is {kind!r} {when!r}: kinds are {kinds}; when: before, after")
    if error is not None and kind != "raise":
        raise UsageError(f"kind={kind!r} takes no error=: use kind='raise'")
    injected = Injected()
    chances = 0
    outer = app._probe  # noqa: SLF001 - the one door for faults, kept out of the public class

    def probe(moment: str, current: Any, target: Any) -> None:
        nonlocal chances
        if outer is not None:
            outer(moment, current, target)
        name = type(current).__name__
        if moment == "before":
            injected.seen.append(name)
        if name != op or moment != when:
            return
        chances += 1
        if chances <= skip or injected.fired >= times:
            return
        injected.fired += 1
        _happen(kind, error, target)

    app._probe = probe  # noqa: SLF001 - as above
    try:
        yield injected
    finally:
        app._probe = outer  # noqa: SLF001 - as above


def cut(connection: Any) -> None:
    """Take a connection away as a dead network does: neither side says goodbye.

    The server sees a client that is gone and rolls its transaction back. SQLite has no network:
    the connection is closed, which rolls back too.

    Args:
        connection: Of sqlite3, psycopg, PyMySQL or SQLAlchemy; in a handler, `run.connection`.

    Raises:
        UsageError: A connection of another kind.
    """
    if isinstance(connection, Connection):
        connection = connection.connection
    raw = getattr(connection, "driver_connection", connection)
    names = {f"{kind.__module__.split('.')[0]}.{kind.__name__}" for kind in type(raw).__mro__}
    if "sqlite3.Connection" in names:
        # The class's own, because duly lends connections that refuse to be closed.
        sqlite3.Connection.close(raw)
    elif "aiosqlite.Connection" in names:
        from duly._db.sessions.aiosqlite_driver import let_go

        let_go(raw)
    elif names & {"psycopg.Connection", "psycopg.AsyncConnection"}:
        if not raw.closed:
            with socket.socket(fileno=os.dup(raw.fileno())) as wire:
                _shut(wire)
    elif "asyncmy.Connection" in names:
        if raw.connected:
            _shut(raw._transport.get_extra_info("socket"))  # noqa: SLF001 - as below
    elif "pymysql.Connection" in names:
        if raw.open:
            _shut(raw._sock)  # noqa: SLF001 - PyMySQL shows its socket to nobody
    else:
        raise UsageError(
            f"cut takes a connection of sqlite3, psycopg, PyMySQL or SQLAlchemy, not"
            f" {type(raw).__module__}.{type(raw).__qualname__}"
        )


def _happen(kind: Kind, error: BaseException | None, target: Any) -> None:
    match kind:
        case "raise":
            raise error if error is not None else InjectedError("a fault was injected here")
        case "cut":
            session: Session = target if isinstance(target, Session) else target.session
            cut(session.driver)
        case "kill":
            os.kill(os.getpid(), _SIGKILL)
        case "interrupt":
            raise KeyboardInterrupt
        case "terminate":
            raise SystemExit(143)
        case _:
            assert_never(kind)


def _shut(wire: socket.socket) -> None:
    with suppress(OSError):  # it is gone already
        wire.shutdown(socket.SHUT_RDWR)
