"""`duly.once`: one occurrence for code that defines no jobs, as a `with` block or a decorator.

It wires: the attempt is that of `App.run`, on a connection of duly's own. A block cannot be
skipped, so what it gets refuses all work until the block has asked whether there is any; and
a block cannot be entered twice, so contention inside it is told and never tried again.
"""

from __future__ import annotations

import inspect
import os
import threading
from contextlib import contextmanager
from datetime import UTC
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec

from sqlalchemy.engine import URL, Engine

from duly._core import ops
from duly._core.covers import Covers
from duly._core.payload import canonical, result_json
from duly._core.protocol import attempt
from duly._core.states import Outcome
from duly._db.connect import Database
from duly._sync.attempts import Attempts, ended
from duly._sync.claim import looks_old, ordinary, seconds
from duly._sync.process import new_attempt_id
from duly._sync.readiness import Readiness
from duly._sync.refusals import loaded
from duly._sync.run import Run
from duly._sync.work import Work
from duly.errors import HandlerInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from types import TracebackType

    from duly._core.occurrence import Occurrence
    from duly._core.payload import Payload
    from duly._sync.refusals import Result
    from duly._sync.run import Lender
    from duly._sync.shell import Shell

Params = ParamSpec("Params")

EVIDENCE_AFTER_S = 0.25
_by_url: dict[Any, Place] = {}
_making = threading.Lock()


def once(
    database: str | URL | Engine,
    key: Occurrence | str | Callable[..., Occurrence | str],
    *,
    payload: Any = None,
    schema: str | None = None,
    wait: timedelta | float = 10.0,
    early: bool = False,
) -> Once:
    """Do something once for a key, in a transaction of duly's own.

    As a block: `with duly.once(engine, key) as run:` with all its work under `if run.is_new:`.
    Until that is asked, and on a duplicate, *run* refuses every statement, so a block that does
    not ask makes no second effect. What the block sets as `run.value` is stored. A block cannot
    be entered twice: contention inside it is `Busy`, with nothing applied.

    As a decorator: `@duly.once(engine, key=lambda day: f"credit:{day}T00:00:00Z")` on a function
    that takes the run and then its own arguments. The first call for a key runs it; every later
    one returns the stored result. It may be called again after contention, as any handler.

    Args:
        database: A URL or a SQLAlchemy Engine; its pool is kept for the next time.
        key: The occurrence, or its key's text; for a decorator also what makes one from the
            arguments.
        payload: JSON-ready; the same key with another payload is refused. For a decorator
            also what makes it from the arguments.
        schema: Of the ledger, where it is not the connection's default.
        wait: How long to wait for a rival, as a timedelta or in seconds.
        early: The nominal time may lie in the future.

    Raises:
        PayloadConflict, AlreadySettled, Busy, Expired, TransactionEnded, NotDue,
        ConnectionLost, UsageError: By who must act, on entering the block or on its end.
        Exception: The block's own, unchanged, after it was recorded as `failed`.
    """
    return Once(database, key, payload=payload, schema=schema, wait_s=seconds(wait), early=early)


class OnceRun(Run):
    """What the block of `with duly.once(…) as run` gets: a run that asks to be asked.

    Attributes:
        value: The stored result; set it in the block, JSON-ready. For a duplicate, what the
            first one stored.
    """

    value: Any = None
    _is_new = True
    _was_asked = False

    @property
    def is_new(self) -> bool:
        """Whether the key is this block's; everything it does belongs under `if run.is_new:`."""
        self._was_asked = True
        return self._is_new

    def _lent(self) -> Lender:
        if not self._is_new:
            raise UsageError(
                f"{self.key} was applied before, by attempt {self.attempt}, so this block may"
                " change nothing: put its work under `if run.is_new:`"
            )
        self._require_asked()
        return super()._lent()

    def _require_open(self) -> None:
        self._lent()
        super()._require_open()

    def _require_asked(self) -> None:
        """Refuse a block that would do its work a second time on a duplicate.

        Raises:
            UsageError: It has not asked `is_new`.
        """
        if not self._was_asked:
            raise UsageError(
                f"{self.key}: the block of `with duly.once(…) as run` is entered on a duplicate"
                " too, so ask first: put all of its work under `if run.is_new:`"
            )


class _Settled(OnceRun):
    """The run of a duplicate, which lends nothing."""

    _is_new = False


