"""Plays of a real HTTP server that dies by SIGKILL at one boundary of a request, or when told to.

An ASGI application under uvicorn, a WSGI one under Werkzeug; both are behind the middleware.
"""

from __future__ import annotations

import json
import os
import signal
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import sqlalchemy
import uvicorn
from werkzeug.serving import run_simple

import duly
import duly.aio
from duly import testing
from duly.contrib import asgi, http, wsgi

if TYPE_CHECKING:
    from collections.abc import Iterator

BOUNDARIES: dict[str, tuple[str, Any] | None] = {
    "before the claim": ("Claim", "before"),
    "after the claim": ("Claim", "after"),
    "inside the handler": None,
    "after the seal": ("Seal", "after"),
    "before the commit": ("Commit", "before"),
    "before the first byte": ("Commit", "after"),
    "in the body": None,
}
"""In the order in which a request comes to them."""
COMMITTED = ("before the first byte", "in the body")
STOP = "/stop"
"""A server that gets this path dies, whatever it was to die of."""


def die() -> None:
    """End as a power cut would."""
    os.kill(os.getpid(), signal.SIGKILL)


def answer() -> bytes:
    """What nobody else ever answers, so that a replay can be told from a second run."""
    return json.dumps({"order": str(uuid4())}).encode()


def serve_asgi(order: dict[str, Any]) -> None:
    """Serve until the boundary of *order*."""
    app = duly.aio.App(order["url"])

    async def application(_scope: Any, receive: Any, send: Any) -> None:
        while (await receive()).get("more_body"):
            pass
        await http.connection().execute(sqlalchemy.text(order["sql"]))
        if order["boundary"] == "inside the handler":
            die()
        body = answer()
        headers = [(b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 201, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    served = asgi.IdempotencyMiddleware(
        application, app, scope=lambda _scope: order["scope"], wait=30.0
    )

    async def outermost(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path") == STOP:
            die()

        async def sent(message: Any) -> None:
            if order["boundary"] == "in the body" and message["type"] == "http.response.body":
                half = message["body"][: len(message["body"]) // 2]
                await send({**message, "body": half, "more_body": True})
                die()
            await send(message)

        await served(scope, receive, sent)

    with _fault(app, order):
        uvicorn.run(outermost, port=order["port"], log_level="warning", lifespan="off")


def serve_wsgi(order: dict[str, Any]) -> None:
    """Serve until the boundary of *order*."""
    app = duly.App(order["url"])

    def application(environ: Any, start_response: Any) -> list[bytes]:
        environ["wsgi.input"].read()
        http.connection().execute(sqlalchemy.text(order["sql"]))
        if order["boundary"] == "inside the handler":
            die()
        body = answer()
        start_response("201 Created", [("Content-Length", str(len(body)))])
        return [body]

    served = wsgi.IdempotencyMiddleware(
        application, app, scope=lambda _environ: order["scope"], wait=30.0
    )

    def outermost(environ: Any, start_response: Any) -> Iterator[bytes]:
        if environ["PATH_INFO"] == STOP:
            die()
        for part in served(environ, start_response):
            if order["boundary"] == "in the body":
                yield part[: len(part) // 2]
                die()
            yield part

    with _fault(app, order):
        run_simple("127.0.0.1", order["port"], outermost, threaded=True)


def _fault(app: Any, order: dict[str, Any]) -> Any:
    place = BOUNDARIES.get(order["boundary"])
    if place is None:
        return nullcontext()
    return testing.fault(app, op=place[0], when=place[1], kind="kill")
