"""HTTP idempotency for ASGI applications: FastAPI, Starlette, anything that awaits.

Decides how an ASGI request is read and answered; everything else is in `duly.contrib.http`. It
never sends `http.response.start` before the transaction has committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from duly._aio.app import App
from duly._aio.run import Lent
from duly._core.idempotency import Answer, answer_of
from duly._db.waiting import awaited
from duly._sync.answering import Requested, StoreUnavailable
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
    from collections.abc import Awaitable, Callable, MutableMapping

    from sqlalchemy.engine import URL
    from sqlalchemy.ext.asyncio import AsyncEngine

    Message = MutableMapping[str, Any]
    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]


class IdempotencyMiddleware:
    """Wraps an ASGI application, so that a request under one key takes effect once.

    Args:
        app: The ASGI application; the name is the one that frameworks call it by.
        database: A `duly.aio.App`, or a URL or SQLAlchemy AsyncEngine; the business database.
        settings: As `duly.contrib.http.Settings` takes them; `scope=` is required.
    """

    def __init__(
        self, app: Callable[..., Any], database: App | str | URL | AsyncEngine, **settings: Any
    ) -> None:
        check_wrapped(app, settings)
        self._application = app
        self._app = database if isinstance(database, App) else App(database)
        self._settings: Settings[Any] = Settings(**settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        settings = self._settings
        if scope["type"] != "http" or not settings.concerns(scope["method"]):
            await self._application(scope, receive, send)
            return
        try:
            key = settings.key_of(scope, _values(scope, b"idempotency-key"))
            if key is None:
                await self._application(scope, receive, send)
                return
            answer = await self._answer(scope, receive, key)
        except Refusal as refusal:
            answer = refusal.answer
        if answer is None:
            return  # the client went away before it had sent its request
        headers = [(n.lower().encode("latin-1"), v.encode("latin-1")) for n, v in answer.headers]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _answer(self, scope: Scope, receive: Receive, key: str) -> Answer | None:
        settings = self._settings
        whose = settings.scope_of(scope)
        body = await self._body(scope, receive)
        if body is None:
            return None
        raw: bytes = scope.get("raw_path") or scope["path"].encode("utf-8", "surrogatepass")
        asked = settings.asked(
            whose,
            key,
            method=scope["method"],
            path=raw.decode("latin-1"),
            query=scope.get("query_string", b"").decode("latin-1"),
            media="".join(_values(scope, b"content-type")[:1]),
            body=body,
        )

        def work(handle: Any) -> Answer:
            with lent(handle):
                return settings.kept(awaited(_called(self._application, scope, body, receive)))

        try:
            done = await self._app._answer_once(asked, work, _Request, settings.wait_s)  # noqa: SLF001
        except StoreUnavailable as error:
            return unavailable(error)
        return final(done)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        most = self._settings.body_max
        length = "".join(_values(scope, b"content-length")[:1])
        if length.isdecimal() and (len(length) > LENGTH_DIGITS or int(length) > most):
            raise self._settings.too_large()
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > most:
                raise self._settings.too_large()
            if not message.get("more_body"):
                return b"".join(parts)


class _Request(Requested, Lent):
    """One request, as a coroutine works in its transaction."""


def _values(scope: Scope, name: bytes) -> list[str]:
    return [value.decode("latin-1") for each, value in scope["headers"] if each.lower() == name]


async def _called(
    application: Callable[..., Any], scope: Scope, body: bytes, receive: Receive
) -> Answer:
    """What the application answers, to its last byte."""
    start: list[Message] = []
    parts: list[Any] = []
    given = False

    async def received() -> Message:
        nonlocal given
        if given:
            return await receive()  # http.disconnect, when it comes
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            start.append(message)
        elif message["type"] == "http.response.body":
            parts.append(message.get("body", b""))

    # Without the extensions, by which an answer could go past what is stored.
    own = {**scope, "extensions": {}}
    await application(own, received, sent)
    if not start:
        raise UsageError(
            "the application sent no answer, so its work was rolled back: let it send"
            " http.response.start and http.response.body for each request"
        )
    return answer_of(start[-1].get("status"), start[-1].get("headers", ()), parts)
