"""One attempt from the command line: whose error it was, and what a stop left behind.

Decides that what came out of the handler is the handler's, whatever its class, by the
identity of the exception object. It never decides about an effect, and asks the database
before it says that one is there.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from duly._cli import stopping
from duly._cli.exits import HandlerFailed
from duly._core.states import Disposition
from duly._db.dialects import ErrorKind
from duly._db.translate import public_error
from duly.errors import DulyError, ResultInvalid, SwallowedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._sync.app import App
    from duly._sync.refusals import Result
    from duly._sync.run import Run


class Watch:
    """Remembers what went into one job's handler, and what came out.

    Attributes:
        run: Of the latest call; None before the first.
        raised: The very exception that left the handler.
        returned: The handler came to its end.
    """

    def __init__(self, app: App, job: str) -> None:
        self.run: Run | None = None
        self.raised: BaseException | None = None
        self.returned = False
        if job in app.jobs:
            found = app.jobs[job]
            app.jobs[job] = replace(found, handler=self._around(found.handler))

    def _around(self, handler: Callable[[Run], Any]) -> Callable[[Run], Any]:
        def watched(run: Run) -> Any:
            self.run, self.raised, self.returned = run, None, False
            try:
                value = handler(run)
            except BaseException as error:
                self.raised = error
                raise
            self.returned = True
            return value

        return watched


def attempted(app: App, job: str, start: Callable[[], Result | None]) -> Result | None:
    """What *start* returns, its errors told apart.

    Args:
        job: Whose handler *start* may call.

    Raises:
        HandlerFailed: The handler raised, or what it did or returned could not be kept.
        AttemptStopped: A signal ended it.
        DulyError: As *start*.
    """
    watch = Watch(app, job)
    try:
        return start()
    except BaseException as error:
        number = stopping.signal_of(error)
        if number is not None:
            raise _stopped(app, watch, error, number) from error
        if watch.run is None:
            raise
        lost = app.database.dialect.classify(error) is ErrorKind.LOST
        if lost and not isinstance(error, DulyError):
            raise (
                public_error(app.database.dialect, error, app.database.where) or error
            ) from error
        if _is_the_handlers(app, watch, error):
            raise HandlerFailed(
                error, key=watch.run.key, attempt_id=str(watch.run.attempt)
            ) from error
        raise


def _is_the_handlers(app: App, watch: Watch, error: BaseException) -> bool:
    if error is watch.raised:
        return True
    if not watch.returned:
        return False
    # It came to its end, and what it left could not be committed: a result that is no JSON,
    # a hidden error, a constraint of the user's that is deferred to the commit.
    refused = app.database.dialect.classify(error) is not None
    return refused or isinstance(error, ResultInvalid | SwallowedError)


def _stopped(app: App, watch: Watch, error: BaseException, number: int) -> stopping.AttemptStopped:
    if watch.run is None:
        return stopping.AttemptStopped(
            number, "before the handler began, so nothing was done", fate="not_begun", key=None
        )
    key = watch.run.key
    fate = "rolled_back" if error is watch.raised else _fate(app, watch.run)
    said = {
        "rolled_back": f"rolled back; {key} is not done, run it again",
        "settled": f"{key} was applied first, its commit was already on its way",
        "unknown": f"what became of {key} could not be learnt; run it again, the key decides",
    }[fate]
    return stopping.AttemptStopped(number, said, fate=fate, key=key)


def _fate(app: App, run: Run) -> str:
    """What the database says about an attempt whose handler had come to its end."""
    try:
        settled = app.explain(run.occurrence).settled
    except BaseException:
        return "unknown"
    if settled is None:
        return "rolled_back"
    mine = settled.attempt_id == run.attempt and settled.disposition is Disposition.APPLIED
    return "settled" if mine and settled.sealed else "unknown"
