"""HTTP idempotency, by the table: one effect, one answer, nothing released before the commit."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from duly.contrib import asgi, wsgi
from tests.http.shop import OK, WsgiShop, code_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Ledger
    from tests.http.shop import Shop
    from tests.servers.database import DatabaseName

HOUR = timedelta(hours=1)


def fail() -> Any:
    raise LookupError("the application failed")


# ------------------------------------------------------------------------------ the first, again


def test_equal_request_gets_the_stored_answer_and_makes_no_second_effect(shop: Shop) -> None:
    first, again = shop.post(), shop.post()
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content == OK[2]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert (shop.effects, shop.calls) == (1, 1)


def test_replay_leaves_out_what_belongs_to_the_first_answer_alone(shop: Shop) -> None:
    """No session, no date, no authentication is repeated to whoever asks again."""
    first, again = shop.post(), shop.post()
    assert first.headers["set-cookie"] == "session=1"
    assert again.headers["x-order"] == "7"
    assert not {"set-cookie", "date"} & set(again.headers)


def test_bare_and_quoted_spelling_of_a_key_are_one_key(shop: Shop) -> None:
    shop.post("k-1")
    assert shop.post('"k-1"').headers["idempotent-replayed"] == "true"
    assert shop.effects == 1


def test_other_key_is_another_request(shop: Shop) -> None:
    shop.post("k-1")
    shop.post("k-2")
    assert shop.effects == 2


def test_key_of_another_method_is_passed_on(shop: Shop) -> None:
    """GET, PUT and DELETE are idempotent by themselves."""
    for _ in range(2):
        assert shop.post(method="PUT").status_code == 201
    assert (shop.effects, shop.calls) == (0, 2)


def test_request_without_a_key_is_passed_on_where_none_is_required(shop: Shop) -> None:
    shop.settings["required"] = False
    for _ in range(2):
        assert shop.post(None).status_code == 201
    assert shop.calls == 2


# -------------------------------------------------------------------------------------- M09, M10


def test_m09_answer_of_one_user_is_never_given_to_another(shop: Shop) -> None:
    """M09: the same key of another tenant is another key."""
    shop.post(tenant="ann")
    other = shop.post(tenant="bob")
    assert "idempotent-replayed" not in other.headers
    assert shop.effects == 2


@pytest.mark.parametrize("middleware", [asgi.IdempotencyMiddleware, wsgi.IdempotencyMiddleware])
def test_m09_middleware_without_a_scope_is_refused(middleware: Any, tmp_path: Any) -> None:
    """M09: the scope is no option."""
    with pytest.raises(duly.UsageError, match="another user"):
        middleware(lambda: None, f"sqlite:///{tmp_path}/x.db")


def test_m09_request_of_nobody_is_refused(shop: Shop) -> None:
    """A key without an owner would be everybody's."""
    response = shop.post(tenant="")
    assert (response.status_code, code_of(response)) == (403, "scope_missing")
    assert shop.calls == 0


def test_m09_expired_key_is_refused_and_never_run_again(shop: Shop) -> None:
    """M09: neither a second effect nor 409 for ever."""
    shop.post()
    shop.age(25 * HOUR)
    for _ in range(2):
        response = shop.post()
        assert (response.status_code, code_of(response)) == (422, "key_expired")
    assert shop.calls == 1


def test_m09_tombstone_of_a_key_outlives_its_answer(shop: Shop) -> None:
    """What a prune deletes is the answer, not the key."""
    shop.post()
    shop.age(25 * HOUR)
    app = shop.app()
    app.prune_inbox(older_than=timedelta(days=400))
    rows = shop.run(f"SELECT body, headers FROM duly_http_key WHERE scope LIKE '{shop.job}/%'")
    assert rows == [(None, None)]
    shop.age(-25 * HOUR)
    assert code_of(shop.post()) == "key_expired"
    assert shop.effects == 1


def test_m10_commit_that_fails_after_the_handler_shows_the_client_no_2xx(shop: Shop) -> None:
    """M10: the client sees a success only if it is there."""
    shop.settings["wait"] = 0.3
    with testing.fault(shop.faults_of, op="Commit", when="before", times=100):
        response = shop.post()
    assert (response.status_code, code_of(response)) == (503, "store_unavailable")
    assert shop.effects == 0
    assert shop.post().status_code == 201
    assert shop.effects == 1


