"""Payments over HTTP with Starlette, inside its authentication: each Idempotency-Key pays once.

DULY_DATABASE_URL=sqlite:///shop.db uvicorn with_starlette:app
"""

import os
from typing import Any

from sqlalchemy import text
from starlette.applications import Starlette
from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from duly.contrib import http
from duly.contrib.asgi import IdempotencyMiddleware

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}


class Tokens(AuthenticationBackend):
    async def authenticate(self, conn: HTTPConnection) -> Any:
        name = TOKENS.get(conn.headers.get("authorization", "").removeprefix("Bearer "))
        return None if name is None else (AuthCredentials(["authenticated"]), SimpleUser(name))


def tenant(scope: Any) -> str | None:
    """The user that the middleware outside has found."""
    return str(scope["user"].display_name) if scope["user"].is_authenticated else None


async def pay(request: Request) -> JSONResponse:
    amount = (await request.json())["amount"]
    await http.connection().execute(
        text("INSERT INTO payment (amount) VALUES (:amount)"), {"amount": amount}
    )
    return JSONResponse({"paid": amount}, status_code=201)


app = Starlette(
    routes=[
        Route("/payments", pay, methods=["POST"]),
        Route("/refunds", pay, methods=["POST"]),
    ],
    middleware=[
        Middleware(AuthenticationMiddleware, backend=Tokens()),
        Middleware(IdempotencyMiddleware, database=os.environ["DULY_DATABASE_URL"], scope=tenant),
    ],
)