class Once:
    """See `once`."""

    def __init__(
        self,
        database: str | URL | Engine,
        key: Any,
        *,
        payload: Any,
        schema: str | None,
        wait_s: float,
        early: bool,
    ) -> None:
        self._database = database
        self._key = key
        self._payload = payload
        self._schema = schema
        self._wait_s = wait_s
        self._early = early
        self._entered: AbstractContextManager[OnceRun] | None = None

    # As a block

    def __enter__(self) -> OnceRun:
        if callable(self._key) or callable(self._payload):
            raise UsageError(
                "a `with duly.once(…)` block has no arguments that a key or payload could be made"
                " from: give the key's text and the payload themselves"
            )
        if self._entered is not None:
            raise UsageError(
                "this duly.once is inside its block already: make one for each block, `with"
                " duly.once(engine, key) as run:`"
            )
        entered = self._block(ordinary(self._key), canonical(self._payload))
        run = entered.__enter__()
        self._entered = entered
        return run

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        entered, self._entered = self._entered, None
        assert entered is not None
        return entered.__exit__(kind, error, trace)

    @contextmanager
    def _block(self, occurrence: Occurrence, payload: Payload) -> Generator[OnceRun, None, None]:
        work, shell = self._attempt(occurrence, payload, _end_of_block, repeatable=False)
        driven: Generator[Any, None, ops.Report] = shell.drive_block(attempt(work.request))
        report = yield from driven
        result = ended(work, shell, report, due_at=occurrence.nominal_time)
        if result.outcome is Outcome.DUPLICATE:
            run = _duplicate(work, result)
            yield run
            run._require_asked()  # noqa: SLF001 - of a class in this module

    # As a decorator

    def __call__(self, function: Callable[Concatenate[Run, Params], Any]) -> Callable[Params, Any]:
        """*function* gets the run first, then its arguments; the caller gives those alone.

        Raises:
            HandlerInvalid: It is no plain function that takes the run.
        """

        @wraps(function)
        def call(*args: Params.args, **named: Params.kwargs) -> Any:
            key, payload = (
                given(*args, **named) if callable(given) else given
                for given in (self._key, self._payload)
            )
            occurrence = ordinary(key)
            work, shell = self._attempt(
                occurrence,
                canonical(payload),
                lambda run: function(run, *args, **named),
                repeatable=True,
            )
            report = shell.drive(attempt(work.request))
            return ended(work, shell, report, due_at=occurrence.nominal_time).value

        # Whoever asks for the parameters, a web framework or a task queue, gives no run.
        vars(call)["__signature__"] = _without_run(function)
        return call

    def _attempt(
        self,
        occurrence: Occurrence,
        payload: Payload,
        handler: Callable[[Any], Any],
        *,
        repeatable: bool,
    ) -> tuple[Work, Shell]:
        place = place_of(self._database, self._schema)
        place.readiness.ensure()
        request = ops.Request(
            occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(occurrence),
            due_us=None if self._early else occurrence.nominal_us,
            repeatable=repeatable,
        )
        attempts = place.attempts
        work = Work(
            request, payload, handler, None, UTC, "once", attempts.started_by,
            run_class=Run if repeatable else OnceRun,
        )  # fmt: skip
        return work, attempts.shell(work, wait_s=self._wait_s)


class Place:
    """A database that was given to `once`, and what makes attempts on it."""

    def __init__(self, database: str | URL | Engine, schema: str | None) -> None:
        self.database = Database(database, schema=schema)
        self.attempts = Attempts(self.database, evidence_after_s=EVIDENCE_AFTER_S, started_by=None)
        self.readiness = Readiness(self.database)


def place_of(database: str | URL | Engine, schema: str | None) -> Place:
    """The one place for a URL, or for an Engine as long as it lives."""
    with _making:
        if isinstance(database, Engine):
            # On the engine itself: a table of engines would keep each of them for ever.
            places = vars(database).setdefault("duly_once", {})
            name: Any = schema
        else:
            places = _by_url
            # A relative path means another file in another directory.
            name = (os.getcwd(), database, schema)
        if name not in places:
            places[name] = Place(database, schema)
        place: Place = places[name]
        return place


def _end_of_block(run: OnceRun) -> Any:
    """Stands for the handler when the block has come to its end."""
    run._require_asked()  # noqa: SLF001 - of a class in this module
    run.value = loaded(result_json(run.value))  # as a duplicate will see it
    return run.value


def _duplicate(work: Work, result: Result) -> OnceRun:
    nothing: Any = None  # it lends nothing
    run = _Settled(
        work.occurrence,
        work.payload.value,
        result.attempt_id,
        zone=work.zone,
        schedule=None,
        covers=Covers(work.occurrence),
        lender=nothing,
    )
    run.value = result.value
    return run


def _without_run(function: Any) -> inspect.Signature:
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise HandlerInvalid(
            f"@duly.once decorates a plain function, not {_kind(function)}: use `def`, and no await"
        )
    signature = inspect.signature(function)
    names = list(signature.parameters.values())
    if not names or names[0].kind not in {
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    }:  # fmt: skip
        raise HandlerInvalid(
            f"{function.__qualname__}() under @duly.once takes no run: let its first parameter be"
            " `run`, and do the work with run.execute, run.connection or run.session"
        )
    return signature.replace(parameters=names[1:])


def _kind(function: Any) -> str:
    named = getattr(function, "__qualname__", None)
    return f"the async function {named}" if named else repr(function)
