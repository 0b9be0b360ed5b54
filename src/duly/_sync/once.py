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
from typing import TYPE_CHECKING, Any, ClassVar, Concatenate, ParamSpec

from sqlalchemy.engine import URL, Engine

from duly._core import ops
from duly._core.covers import Covers
from duly._core.payload import canonical, result_json
from duly._core.protocol import attempt
from duly._core.states import Outcome
from duly._db.connect import Database, not_a_database
from duly._sync.attempts import Attempts, ended
from duly._sync.claim import looks_old, ordinary, seconds
from duly._sync.manner import SYNCHRONOUS
from duly._sync.process import new_attempt_id
from duly._sync.readiness import Readiness
from duly._sync.refusals import loaded
from duly._sync.run import Attempted, Run
from duly._sync.work import Work
from duly.errors import HandlerInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from contextlib import AbstractContextManager
    from datetime import timedelta
    from types import TracebackType

    from duly._core.occurrence import Occurrence
    from duly._core.payload import Payload
    from duly._sync.manner import Manner
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


class Asking(Attempted):
    """A run that asks to be asked: what is the same in blocks that await."""

    value: Any = None
    _is_new = True
    _was_asked = False

    @property
    def is_new(self) -> bool:
        """Whether the key is this block's; everything it does belongs under `if run.is_new:`."""
        self._was_asked = True
        return self._is_new

    def require_asked(self) -> None:
        """Refuse a block that would do its work a second time on a duplicate.

        Raises:
            UsageError: It has not asked `is_new`.
        """
        if not self._was_asked:
            raise UsageError(
                f"{self.key}: the block of `with duly.once(…) as run` is entered on a duplicate"
                " too, so ask first: put all of its work under `if run.is_new:`"
            )

    def settled(self, value: Any) -> None:
        """It is the run of a duplicate, which lends nothing."""
        self._is_new, self.value = False, value

    def _lent(self) -> Lender:
        if not self._is_new:
            raise UsageError(
                f"{self.key} was applied before, by attempt {self.attempt}, so this block may"
                " change nothing: put its work under `if run.is_new:`"
            )
        self.require_asked()
        return super()._lent()

    def _require_open(self) -> None:
        self._lent()
        super()._require_open()


class OnceRun(Asking, Run):
    """What the block of `with duly.once(…) as run` gets: a run that asks to be asked.

    Attributes:
        value: The stored result; set it in the block, JSON-ready. For a duplicate, what the
            first one stored.
    """