def test_m10_commit_that_the_database_refuses_shows_the_client_no_2xx(
    ledgers: Callable[[DatabaseName], Ledger],
) -> None:
    """M10: a constraint that is checked at the commit."""
    shop = WsgiShop(ledgers("postgresql"))
    table = f"late_{shop.account}"
    shop.run(f"CREATE TABLE {table} (id INTEGER UNIQUE DEFERRABLE INITIALLY DEFERRED)")

    def twice() -> Any:
        from sqlalchemy import text

        from duly.contrib import http

        for _ in range(2):
            http.connection().execute(text(f"INSERT INTO {table} VALUES (1)"))
        return OK

    shop.doing = twice
    with pytest.raises(Exception, match="duplicate key"):
        shop.post()
    shop.doing = None
    assert shop.effects == 0
    assert shop.post().status_code == 201
    shop.close()


def test_m10_connection_cut_before_the_commit_shows_a_success_only_if_it_is_there(
    shop: Shop,
) -> None:
    """M10: a server's is tried again, and SQLite's too, whoever closed it."""
    with testing.fault(shop.faults_of, op="Commit", when="before", kind="cut"):
        assert shop.post().status_code == 201
    assert shop.effects == 1
    assert shop.post().status_code == 201
    assert shop.effects == 1


@pytest.mark.parametrize("kind", ["raise", "cut"])
def test_commit_whose_answer_was_lost_is_a_success_that_is_there(
    shop: Shop, kind: testing.Kind
) -> None:
    """The key is asked again before anything is said."""
    with testing.fault(shop.faults_of, op="Commit", when="after", kind=kind) as injected:
        response = shop.post()
    assert injected.fired == 1
    assert (response.status_code, response.content, shop.effects) == (201, OK[2], 1)
    assert shop.post().headers["idempotent-replayed"] == "true"


def test_no_byte_of_the_answer_goes_out_before_the_commit(shop: Shop) -> None:
    """While the transaction is open, the client has nothing."""
    seen: list[str] = []

    def probe(moment: str, op: Any, _target: Any) -> None:
        if moment == "after" and type(op).__name__ == "Commit":
            seen.append("committed")

    def looked() -> Any:
        seen.append("answered")
        return OK

    shop.faults_of._probe = probe
    shop.doing = looked
    shop.post()
    assert seen == ["answered", "committed"]


# --------------------------------------------------------------------------- what is one request


def test_same_key_with_another_path_query_method_or_media_type_is_refused(shop: Shop) -> None:
    shop.post(content=b"x", headers={"Content-Type": "text/plain"})
    for other in (
        {"path": "/refunds"},
        {"path": "/orders?express=1"},
        {"method": "PATCH"},
        {"headers": {"Content-Type": "text/html"}},
    ):
        named: dict[str, Any] = {"headers": {"Content-Type": "text/plain"}, **other}
        response = shop.post(content=b"x", **named)
        assert (response.status_code, code_of(response)) == (422, "key_reused"), other
    assert shop.calls == 1


def test_json_in_another_key_order_is_the_same_request(shop: Shop) -> None:
    """A client that builds its request again does not always build the same bytes."""
    headers = {"Content-Type": "application/json; charset=utf-8"}
    shop.post(content=b'{"item": 1, "units": 2.0}', headers=headers)
    again = shop.post(content=b'{"units":2,"item":1}', headers=headers)
    other = shop.post(content=b'{"units":3,"item":1}', headers=headers)
    assert again.headers["idempotent-replayed"] == "true"
    assert code_of(other) == "key_reused"
    assert shop.effects == 1


def test_multipart_with_another_boundary_is_the_same_request(shop: Shop) -> None:
    """Every repetition of a form draws a new boundary."""

    def form(boundary: str, text: str) -> dict[str, Any]:
        body = f'--{boundary}\r\nContent-Disposition: form-data; name="a"\r\n\r\n{text}\r\n'
        content = f"{body}--{boundary}--\r\n".encode()
        return {
            "content": content,
            "headers": {"Content-Type": f"multipart/form-data; boundary={boundary}"},
        }

    shop.post(**form("one", "x"))
    assert shop.post(**form("two-2", "x")).headers["idempotent-replayed"] == "true"
    assert code_of(shop.post(**form("three", "y"))) == "key_reused"
    assert shop.effects == 1


