"""A table of the ledger that somebody locked: whoever asks waits a while, and is then told."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duly
from tests.contract.bank import execute

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.contract.bank import Bank

QUESTIONS: dict[str, Callable[[duly.App, str], object]] = {
    "status": lambda app, job: app.status(job),
    "plan": lambda app, _: app.plan(),
    "missing": lambda app, job: app.missing(job),
    "history": lambda app, job: app.history(job),
    "tick": lambda app, _: app.tick(),
    "run": lambda app, job: app.run(job),
    "pause": lambda app, job: app.pause(job, reason="rest", actor="me"),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_table_that_stays_locked_is_busy_within_the_bound(
    server_bank: Bank, question: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by a VACUUM FULL, an ALTER TABLE or a dump: no read of duly's own waits without an end."""
    bank = server_bank
    bank.define(bank.app(), schedule="0 * * * *").register()
    monkeypatch.setattr("duly._db.engine.HANDLER_WAIT_S", 1.0)
    app = bank.define(bank.app(), schedule="0 * * * *")
    other = bank.connect()
    if bank.name == "postgresql":
        execute(other, "LOCK TABLE duly_job IN ACCESS EXCLUSIVE MODE")
    else:
        execute(other, "LOCK TABLES duly_job WRITE")

    try:
        with pytest.raises(duly.Busy, match="try again"):
            QUESTIONS[question](app, bank.job)
    finally:
        other.rollback()
        if bank.name == "mariadb":
            execute(other, "UNLOCK TABLES")


def test_lock_bound_of_the_role_stays_its_own(server_bank: Bank) -> None:
    """What an administrator set for a role, or the URL says, is not made longer."""
    bank = server_bank
    if bank.name == "mariadb":
        url = f"{bank.url}?init_command=SET+SESSION+lock_wait_timeout%3D3"
        query, own, ours = "SELECT @@SESSION.lock_wait_timeout", "3", "10"
    else:
        url = f"{bank.url}?options=-c%20lock_timeout%3D3s"
        query, own, ours = "SELECT current_setting('lock_timeout')", "3s", "10s"

    with bank.app(url).database.engine.connect() as connection:
        assert str(connection.exec_driver_sql(query).scalar()) == own
    with bank.app().database.engine.connect() as connection:
        assert str(connection.exec_driver_sql(query).scalar()) == ours
