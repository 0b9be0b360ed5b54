"""Requests that the middleware refuses: each with one clear answer, and nothing done."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from duly._core.idempotency import fingerprint
from duly.contrib import asgi, wsgi
from tests.http.shop import OK, AsgiShop, code_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.http.shop import Shop


@pytest.mark.parametrize(
    "key",
    ["", '""', '"', 'a"b', '"a', "a b", '"a\\b"', "x" * 256, "\u00fc", '"\u00fc"', "\x80", "a\x7f"],
)
def test_malformed_key_is_refused(shop: Shop, key: str) -> None:
    """Also one whose bytes are no ASCII, whatever encoding they are in."""
    for sent in (key.encode("latin-1"), key.encode("utf-8")):
        response = shop.post(None, headers={"Idempotency-Key": sent})
        assert (response.status_code, code_of(response)) == (400, "key_malformed")
    assert shop.calls == 0


def test_missing_key_is_refused_where_it_is_required(shop: Shop) -> None:
    response = shop.post(None)
    assert (response.status_code, code_of(response)) == (400, "key_missing")
    assert shop.calls == 0


def test_body_over_the_cap_is_refused_unread(shop: Shop) -> None:
    shop.settings["body_max"] = 100
    assert shop.post(content=b"x" * 100).status_code == 201
    response = shop.post("k-2", content=b"x" * 101)
    assert (response.status_code, code_of(response)) == (413, "body_too_large")
    assert shop.calls == 1


def test_body_that_was_cut_off_is_refused_and_leaves_its_key(wsgi_shop: Shop) -> None:
    """Half a request is none: the application does not see it, and the whole one is the first."""
    whole = b"pay 1000 to bob"
    declared = {"Content-Type": "text/plain", "Content-Length": str(len(whole))}
    cut = wsgi_shop.post(content=whole[:8], headers=declared)
    assert (cut.status_code, code_of(cut)) == (400, "body_incomplete")
    assert (wsgi_shop.calls, wsgi_shop.effects) == (0, 0)
    assert wsgi_shop.post(content=whole, headers=declared).status_code == 201
    assert wsgi_shop.effects == 1


def test_key_store_that_cannot_be_reached_is_503(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing was done, and the same request may be repeated."""
    with testing.fault(shop.faults_of, op="Begin", when="before", kind="raise", times=1000,
                       error=duly.ConnectionLost("away")):  # fmt: skip
        shop.settings["wait"] = 0.1
        response = shop.post()
    assert (response.status_code, code_of(response)) == (503, "store_unavailable")
    [record] = [each for each in caplog.records if each.name == "duly.http"]
    assert record.__dict__["error"].endswith(
        "to repeat its request with the same key, which decides"
    )
    assert shop.calls == 0
    assert shop.post().status_code == 201


def test_connection_outside_a_request_is_refused() -> None:
    from duly.contrib import http

    assert not http.is_lent()
    for ask in (http.connection, http.session):
        with pytest.raises(duly.NoTransaction):
            ask()


# ------------------------------------------------------------------------------- what is set up


@pytest.mark.parametrize("middleware", [asgi.IdempotencyMiddleware, wsgi.IdempotencyMiddleware])
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"keep": 2}, "keep=2 is no time.*timedelta"),
        ({"keep": "1d"}, "keep='1d' is no time"),
        ({"keep": timedelta(0)}, "keep=0:00:00 is no time"),
        ({"keep": timedelta.max}, "at most 36525 days"),
        ({"wait": -1}, "-1 is no wait"),
        ({"body_max": -1}, "body_max=-1 is no number of bytes"),
        ({"body_max": 1.5}, "body_max=1.5 is no number of bytes"),
        ({"answer_max": True}, "answer_max=True is no number of bytes"),
        ({"methods": "POST"}, "methods='POST'"),
        ({"methods": [b"POST"]}, r"give a list, such as \["),
        ({"required": None}, "required=None"),
        ({"commits": 500}, "commits=500: give a function"),
        ({"scope": "ann"}, "scope= is required"),
        ({"scope": str, "requires": True}, "requires= is no setting; there are scope, methods"),
    ],
    ids=str,
)
def test_setting_that_cannot_be_is_refused_when_the_middleware_is_made(
    middleware: Any, settings: dict[str, Any], said: str, tmp_path: Any
) -> None:
    """The process does not start, instead of each request failing."""
    with pytest.raises(duly.UsageError, match=said) as caught:
        middleware(print, f"sqlite:///{tmp_path}/x.db", **{"scope": str, **settings})
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("middleware", [asgi.IdempotencyMiddleware, wsgi.IdempotencyMiddleware])
def test_what_is_no_application_is_refused_when_the_middleware_is_made(
    middleware: Any, tmp_path: Any
) -> None:
    with pytest.raises(duly.UsageError, match="which cannot be called"):
        middleware(None, f"sqlite:///{tmp_path}/x.db", scope=str)


