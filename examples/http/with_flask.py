"""Payments over HTTP with Flask: each Idempotency-Key pays once.

DULY_DATABASE_URL=sqlite:///shop.db flask --app with_flask run
"""

import os
from typing import Any

from flask import Flask, request
from sqlalchemy import text

from duly.contrib import http
from duly.contrib.wsgi import IdempotencyMiddleware

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}


def tenant(environ: dict[str, Any]) -> str | None:
    """Whose key it is: somebody who has proved it."""
    return TOKENS.get(environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer "))


app = Flask(__name__)


@app.post("/payments")
@app.post("/refunds")
def pay() -> tuple[dict[str, int], int]:
    amount = request.get_json()["amount"]
    http.connection().execute(
        text("INSERT INTO payment (amount) VALUES (:amount)"), {"amount": amount}
    )
    return {"paid": amount}, 201


application = IdempotencyMiddleware(app.wsgi_app, os.environ["DULY_DATABASE_URL"], scope=tenant)
app.wsgi_app = application  # type: ignore[method-assign]
