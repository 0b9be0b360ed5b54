"""HTTP idempotency for WSGI applications: Flask, Django, anything.

Decides how a WSGI request is read and answered; everything else is in `duly.contrib.http`. It
never calls `start_response` before the transaction has committed.
"""

from __future__ import annotations

import io
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from duly._core.idempotency import Answer, answer_of
from duly._sync.answering import Requested, StoreUnavailable
from duly._sync.app import App
from duly._sync.run import Lent
from duly.contrib.http import (
    LENGTH_DIGITS,
    Refusal,
    Settings,
    check_wrapped,
    final,
    lent,
    unavailable,
)
from duly.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from sqlalchemy.engine import URL, Engine

Environ = dict[str, Any]
StartResponse = "Callable[..., Any]"


class IdempotencyMiddleware:
    """Wraps a WSGI application, so that a request under one key takes effect once.

    Args:
        application: The WSGI application.
        database: A `duly.App`, or a URL or SQLAlchemy Engine; the business database itself.
        settings: As `duly.contrib.http.Settings` takes them; `scope=` is required.
    """

    def __init__(
        self, application: Callable[..., Any], database: App | str | URL | Engine, **settings: Any
    ) -> None:
        check_wrapped(application, settings)
        self._application = application
        self._app = database if isinstance(database, App) else App(database)
        self._settings: Settings[Environ] = Settings(**settings)

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        settings = self._settings
        answer: Answer | None = None
        try:
            if settings.concerns(environ["REQUEST_METHOD"]):
                value = environ.get("HTTP_IDEMPOTENCY_KEY")
                key = settings.key_of(environ, [] if value is None else [value])
                answer = None if key is None else self._answer(environ, key)
        except Refusal as refusal:
            answer = refusal.answer
        if answer is None:
            passed: Iterable[bytes] = self._application(environ, start_response)
            return passed
        start_response(_status_line(answer.status), list(answer.headers))
        return [answer.body]

    def _answer(self, environ: Environ, key: str) -> Answer:
        settings = self._settings
        scope = settings.scope_of(environ)
        body = self._body(environ)
        asked = settings.asked(
            scope,
            key,
            method=environ["REQUEST_METHOD"],
            path=environ.get("SCRIPT_NAME", "") + environ.get("PATH_INFO", ""),
            query=environ.get("QUERY_STRING", ""),
            media=environ.get("CONTENT_TYPE", ""),
            body=body,
        )

        def work(handle: Any) -> Answer:
            own = {**environ, "wsgi.input": io.BytesIO(body), "CONTENT_LENGTH": str(len(body))}
            own.pop("wsgi.input_terminated", None)
            with lent(handle):
                return settings.kept(_called(self._application, own))

        try:
            done = self._app._answer_once(asked, work, _Request, settings.wait_s)  # noqa: SLF001
        except StoreUnavailable as error:
            return unavailable(error)
        return final(done)

    def _body(self, environ: Environ) -> bytes:
        most = self._settings.body_max
        length = environ.get("CONTENT_LENGTH") or ""
        if length.isdecimal():
            if len(length) > LENGTH_DIGITS or int(length) > most:
                raise self._settings.too_large()
            body = _read(environ["wsgi.input"], int(length))
            if len(body) < int(length):  # the client is gone, or never meant what it said
                raise self._settings.incomplete(len(body), int(length))
            return body
        if not environ.get("wsgi.input_terminated"):
            return b""
        body = _read(environ["wsgi.input"], most + 1)
        if len(body) > most:
            raise self._settings.too_large()
        return body


class _Request(Requested, Lent):
    """One request, as a plain function works in its transaction."""


def _read(stream: Any, most: int) -> bytes:
    parts = []
    while most > 0 and (part := stream.read(most)):
        parts.append(part)
        most -= len(part)
    return b"".join(parts)


def _called(application: Callable[..., Any], environ: Environ) -> Answer:
    """What the application answers, to its last byte."""
    started: list[Any] = []
    parts: list[Any] = []

    def start_response(status: str, headers: Any, exc_info: Any = None) -> Callable[[bytes], Any]:
        if exc_info is None and started:
            raise UsageError(
                "the application called start_response twice, so its work was rolled back: let it"
                " call it once, or give exc_info"
            )
        started[:] = [status, headers]
        return parts.append

    found = application(environ, start_response)
    try:
        parts.extend(found)
    finally:
        if hasattr(found, "close"):
            found.close()
    if not started:
        raise UsageError(
            "the application never called start_response, so its work was rolled back: let it call"
            " it once for each request"
        )
    status, headers = started
    return answer_of(status, headers, parts)


def _status_line(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"{status} Unknown"
