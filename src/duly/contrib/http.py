"""HTTP idempotency, whatever the interface: its settings, its answers, the lent connection.

`duly.contrib.asgi` and `duly.contrib.wsgi` are the middlewares. Decides which answer each case
gets (docs/http.md); which requests are one is decided by `duly._core.idempotency`. It never
lets an answer out before its transaction committed.
"""

from __future__ import annotations

import json
import logging
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from duly._core import idempotency
from duly._core.idempotency import Answer, Asked
from duly._core.states import Disposition, Outcome
from duly._core.wording import shown
from duly._sync.answering import NotKept
from duly._sync.claim import seconds
from duly.errors import IncomingInvalid, NoTransaction, TransactionEnded, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from duly._sync.answering import Answered

__all__ = ["Settings", "connection", "is_lent", "session"]

log = logging.getLogger("duly.http")

MIB: Final = 1_048_576
RETRY_AFTER_S: Final = 1
KEEP_MAX: Final = timedelta(days=36_525)
LENGTH_DIGITS: Final = 18
"""A Content-Length that is longer is over every cap; Python refuses to read thousands of digits."""
NO_SCOPE: Final = (
    "scope= is required: a function of the request (ASGI scope or WSGI environ) that gives its"
    " tenant or principal; without one, a user would get another user's stored answer"
)
REPLAYED: Final = ("Idempotent-Replayed", "true")

Request = TypeVar("Request")
_current: ContextVar[Any] = ContextVar("duly_http", default=None)


def connection() -> Any:
    """The SQLAlchemy connection in the transaction of the request that is being handled.

    An `AsyncConnection` under `duly.contrib.asgi`. What is done on it is committed with the
    stored answer, or not at all; commit, rollback and close are refused.

    Raises:
        NoTransaction: The request has no idempotency key, or no middleware handles it.
    """
    return _lent().connection


def session() -> Any:
    """A SQLAlchemy ORM session in the same transaction: a `Session`, or an `AsyncSession`.

    Raises:
        NoTransaction: As `connection`.
    """
    return _lent().session


def _lent() -> Any:
    found = _current.get()
    if found is None:
        raise NoTransaction(
            "no request under an idempotency key is being handled here: ask whether there is one"
            " with duly.contrib.http.is_lent(), or require the key (required=True)"
        )
    return found


def is_lent() -> bool:
    """Whether `connection` would give one."""
    return _current.get() is not None


def check_wrapped(application: object, settings: Mapping[str, object]) -> None:
    """Refuse to wrap what is no application, or without a scope, or with an unknown setting.

    Raises:
        UsageError: One of them.
    """
    if not callable(application):
        raise UsageError(
            f"the application is {shown(application)}, which cannot be called: give the WSGI or"
            " ASGI application that the middleware wraps"
        )
    if "scope" not in settings:
        raise UsageError(NO_SCOPE)
    known = [each.name for each in fields(Settings)]
    if unknown := [name for name in settings if name not in known]:
        raise UsageError(f"{unknown[0]}= is no setting; there are {', '.join(known)}")


class Refusal(Exception):
    """A request that is answered without the application."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


def _below_500(status: int) -> bool:
    """A failure of the application's is not kept: the same request is made again."""
    return status < 500