@pytest.mark.parametrize("scope", ["a\ud800", "a\0", "x" * 201, b"ann", 7], ids=repr)
def test_scope_that_no_database_can_hold_is_refused(shop: Shop, scope: Any) -> None:
    """In duly's words, on every database, before the application runs."""
    shop.settings["scope"] = lambda _request: scope
    with pytest.raises(duly.UsageError, match=r"^the scope of an idempotency key"):
        shop.post()
    assert (shop.calls, shop.effects) == (0, 0)


def test_length_of_thousands_of_digits_is_over_every_cap(shop: Shop) -> None:
    """Python refuses to read such a number."""
    response = shop.post(content=b"x", headers={"Content-Length": "9" * 5000})
    assert (response.status_code, code_of(response), shop.calls) == (413, "body_too_large", 0)


def test_path_that_is_no_text_has_a_fingerprint_of_its_own() -> None:
    """A server that passes half of a surrogate pair on does not end in an encoding's error."""
    found = {
        fingerprint("POST", path, "", "", b"") for path in ("/\ud800", "/\udc80", "/\x80", "/")
    }
    assert len(found) == 4


# -------------------------------------------------------------------------- what is no answer

BAD: dict[str, tuple[Callable[[], Any], str]] = {
    "early": (lambda: (103, OK[1], b""), "the status"),
    "none": (lambda: (99, OK[1], b""), "the status"),
    "name": (lambda: (201, [("X Order", "7")], b""), "the header 'X Order'"),
    "break": (lambda: (201, [("X-Order", "7\r\nSet-Cookie: a=b")], b""), "the header 'X-Order'"),
    "body": (lambda: (201, OK[1], "text"), "a body of 'text'"),
}


@pytest.mark.parametrize("bad", BAD)
def test_answer_that_no_server_can_send_is_rolled_back(shop: Shop, bad: str) -> None:
    """Stored, it would fail again for each request under its key; so the key stays free."""
    doing, said = BAD[bad]
    shop.doing = doing
    with pytest.raises(duly.UsageError, match=f"{said}.*its work was rolled back"):
        shop.post()
    assert (shop.calls, shop.effects) == (1, 0)
    shop.doing = None
    assert shop.post().status_code == 201
    assert shop.effects == 1


@pytest.mark.parametrize(
    "status", ["banana", "", "2000", "20", "\u0662\u0660\u0660 OK", None, 200.5]
)
def test_status_line_that_cannot_be_read_is_rolled_back(wsgi_shop: Shop, status: Any) -> None:
    def application(environ: Any, start_response: Any) -> list[bytes]:
        start_response(status, [])
        return []

    wrapped: Any = wsgi.IdempotencyMiddleware(
        application, wsgi_shop.faults_of, **wsgi_shop.settings
    )
    wsgi_shop.__dict__["_wrapped"] = wrapped
    with pytest.raises(duly.UsageError, match="answered with the status"):
        wsgi_shop.post()


def test_application_without_an_answer_is_told_so(shop: Shop) -> None:
    """Neither interface lets an application end without one; its work is rolled back."""

    async def silent(*_asgi: Any) -> None:
        shop.calls += 1

    def quiet(*_wsgi: Any) -> list[bytes]:
        shop.calls += 1
        return [b"x"]

    made: Any = asgi if isinstance(shop, AsgiShop) else wsgi
    application = silent if made is asgi else quiet
    wrapped = made.IdempotencyMiddleware(application, shop.faults_of, **shop.settings)
    shop.__dict__["_wrapped"] = wrapped
    with pytest.raises(duly.UsageError, match="its work was rolled back"):
        shop.post()
    assert shop.calls == 1


def test_start_response_twice_is_refused(wsgi_shop: Shop) -> None:
    def application(_environ: Any, start_response: Any) -> list[bytes]:
        start_response("200 OK", [])
        start_response("201 Created", [])
        return []

    wrapped = wsgi.IdempotencyMiddleware(application, wsgi_shop.faults_of, **wsgi_shop.settings)
    wsgi_shop.__dict__["_wrapped"] = wrapped
    with pytest.raises(duly.UsageError, match="called start_response twice"):
        wsgi_shop.post()