# ------------------------------------------------------------------------------ at the same time


def test_twenty_equal_requests_at_once_make_one_effect(shop: Shop) -> None:
    """One 2xx of the application's, the rest the identical replay."""
    responses = shop.at_once(20)
    fresh = [each for each in responses if "idempotent-replayed" not in each.headers]
    assert [each.status_code for each in responses] == [201] * 20
    assert len(fresh) == 1
    assert {each.content for each in responses} == {OK[2]}
    assert (shop.effects, shop.calls) == (1, 1)


def test_twenty_equal_requests_that_do_not_wait_make_one_effect(shop: Shop) -> None:
    """One 2xx of the application's, the rest 409 or the identical replay."""
    shop.settings["wait"] = 0.05
    ended = threading.Semaphore(0)

    def slowly() -> Any:
        if isinstance(shop, WsgiShop):
            ended.acquire(timeout=0.5)
        return OK

    shop.doing = slowly
    responses = shop.at_once(20)
    fresh = [
        each for each in responses if each.is_success and "idempotent-replayed" not in each.headers
    ]
    refused = [each for each in responses if not each.is_success]
    assert len(fresh) == 1
    assert {code_of(each) for each in refused} <= {"in_progress"}
    assert {each.headers["retry-after"] for each in refused} <= {"1"}
    assert shop.effects == 1
    shop.doing = None
    assert shop.post().headers["idempotent-replayed"] == "true"


def test_request_under_way_is_told_409_with_retry_after(shop: Shop) -> None:
    """In progress, and the wait is over."""
    shop.settings["wait"] = 0.1
    if shop.name == "sqlite":
        rival = shop.autocommit()
        rival.execute("BEGIN IMMEDIATE")
    else:
        rival = shop.connect()
        with rival.cursor() as cursor:
            cursor.execute(
                "INSERT INTO duly_http_key (scope, http_key, fingerprint, receipt_id, received_us,"
                f" expires_us, replays) VALUES ('{shop.scope_name('ann')}', 'k-1', 'x',"
                + (" gen_random_uuid()," if shop.name == "postgresql" else " '1234567890123456',")
                + " 0, 0, 0)"
            )
    response = shop.post()
    rival.rollback()
    assert (response.status_code, code_of(response)) == (409, "in_progress")
    assert response.headers["retry-after"] == "1"
    assert shop.post().status_code == 201


# ---------------------------------------------------------------------------------- what is kept


def test_answer_of_a_client_error_is_kept(shop: Shop) -> None:
    """What is stored follows the commit: a refusal that committed is the answer for good."""
    shop.doing = lambda: (404, [("Content-Type", "text/plain")], b"no such item")
    for _ in range(2):
        response = shop.post()
        assert (response.status_code, response.content) == (404, b"no such item")
    assert (shop.effects, shop.calls) == (1, 1)


def test_answer_of_a_server_error_is_rolled_back_and_the_request_is_made_again(shop: Shop) -> None:
    """The application says that it failed: nothing of it is kept."""
    shop.doing = lambda: (500, [("Content-Type", "text/plain")], b"oops")
    response = shop.post()
    assert (response.status_code, response.content, shop.effects) == (500, b"oops", 0)
    shop.doing = None
    assert shop.post().status_code == 201
    assert (shop.effects, shop.calls) == (1, 2)


def test_exception_of_the_application_is_rolled_back_and_comes_out(shop: Shop) -> None:
    shop.doing = fail
    with pytest.raises(LookupError, match="the application failed"):
        shop.post()
    shop.doing = None
    assert shop.effects == 0
    assert shop.post().status_code == 201


def test_answer_that_is_too_large_to_be_stored_is_rolled_back(shop: Shop) -> None:
    """It could not be repeated, so it does not count."""
    shop.settings["answer_max"] = 10
    with pytest.raises(duly.UsageError, match="answer_max"):
        shop.post()
    assert shop.effects == 0


def test_application_may_not_commit(shop: Shop) -> None:
    """Its effect and the stored answer are one transaction."""

    def commit() -> Any:
        from duly.contrib import http

        found = http.connection()
        getattr(found, "sync_connection", found).commit()
        return OK

    shop.doing = commit
    with pytest.raises(duly.UsageError, match="commit"):
        shop.post()
    assert shop.effects == 0
