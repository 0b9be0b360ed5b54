"""A COMMIT whose answer does not arrive: lost on the wire, late, or with the whole server."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy

import duly
from duly import testing
from tests.faults.ledger import Bank, Ledger
from tests.faults.proxy import Loss, Proxy
from tests.faults.scenarios import young

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.conftest import Ledgers
    from tests.servers.server import Server

SERVERS = ("postgresql", "mariadb")


@pytest.fixture(params=SERVERS)
def wired(request: pytest.FixtureRequest, ledgers: Ledgers) -> Iterator[tuple[Ledger, Bank, Proxy]]:
    """A ledger, and a Bank that reaches it only through a proxy."""
    ledger = ledgers(request.param)
    url = sqlalchemy.make_url(ledger.url)
    assert url.port is not None
    proxy = Proxy(url.port)
    through = url.set(port=proxy.port).render_as_string(hide_password=False)
    bank = Bank(through)
    yield ledger, bank, proxy
    bank.app.close()
    proxy.close()


@pytest.mark.parametrize(
    ("loss", "calls"), [("reply", 1), ("late", 1), ("request", 2)], ids=["reply", "late", "request"]
)
def test_commit_without_an_answer_is_settled_by_claiming_again(
    wired: tuple[Ledger, Bank, Proxy], loss: Loss, calls: int, partition: str
) -> None:
    """It landed, or will while we ask: applied, by one call. It did not: the work is done again.

    A SELECT would miss the late one and call the handler a second time, or report a duplicate of
    the caller's own attempt (PROTOCOL 6, E09).
    """
    ledger, bank, proxy = wired
    bank.app.run("work", young(), partition=f"{partition}-first")  # all that is done once is done
    at = young()

    proxy.lose_next_commit(loss)
    result = bank.app.run("work", at, partition=partition)

    assert proxy.lost == 1
    assert result.outcome is duly.Outcome.APPLIED
    assert bank.calls[result.key] == calls
    ledger.wait_until_quiet()
    facts = ledger.facts(duly.Occurrence("work", at, partition))
    assert facts.effects == [str(result.attempt_id)]
    assert facts.is_sound
    again = bank.app.run("work", at, partition=partition)
    assert (again.outcome, again.attempt_id) == (duly.Outcome.DUPLICATE, result.attempt_id)


@pytest.mark.parametrize("loss", ["reply", "late"])
def test_lost_answer_of_a_duplicates_count_changes_nothing(
    wired: tuple[Ledger, Bank, Proxy], loss: Loss, partition: str
) -> None:
    """Evidence is not worth an error: the start is still the duplicate that it is."""
    ledger, bank, proxy = wired
    at = young()
    first = bank.app.run("work", at, partition=partition)

    # Of a refused start's messages only the count says who started it.
    proxy.lose_next_commit(loss, said_by=bank.app.started_by.encode())
    result = bank.app.run("work", at, partition=partition)

    assert proxy.lost == 1
    assert result.outcome is duly.Outcome.DUPLICATE
    assert result.attempt_id == first.attempt_id
    ledger.wait_until_quiet()
    assert ledger.facts(duly.Occurrence("work", at, partition)).is_sound


@pytest.mark.parametrize("kind", SERVERS)
def test_server_that_crashes_under_an_attempt_keeps_one_effect(
    kind: str, request: pytest.FixtureRequest
) -> None:
    """Power is lost in the handler, just before COMMIT, and just after it (E09, E15)."""
    fixture = "postgres_private" if kind == "postgresql" else "mariadb_private"
    server: Server = request.getfixturevalue(fixture)
    ledger = Ledger(kind, server.create_database())
    bank = ledger.bank

    def crash() -> None:
        server.kill()
        server.start()
        ledger.reconnect()

    # In the handler: nothing of it is left, the handler's own error comes out, the key is free.
    def crash_inside(run: duly.Run) -> None:
        crash()
        run.execute("SELECT 1")

    at = young()
    inside = duly.Occurrence("work", at, "inside")
    bank.doing["inside"] = crash_inside
    with pytest.raises(sqlalchemy.exc.OperationalError):
        bank.app.run("work", at, partition="inside")
    facts = ledger.facts(inside)
    assert not facts.effects
    assert facts.disposition is None
    bank.doing.clear()
    assert bank.app.run("work", at, partition="inside").outcome is duly.Outcome.APPLIED
    assert ledger.facts(inside).is_sound

    # Before COMMIT: it never happened, and the work is done again.
    with _crash_at(bank.app, "before", crash):
        result = bank.app.run("work", at, partition="before")
    assert result.outcome is duly.Outcome.APPLIED
    assert bank.calls[result.key] == 2
    assert ledger.facts(duly.Occurrence("work", at, "before")).effects == [str(result.attempt_id)]

    # After COMMIT: it is durable, and the work is not done again.
    with (
        _crash_at(bank.app, "after", crash),
        testing.fault(bank.app, op="Commit", error=ConnectionResetError("no answer")),
    ):
        result = bank.app.run("work", at, partition="after")
    assert result.outcome is duly.Outcome.APPLIED
    assert bank.calls[result.key] == 1
    assert ledger.facts(duly.Occurrence("work", at, "after")).effects == [str(result.attempt_id)]
    ledger.close()


@contextmanager
def _crash_at(app: duly.App, moment: str, crash: Callable[[], None]) -> Iterator[None]:
    done = False

    def probe(when: str, op: Any, _target: Any) -> None:
        nonlocal done
        if type(op).__name__ == "Commit" and when == moment and not done:
            done = True
            crash()

    app._probe = probe
    try:
        yield
    finally:
        app._probe = None
