"""Payments over HTTP with FastAPI: each Idempotency-Key pays once.

DULY_DATABASE_URL=sqlite:///shop.db uvicorn with_fastapi:app
"""

import os
from typing import Any

from fastapi import FastAPI
from pydantic import BaseModel
from sqlalchemy import text

from duly.contrib import http
from duly.contrib.asgi import IdempotencyMiddleware

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}


def tenant(scope: Any) -> str | None:
    """Whose key it is: somebody who has proved it."""
    header = dict(scope["headers"]).get(b"authorization", b"").decode()
    return TOKENS.get(header.removeprefix("Bearer "))


class Payment(BaseModel):
    amount: int


app = FastAPI()
app.add_middleware(IdempotencyMiddleware, database=os.environ["DULY_DATABASE_URL"], scope=tenant)


@app.post("/payments", status_code=201)
@app.post("/refunds", status_code=201)
async def pay(payment: Payment) -> dict[str, int]:
    await http.connection().execute(
        text("INSERT INTO payment (amount) VALUES (:amount)"), {"amount": payment.amount}
    )
    return {"paid": payment.amount}
