"""A relay, or a sender, in a process of its own, on PostgreSQL.

    python -m tests.outbox.listening '{"act": "relay", …}'

The relay looks at the outbox once, and then hourly unless it hears of a commit.
"""

from __future__ import annotations

import asyncio
import json
import sys
from datetime import datetime
from typing import Any

import duly
import duly.aio
from duly._sync import relay
from duly.channels import Http
from tests.contract.bank import async_url
from tests.contract.django_project import alias_of
from tests.servers.database import Database

NEVER_S = 3600.0


def serve(order: dict[str, Any]) -> None:
    """Deliver, until this process is killed."""
    if order["deaf"]:
        relay.FIRST_POLL_S = NEVER_S  # type: ignore[misc]
    poll = NEVER_S if order["deaf"] else 0.05
    if order["mode"] == "aio":
        asyncio.run(_serve(order, poll))
    else:
        app = _app(order)
        app.destination(order["to"], Http(order["peer"]))
        app.deliver(poll=poll)


def _app(order: dict[str, Any]) -> duly.App:
    if order["mode"] == "sync":
        return duly.App(order["url"], listen=True)
    alias = alias_of(Database("postgresql", order["url"]))
    from duly.contrib.django import App

    return App(alias, listen=True)


async def _serve(order: dict[str, Any], poll: float) -> None:
    async with duly.aio.App(async_url(order["url"]), listen=True) as app:
        app.destination(order["to"], Http(order["peer"]))
        await app.deliver(poll=poll)


def send(order: dict[str, Any]) -> None:
    """Commit one message, and end at once."""
    at = datetime.fromisoformat(order["at"])
    if order["mode"] == "aio":
        asyncio.run(_send(order, at))
    else:
        app = _app(order)
        app.destination(order["to"], Http(order["peer"]))
        app.job(order["job"])(lambda run: run.send(order["to"], {"n": 1}) and None)
        app.run(order["job"], at=at)


async def _send(order: dict[str, Any], at: datetime) -> None:
    app = duly.aio.App(async_url(order["url"]), listen=True)
    app.destination(order["to"], Http(order["peer"]))

    @app.job(order["job"])
    async def bill(run: duly.aio.Run) -> None:
        run.send(order["to"], {"n": 1})

    await app.run(order["job"], at=at)
    await app.close()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    {"relay": serve, "send": send}[given["act"]](given)