class OnceBase:
    """What was given to `once`, for blocks and functions that await or do not."""

    # The block, as one writes it.
    block: ClassVar[str] = "with duly.once(…)"

    def __init__(
        self,
        database: Any,
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

    def _for_block(self, *, is_inside: bool) -> tuple[Occurrence, Payload]:
        """What a block is about.

        Raises:
            UsageError: It depends on arguments, or this object is inside a block already.
        """
        if callable(self._key) or callable(self._payload):
            raise UsageError(
                f"a `{self.block}` block has no arguments that a key or payload could be made"
                " from: give the key's text and the payload themselves"
            )
        if is_inside:
            raise UsageError(
                f"this {self.block} is inside its block already: make one for each block,"
                f" `{self.block.replace('…', 'engine, key')} as run:`"
            )
        return ordinary(self._key), canonical(self._payload)

    def _for_call(self, args: Any, named: Any) -> tuple[Occurrence, Payload]:
        """What one call of a decorated function is about."""
        key, payload = (
            given(*args, **named) if callable(given) else given
            for given in (self._key, self._payload)
        )
        return ordinary(key), canonical(payload)

    def _attempt(
        self,
        place: Place,
        occurrence: Occurrence,
        payload: Payload,
        handler: Callable[[Any], Any],
        run_class: type[Any],
    ) -> tuple[Work, Shell]:
        place.readiness.ensure()
        request = ops.Request(
            occurrence,
            payload.fingerprint,
            new_attempt_id(),
            looks_old=looks_old(occurrence),
            due_us=None if self._early else occurrence.nominal_us,
            repeatable=not issubclass(run_class, Asking),
            by_key=True,
        )
        attempts = place.attempts
        work = Work(
            request, payload, handler, None, UTC, "once", attempts.started_by, run_class=run_class
        )
        return work, attempts.shell(work, wait_s=self._wait_s)


class Once(OnceBase):
    """See `once`."""

    _entered: AbstractContextManager[OnceRun] | None = None

    # As a block

    def __enter__(self) -> OnceRun:
        entered = self._made(*self._for_block(is_inside=self._entered is not None))
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
    def _made(self, occurrence: Occurrence, payload: Payload) -> Generator[OnceRun, None, None]:
        place = place_of(self._database, self._schema)
        work, shell = self._attempt(place, occurrence, payload, end_of_block, OnceRun)
        driven: Generator[Any, None, ops.Report] = shell.drive_block(attempt(work.request))
        report = yield from driven
        place.database.attempt_ended(applied=report.outcome is Outcome.APPLIED)
        result = ended(work, shell, report, due_at=occurrence.nominal_time)
        if result.outcome is Outcome.DUPLICATE:
            run = duplicate(work, result)
            yield run
            run.require_asked()

    # As a decorator

    def __call__(self, function: Callable[Concatenate[Run, Params], Any]) -> Callable[Params, Any]:
        """*function* gets the run first, then its arguments; the caller gives those alone.

        Raises:
            HandlerInvalid: It is no plain function that takes the run.
        """

        @wraps(function)
        def call(*args: Params.args, **named: Params.kwargs) -> Any:
            occurrence, payload = self._for_call(args, named)
            place = place_of(self._database, self._schema)
            work, shell = self._attempt(
                place, occurrence, payload, lambda run: function(run, *args, **named), Run
            )
            report = shell.drive(attempt(work.request))
            place.database.attempt_ended(applied=report.outcome is Outcome.APPLIED)
            return ended(work, shell, report, due_at=occurrence.nominal_time).value

        # Whoever asks for the parameters, a web framework or a task queue, gives no run.
        vars(call)["__signature__"] = without_run(function, is_async=False)
        return call


class Place:
    """A database that was given to `once`, and what makes attempts on it."""

    def __init__(
        self, database: str | URL | Engine, schema: str | None, manner: Manner = SYNCHRONOUS
    ) -> None:
        self.database = Database(database, schema=schema, is_async=manner.is_async)
        self.attempts = Attempts(
            self.database, evidence_after_s=EVIDENCE_AFTER_S, started_by=None, manner=manner
        )
        self.readiness = Readiness(self.database)

    def close(self) -> None:
        """Let go of connections."""
        self.attempts.markers.close()
        self.database.engine.dispose()


def place_of(database: str | URL | Engine, schema: str | None) -> Place:
    """The one place for a URL, or for an Engine as long as it lives."""
    with _making:
        if isinstance(database, Engine):
            # On the engine itself: a table of engines would keep each of them for ever.
            places = vars(database).setdefault("duly_once", {})
            name: Any = schema
        elif not isinstance(database, str | URL):
            raise not_a_database(database, is_async=False)
        else:
            places = _by_url
            # A relative path means another file in another directory.
            name = (os.getcwd(), database, schema)
        if name not in places:
            places[name] = Place(database, schema)
        place: Place = places[name]
        return place


def end_of_block(run: Any) -> Any:
    """Stands for the handler when the block has come to its end."""
    run.require_asked()
    run.value = loaded(result_json(run.value))  # as a duplicate will see it
    return run.value


def duplicate(work: Work, result: Result) -> Any:
    """The run that the block of a duplicate gets."""
    nothing: Any = None  # it lends nothing
    run_class: Any = work.run_class
    run = run_class(
        work.occurrence,
        work.payload.value,
        result.attempt_id,
        zone=work.zone,
        schedule=None,
        covers=Covers(work.occurrence),
        lender=nothing,
    )
    run.settled(result.value)
    return run


def without_run(function: Any, *, is_async: bool) -> inspect.Signature:
    """The signature of a decorated function, for its callers.

    Raises:
        HandlerInvalid: It is of the other kind, or takes no run.
    """
    name = "@duly.aio.once" if is_async else "@duly.once"
    if not callable(function) or inspect.iscoroutinefunction(function) is not is_async:
        wanted = "an async function" if is_async else "a plain function"
        other = "duly.once" if is_async else "duly.aio.once"
        raise HandlerInvalid(
            f"{name} decorates {wanted}, not {_kind(function)}: write"
            f" `{'async def' if is_async else 'def'}`, or use {other}"
        )
    signature = inspect.signature(function)
    names = list(signature.parameters.values())
    if not names or names[0].kind not in {
        inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    }:  # fmt: skip
        raise HandlerInvalid(
            f"{function.__qualname__}() under {name} takes no run: let its first parameter be"
            " `run`, and do the work with run.execute, run.connection or run.session"
        )
    return signature.replace(parameters=names[1:])


def _kind(function: Any) -> str:
    named = getattr(function, "__qualname__", None)
    if named is None or not callable(function):
        return repr(function)[:100]
    return f"the {'async' if inspect.iscoroutinefunction(function) else 'plain'} function {named}"
