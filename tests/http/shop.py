"""A shop that takes orders over HTTP, behind one of the middlewares, and its customers."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any

import httpx
import sqlalchemy

import duly
from duly.contrib import asgi, http, wsgi
from tests.contract.bank import UNITS, Bank

if TYPE_CHECKING:
    from collections.abc import Callable

Answer = tuple[int, list[tuple[str, str]], bytes]
OK: Answer = (
    201,
    [
        ("Content-Type", "application/json"), ("Set-Cookie", "session=1"),
        ("Date", "Wed, 02 Dec 2026 00:00:00 GMT"), ("X-Order", "7"),
    ],
    b'{"order": 7}',
)  # fmt: skip


class Shop(Bank):
    """A bank whose effects are ordered over HTTP.

    Attributes:
        doing: What the application answers after its effect; `OK` if nothing is said.
        calls: How often the application ran.
    """

    doing: Callable[[], Answer] | None = None
    calls = 0
    settings: dict[str, Any]

    def __init__(self, ledger: Any) -> None:
        super().__init__(ledger)
        self.settings = {"scope": self._scope, "wait": 10.0}

    @abstractmethod
    def _scope(self, request: Any) -> str | None:
        """The customer of a request."""

    @abstractmethod
    def send(self, request: httpx.Request) -> httpx.Response:
        """One request, through the middleware."""

    @property
    @abstractmethod
    def faults_of(self) -> Any:
        """The App, for `testing.fault`."""

    def scope_name(self, tenant: str) -> str:
        """A scope that no other test has."""
        return f"{self.job}/{tenant}"

    def post(
        self,
        key: str | None = "k-1",
        *,
        path: str = "/orders",
        method: str = "POST",
        tenant: str = "ann",
        headers: dict[str, Any] | None = None,
        **content: Any,
    ) -> httpx.Response:
        content = content or {"json": {"item": 1, "units": 2}}
        said = {} if key is None else {"Idempotency-Key": key}
        request = httpx.Request(
            method, f"http://shop{path}", headers={**said, "X-Tenant": tenant, **(headers or {})},
            **content,
        )  # fmt: skip
        return self.send(request)

    def at_once(self, times: int, **named: Any) -> list[httpx.Response]:
        """Equal requests at the same time."""
        assert self.faults_of is not None  # made here: threads would make one each
        with ThreadPoolExecutor(times) as pool:
            return list(pool.map(lambda _: self.post(**named), range(times)))

    @property
    def effects(self) -> int:
        """How many effects there are."""
        return self.units // UNITS

    def age(self, by: timedelta) -> None:
        """Let the stored answers be older."""
        us = by // timedelta(microseconds=1)
        self.run(
            f"UPDATE duly_http_key SET expires_us = expires_us - {us}"
            f" WHERE scope LIKE '{self.job}/%'"
        )


class WsgiShop(Shop):
    """Behind `duly.contrib.wsgi`."""

    @cached_property
    def faults_of(self) -> Any:
        return self.app(self.engine(pool_size=25))

    def _scope(self, environ: dict[str, Any]) -> str | None:
        tenant = environ.get("HTTP_X_TENANT")
        return self.scope_name(tenant) if tenant else None

    def _application(self, environ: Any, start_response: Any) -> list[bytes]:
        self.calls += 1
        environ["wsgi.input"].read()
        if http.is_lent():
            http.connection().execute(sqlalchemy.text(self.credit()))
        status, headers, body = OK if self.doing is None else self.doing()
        start_response(f"{status} Whatever", headers)
        return [body]

    @cached_property
    def _wrapped(self) -> wsgi.IdempotencyMiddleware:
        return wsgi.IdempotencyMiddleware(self._application, self.faults_of, **self.settings)

    def send(self, request: httpx.Request) -> httpx.Response:
        keys = [v for n, v in request.headers.raw if n.lower() == b"idempotency-key"]
        request.headers.pop("Idempotency-Key", None)
        # A server decodes headers as Latin-1 (PEP 3333); this transport knows ASCII alone.
        said = {"HTTP_IDEMPOTENCY_KEY": b",".join(keys).decode("latin-1")} if keys else {}
        transport = httpx.WSGITransport(lambda env, start: self._wrapped({**env, **said}, start))
        with httpx.Client(transport=transport) as client:
            return client.send(request)


class AsgiShop(Shop):
    """Behind `duly.contrib.asgi`, in an event loop of the test's own."""

    @cached_property
    def faults_of(self) -> Any:
        engine = self.aio_engine(pool_size=25)
        app = duly.aio.App(engine)
        self.on_close(lambda: self.loop.result(app.close()))
        return app

    def _scope(self, scope: dict[str, Any]) -> str | None:
        tenant = dict(scope["headers"]).get(b"x-tenant", b"").decode()
        return self.scope_name(tenant) if tenant else None

    async def _application(self, scope: Any, receive: Any, send: Any) -> None:
        self.calls += 1
        while (await receive()).get("more_body"):
            pass
        if http.is_lent():
            await http.connection().execute(sqlalchemy.text(self.credit()))
        status, headers, body = OK if self.doing is None else self.doing()
        raw = [(name.encode(), value.encode()) for name, value in headers]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await asyncio.sleep(0)
        await send({"type": "http.response.body", "body": body})

    @cached_property
    def _wrapped(self) -> asgi.IdempotencyMiddleware:
        return asgi.IdempotencyMiddleware(self._application, self.faults_of, **self.settings)

    def send(self, request: httpx.Request) -> httpx.Response:
        wrapped = self._wrapped

        async def sent() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(wrapped)) as client:
                return await client.send(request)

        found: httpx.Response = self.loop.result(sent())
        return found


def code_of(response: httpx.Response) -> str:
    """The code of an answer of the middleware's own."""
    assert response.headers["content-type"] == "application/problem+json"
    said = json.loads(response.content)
    assert said["status"] == response.status_code
    assert "\n" not in said["detail"]
    return str(said["code"])
