"""Requests that the middleware refuses: each with one clear answer, and nothing done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from duly import testing
from tests.http.shop import code_of

if TYPE_CHECKING:
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


def test_key_store_that_cannot_be_reached_is_503(shop: Shop) -> None:
    """Nothing was done, and the same request may be repeated."""
    with testing.fault(shop.faults_of, op="Begin", when="before", kind="raise", times=1000,
                       error=duly.ConnectionLost("away")):  # fmt: skip
        shop.settings["wait"] = 0.1
        response = shop.post()
    assert (response.status_code, code_of(response)) == (503, "store_unavailable")
    assert shop.calls == 0
    assert shop.post().status_code == 201


def test_connection_outside_a_request_is_refused() -> None:
    from duly.contrib import http

    assert not http.is_lent()
    for ask in (http.connection, http.session):
        with pytest.raises(duly.NoTransaction):
            ask()