@dataclass(frozen=True, kw_only=True)
class Settings(Generic[Request]):
    """How requests are told apart, and how long their answers live.

    Attributes:
        scope: Gives the tenant or principal of a request: an ASGI scope or a WSGI environ.
            Required: without one, a user would get another user's answer. None or "" refuses
            the request.
        methods: Of requests that may carry a key; others are passed on.
        required: A request of these methods without a key is refused; a function decides by
            request.
        keep: How long an answer is replayed; afterwards its key is refused for ever.
        wait: How long a request waits for another one under the same key; then it is told 409.
        body_max: Bytes of a request; a larger one is told 413.
        answer_max: Bytes of an answer that can be stored; a larger one is rolled back.
        commits: Whether the transaction of an answer with this status is committed, and the
            answer stored.
    """

    scope: Callable[[Request], str | None]
    methods: Sequence[str] = ("POST", "PATCH")
    required: bool | Callable[[Request], bool] = True
    keep: timedelta = timedelta(hours=24)
    wait: timedelta | float = 5.0
    body_max: int = MIB
    answer_max: int = MIB
    commits: Callable[[int], bool] = _below_500

    def __post_init__(self) -> None:
        if not callable(self.scope):
            raise UsageError(NO_SCOPE)
        keep: object = self.keep
        if not isinstance(keep, timedelta) or not timedelta(0) < keep <= KEEP_MAX:
            raise UsageError(
                f"keep={shown(self.keep)} is no time to keep an answer: give a timedelta, above"
                f" zero and at most {KEEP_MAX.days} days"
            )
        seconds(self.wait)
        for name in ("body_max", "answer_max"):
            most = getattr(self, name)
            if isinstance(most, bool) or not isinstance(most, int) or most < 0:
                raise UsageError(f"{name}={shown(most)} is no number of bytes: give 0 or more")
        if isinstance(self.methods, str) or not all(isinstance(m, str) for m in self.methods):
            raise UsageError(f'methods={shown(self.methods)}: give a list, such as ["POST"]')
        if not isinstance(self.required, bool) and not callable(self.required):
            raise UsageError(
                f"required={shown(self.required)}: give True, False, or a function of the request"
            )
        if not callable(self.commits):
            raise UsageError(f"commits={shown(self.commits)}: give a function of the status")

    @property
    def wait_s(self) -> float:
        """The wait in seconds."""
        return seconds(self.wait)

    def concerns(self, method: str) -> bool:
        """Whether a request of that method may carry a key."""
        return method.upper() in {each.upper() for each in self.methods}

    def key_of(self, request: Request, values: Sequence[str]) -> str | None:
        """The key of a request; None where it has none and needs none.

        Raises:
            Refusal: 400: it is missing or malformed.
        """
        try:
            key = idempotency.read_key(values)
        except IncomingInvalid as error:
            raise Refusal(problem(400, "key_malformed", error.message)) from error
        required = self.required(request) if callable(self.required) else self.required
        if key is None and required:
            raise Refusal(
                problem(
                    400,
                    "key_missing",
                    "this request needs the header Idempotency-Key: send one, such as a UUID, and"
                    " the same one when you repeat the request",
                )
            )
        return key

    def scope_of(self, request: Request) -> str:
        """Whose key it is.

        Raises:
            Refusal: 403: nobody's.
        """
        found = self.scope(request)
        if not found:
            raise Refusal(
                problem(
                    403,
                    "scope_missing",
                    "an idempotency key belongs to somebody: authenticate, then send it again",
                )
            )
        return idempotency.check_scope(found)

    def asked(
        self, scope: str, key: str, *, method: str, path: str, query: str, media: str, body: bytes
    ) -> Asked:
        """The request as the ledger knows it."""
        said = idempotency.fingerprint(method, path, query, media, body)
        return Asked(scope, key, said, self.keep // timedelta(microseconds=1))

    def kept(self, answer: Answer) -> Answer:
        """The application's answer, if its transaction is to be committed.

        Raises:
            NotKept: Its status says that it failed.
            UsageError: It is too large to be stored; nothing is kept.
        """
        if not self.commits(answer.status):
            raise NotKept(answer)
        if len(answer.body) > self.answer_max:
            raise UsageError(
                f"the answer has {len(answer.body)} bytes, and at most {self.answer_max} are stored"
                " under an idempotency key, so it was rolled back: answer with a link, or raise"
                " answer_max="
            )
        return answer

    def too_large(self) -> Refusal:
        """413, as the exception."""
        return Refusal(
            problem(
                413,
                "body_too_large",
                f"a request under an idempotency key has at most {self.body_max} bytes here",
            )
        )

    @staticmethod
    def incomplete(came: int, declared: int) -> Refusal:
        """400, as the exception: what the client meant to ask is not known."""
        return Refusal(
            problem(
                400,
                "body_incomplete",
                f"{came} of the {declared} bytes of the body came, and nothing was done: send the"
                " whole request again under the same key",
            )
        )


def final(done: Answered) -> Answer:
    """What goes out for a request that has ended.

    Raises:
        Exception: The application's own, or of its commit; nothing was kept.
    """
    report = done.report
    standing = report.standing
    if report.outcome is Outcome.APPLIED and done.answer is not None:
        return done.answer
    if report.outcome is Outcome.DUPLICATE and done.stored is not None:
        stored = done.stored
        return Answer(stored.status, [*stored.headers, REPLAYED], stored.body)
    if report.outcome is Outcome.FAILED and not report.unreachable:
        if isinstance(report.error, NotKept):
            return report.error.answer
        assert report.error is not None
        raise report.error
    if report.outcome is Outcome.CONFLICT:
        return problem(
            422,
            "key_reused",
            "this idempotency key was used with another request: send a new key with a new request",
        )
    if report.outcome is Outcome.BUSY:
        return problem(
            409,
            "in_progress",
            "a request under this idempotency key is being handled: repeat it a little later",
            retry_after=RETRY_AFTER_S,
        )
    if standing is not None and standing.disposition is Disposition.WAIVED:
        return problem(
            422,
            "key_expired",
            "this idempotency key was used long ago, and its answer is not kept any more: the"
            " request is not made again; look whether it took effect, or send a new key",
        )
    if report.outcome is Outcome.TORN or standing is not None:
        raise TransactionEnded(
            "the application ended duly's transaction while it handled a request under this"
            " idempotency key, so its effect may have landed: look at the data; the key stays"
            " refused"
        )
    return unavailable(
        f"whether a request under the idempotency key {shown(done.key)} was committed could not be"
        " learnt"
    )


def unavailable(why: object) -> Answer:
    """503: nothing is known to be done; the same request may be repeated."""
    said = f"{why}; the client was told to repeat its request with the same key, which decides"
    log.warning("http_keys_unavailable", extra={"error": said})
    return problem(
        503,
        "store_unavailable",
        "idempotency keys cannot be looked at now: repeat the request with the same key",
        retry_after=RETRY_AFTER_S,
    )


def problem(status: int, code: str, detail: str, *, retry_after: int | None = None) -> Answer:
    """An answer of the middleware's own (RFC 9457)."""
    body = json.dumps(
        {"type": f"urn:duly:http:{code}", "title": TITLES[status], "status": status,
         "code": code, "detail": detail}
    ).encode()  # fmt: skip
    headers = [
        ("Content-Type", "application/problem+json"),
        ("Content-Length", str(len(body))),
        ("Cache-Control", "no-store"),
    ]
    if retry_after is not None:
        headers.append(("Retry-After", str(retry_after)))
    return Answer(status, headers, body)


TITLES: Final = {
    400: "Bad Request",
    403: "Forbidden",
    409: "Conflict",
    413: "Content Too Large",
    422: "Unprocessable Content",
    503: "Service Unavailable",
}


class lent:  # noqa: N801 - a context manager, used as a function
    """While inside, `connection` gives the connection of *handle*."""

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def __enter__(self) -> None:
        self._token = _current.set(self._handle)

    def __exit__(self, *_ended: object) -> None:
        _current.reset(self._token)
