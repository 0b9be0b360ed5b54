"""The handler against duly's transaction (PROTOCOL 2 to 9).

A handler may not end the transaction that it is lent. Where the database or the driver can
prevent it, the attempt fails and the key stays free; where it cannot, the key is held as torn.
Either way a second start never makes a second effect silently.
"""

from __future__ import annotations

import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

import duly
from tests.contract import django_project
from tests.contract.bank import DRIVER_ERRORS, OLD, UNITS, Bank, execute
from tests.servers.database import DATABASES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.contract.bank import Ledger
    from tests.servers.database import DatabaseName

Handler = "Callable[[duly.Run, Bank], Any]"

MAKERS: dict[str, Callable[[Bank], duly.App]] = {
    "url": lambda bank: bank.app(),
    "autocommit": lambda bank: bank.app(bank.engine(isolation_level="AUTOCOMMIT")),
    "django": django_project.app_on,
}


@dataclass(frozen=True)
class Desk:
    """A bank, and an App on it whose connections are of one kind."""

    bank: Bank
    app: duly.App

    def run(self, handler: Callable[[duly.Run, Bank], Any]) -> duly.Result | BaseException:
        """Start the occurrence with *handler*; returns the result, or what was raised."""
        self.app.jobs.pop(self.bank.job, None)
        self.app.job(self.bank.job)(lambda run: handler(run, self.bank))
        try:
            return self.app.run(self.bank.job, OLD)
        except Exception as error:
            return error


def _desk(name: DatabaseName, kind: str, ledgers: Callable[[DatabaseName], Ledger]) -> Desk:
    bank = Bank(ledgers(name))
    return Desk(bank, MAKERS[kind](bank))


def _desks(*names: DatabaseName) -> Any:
    """The fixture's parameters: these databases, each with every kind of App."""
    return pytest.mark.parametrize(
        "desk", [(name, kind) for name in names for kind in MAKERS], ids="-".join, indirect=True
    )


@pytest.fixture(params=[(name, kind) for name in DATABASES for kind in MAKERS], ids="-".join)
def desk(
    request: pytest.FixtureRequest, ledgers: Callable[[DatabaseName], Ledger]
) -> Iterator[Desk]:
    name, kind = request.param
    made = _desk(name, kind, ledgers)
    yield made
    made.bank.close()


def credit(run: duly.Run, bank: Bank) -> None:
    """The effect, as a well-behaved handler makes it."""
    run.execute(bank.credit())


def raw(run: duly.Run) -> Any:
    """The driver's connection beneath the lent one."""
    return run.connection.connection.driver_connection


# ------------------------------------------------------------ what must be true of every ending


def assert_failed(desk: Desk, ended: duly.Result | BaseException) -> None:
    """Nothing landed, the failure is recorded, and a retry makes the one effect."""
    bank = desk.bank
    assert isinstance(ended, Exception), ended
    assert not isinstance(ended, duly.TransactionEnded), ended
    assert (bank.units, bank.settled, bank.outcomes) == (0, [], ["failed"])
    assert isinstance(desk.run(credit), duly.Result)
    assert bank.units == UNITS


def assert_torn(desk: Desk, ended: duly.Result | BaseException, *, landed: int) -> None:
    """The key is held for a person, and no start touches the data again."""
    bank = desk.bank
    assert isinstance(ended, duly.TransactionEnded), ended
    assert "duly waive" in str(ended)
    assert bank.units == landed
    assert [s.disposition for s in bank.settled] == ["torn"]
    assert bank.outcomes == ["torn"]
    assert bank.attempts[0].id == bank.settled[0].attempt_id
    again = desk.run(credit)
    assert isinstance(again, duly.AlreadySettled), again
    assert again.details["disposition"] == "torn"
    assert bank.units == landed


def assert_applied(desk: Desk, ended: duly.Result | BaseException) -> None:
    """The effect is there once, with its completion."""
    assert isinstance(ended, duly.Result), ended
    assert ended.outcome is duly.Outcome.APPLIED
    assert desk.bank.units == UNITS
    assert [s.disposition for s in desk.bank.settled] == ["applied"]
    again = desk.run(credit)
    assert isinstance(again, duly.Result)
    assert again.outcome is duly.Outcome.DUPLICATE
    assert desk.bank.units == UNITS


# ------------------------------------------------------------------- SQLAlchemy's own methods

REFUSED_CALLS: dict[str, Callable[[duly.Run], Any]] = {
    "commit": lambda run: run.connection.commit(),
    "rollback": lambda run: run.connection.rollback(),
    "close": lambda run: run.connection.close(),
    "invalidate": lambda run: run.connection.invalidate(),
    "begin": lambda run: run.connection.begin(),
    "get-transaction-commit": lambda run: run.connection.get_transaction().commit(),  # type: ignore[union-attr]
    "get-transaction-rollback": lambda run: run.connection.get_transaction().rollback(),  # type: ignore[union-attr]
    "get-transaction-close": lambda run: run.connection.get_transaction().close(),  # type: ignore[union-attr]
    "session-rollback": lambda run: _session_rollback(run),  # noqa: PLW0108 - defined below
    "autocommit-option": lambda run: run.connection.execution_options(isolation_level="AUTOCOMMIT"),
}


def _session_rollback(run: duly.Run) -> None:
    with Session(bind=run.connection) as session:
        session.execute(sqlalchemy.text("SELECT 1"))
        session.rollback()


@pytest.mark.parametrize("call", REFUSED_CALLS)
def test_end_of_the_lent_connection_is_refused(desk: Desk, call: str) -> None:
    """Commit, rollback, close and their like raise where they are called; nothing is kept."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        REFUSED_CALLS[call](run)

    ended = desk.run(handler)
    assert isinstance(ended, duly.UsageError | sqlalchemy.exc.InvalidRequestError), ended
    assert_failed(desk, ended)


@pytest.mark.parametrize("call", ["commit", "rollback", "close", "invalidate"])
def test_refused_end_that_the_handler_hides_changes_nothing(desk: Desk, call: str) -> None:
    """A refusal did nothing, so a handler that swallows it is applied as usual."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with suppress(duly.UsageError):
            REFUSED_CALLS[call](run)
        # A rollback that was refused leaves SQLAlchemy's own view of the transaction in doubt.
        execute(raw(run), bank.credit())

    assert_applied(desk, desk.run(handler))


def test_session_on_the_lent_connection_may_commit_its_own_part(desk: Desk) -> None:
    """An ORM session joins the transaction: its commit flushes and ends nothing."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with Session(bind=run.connection) as session:
            session.execute(sqlalchemy.text(bank.credit()))
            session.commit()
        assert bank.units == 0, "the session's commit ended duly's transaction"

    assert_applied(desk, desk.run(handler))


def test_session_on_the_lent_connection_that_commits_and_fails_leaves_nothing(desk: Desk) -> None:
    """What a session committed inside duly's transaction goes with it."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with Session(bind=run.connection) as session:
            session.execute(sqlalchemy.text(bank.credit()))
            session.commit()
        raise ValueError("after the session's commit")

    assert_failed(desk, desk.run(handler))


def test_savepoints_are_the_handlers_own(desk: Desk) -> None:
    """A part of the work may be rolled back and released, by SQLAlchemy or as text."""

    def handler(run: duly.Run, bank: Bank) -> None:
        nested = run.connection.begin_nested()
        run.execute(bank.credit(1000))
        nested.rollback()
        with run.connection.begin_nested():
            run.execute(bank.credit())
        run.execute("SAVEPOINT mine")
        run.execute(bank.credit(500))
        run.execute("ROLLBACK TO SAVEPOINT mine")
        run.execute("RELEASE SAVEPOINT mine")

    assert_applied(desk, desk.run(handler))


def test_error_inside_a_savepoint_may_be_handled(desk: Desk) -> None:
    """A handler that puts a risky statement into a savepoint may go on after its error."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with (
            suppress(sqlalchemy.exc.IntegrityError),
            run.connection.begin_nested(),
        ):
            run.execute(f"INSERT INTO balance (id, units) VALUES ({bank.account}, 1)")
        run.execute(bank.credit())

    assert_applied(desk, desk.run(handler))


def test_temporary_table_is_the_handlers_own(desk: Desk) -> None:
    """CREATE and DROP TEMPORARY TABLE end no transaction, on MariaDB neither."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute("CREATE TEMPORARY TABLE work_in_hand (units INTEGER)")
        run.execute(f"INSERT INTO work_in_hand VALUES ({UNITS})")
        run.execute(
            f"UPDATE balance SET units = units + {UNITS} WHERE id = {bank.account}"
            " AND EXISTS (SELECT 1 FROM work_in_hand)"
        )
        kind = "TEMPORARY" if bank.name == "mariadb" else ""
        run.execute(f"DROP {kind} TABLE work_in_hand")

    assert_applied(desk, desk.run(handler))


# ------------------------------------------------------------------------ text through duly

ENDING_TEXTS = (
    "COMMIT", "commit", "ROLLBACK", "BEGIN", "  COMMIT", "COMMIT;", "-- done\nCOMMIT",
    "/* done */ COMMIT", "; COMMIT", "COMMIT AND CHAIN", "ROLLBACK AND CHAIN", "END",
    "START TRANSACTION",
)  # fmt: skip


@pytest.mark.parametrize("text", ENDING_TEXTS)
def test_text_that_ends_the_transaction_is_refused(desk: Desk, text: str) -> None:
    """`run.execute` refuses COMMIT and its like before they are sent."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        run.execute(text)

    assert_failed(desk, desk.run(handler))


MARIADB_IMPLICIT = (
    "CREATE TABLE made_{account} (id INTEGER)",
    "ALTER TABLE balance COMMENT = 'x'",
    "TRUNCATE TABLE emptied",
    "CREATE INDEX i{account} ON emptied (id)",
    "CREATE OR REPLACE VIEW v{account} AS SELECT 1",
    "DROP TABLE IF EXISTS absent",
    "ANALYZE TABLE emptied",
    "LOCK TABLES balance WRITE",
    "SET autocommit = 1",
    "SET @x = 1, autocommit = 1",
    "SET @@session.`autocommit` = 1",
    "SET STATEMENT max_statement_time = 10 FOR COMMIT",
    "SET PASSWORD = PASSWORD('x')",
    "EXECUTE IMMEDIATE 'COMMIT'",
    "PREPARE commits FROM 'COMMIT'",
    "RESET QUERY CACHE",
    "BACKUP STAGE START",
    "CREATE TEMPORARY SEQUENCE s{account}",
    "/*!CREATE TABLE made_{account} (id INTEGER)*/",
    "/*M! COMMIT */",
    "RENAME TABLE emptied TO renamed, renamed TO emptied",
    "GRANT SELECT ON emptied TO CURRENT_USER",
)


@pytest.fixture
def emptied(ledgers: Callable[[DatabaseName], Ledger]) -> None:
    ledgers("mariadb").run("CREATE TABLE IF NOT EXISTS emptied (id INTEGER)")


@_desks("mariadb")
@pytest.mark.parametrize("text", MARIADB_IMPLICIT)
def test_text_that_commits_implicitly_is_refused(desk: Desk, emptied: None, text: str) -> None:
    """On MariaDB `run.execute` refuses what commits by itself before it is sent."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        run.execute(text.format(account=bank.account))

    ended = desk.run(handler)
    assert "implicitly" in str(ended)
    assert_failed(desk, ended)


# -------------------------------------------------------------------- past duly, by the driver


def _by_driver(*statements: str) -> Callable[[duly.Run, Bank], None]:
    """A handler that makes its effect, then says *statements* on the driver's own cursor."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        for statement in statements:
            execute(raw(run), statement.format(credit=bank.credit(), account=bank.account))

    return handler


def _past_duly(*statements: str) -> Callable[[duly.Run, Bank], None]:
    """The same, unseen: in one text on PostgreSQL, in procedures on MariaDB."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        texts = [text.format(credit=bank.credit(), account=bank.account) for text in statements]
        if bank.name == "mariadb":
            for number, text in enumerate(texts):
                bank.run(f"CREATE PROCEDURE hidden_{bank.account}_{number}() {text}")
                execute(raw(run), f"CALL hidden_{bank.account}_{number}()")
        else:
            execute(raw(run), "; ".join(texts))

    return handler


@_desks("mariadb")
@pytest.mark.parametrize(
    "statements",
    [
        ["COMMIT"],
        ["ROLLBACK"],
        ["BEGIN"],
        ["CREATE TABLE made_{account} (id INTEGER)"],
        ["SET autocommit = 1"],
        ["ROLLBACK", "{credit}", "COMMIT"],
    ],
    ids=" then ".join,
)
def test_driver_on_mariadb_is_denied_every_end_that_its_text_shows(
    desk: Desk, statements: list[str]
) -> None:
    """The driver's own cursors refuse what they can read, so nothing landed."""
    assert_failed(desk, desk.run(_by_driver(*statements)))


@_desks("sqlite")
@pytest.mark.parametrize(
    "statements",
    [
        ["COMMIT"],
        ["ROLLBACK"],
        ["BEGIN"],
        ["END"],
        ["ROLLBACK", "{credit}"],
        ["ROLLBACK", "{credit}", "COMMIT"],
        ["COMMIT AND CHAIN"],
    ],
    ids=" then ".join,
)
def test_driver_on_sqlite_is_denied_every_end(desk: Desk, statements: list[str]) -> None:
    """SQLite itself denies the statement, so nothing landed and the key is free."""
    assert_failed(desk, desk.run(_by_driver(*statements)))


@_desks("postgresql")
@pytest.mark.parametrize(
    "statements",
    [["COMMIT"], ["END"], ["COMMIT AND CHAIN"], ["SET CONSTRAINTS ALL IMMEDIATE"]],
    ids=" then ".join,
)
def test_commit_by_the_driver_on_postgresql_lands_nothing(
    desk: Desk, statements: list[str]
) -> None:
    """PostgreSQL refuses a COMMIT before the seal, whoever says it."""
    assert_failed(desk, desk.run(_by_driver(*statements)))


@_desks("postgresql")
def test_constraints_made_immediate_on_postgresql_are_told_what_to_name(desk: Desk) -> None:
    """The handler's own constraints may be checked early; duly's cannot hold before the seal."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        run.execute("SET CONSTRAINTS ALL IMMEDIATE")

    ended = desk.run(handler)
    assert isinstance(ended, duly.UsageError), ended
    assert "SET CONSTRAINTS" in str(ended)
    assert_failed(desk, ended)


@_desks("postgresql")
@pytest.mark.parametrize("body", ["COMMIT", "PERFORM 1; COMMIT"])
def test_commit_inside_a_do_block_on_postgresql_lands_nothing(desk: Desk, body: str) -> None:
    """Nor does one in a procedure's body."""
    assert_failed(desk, desk.run(_by_driver(f"DO $$ BEGIN {body}; END $$")))


@_desks("postgresql")
def test_begin_by_the_driver_on_postgresql_is_only_a_warning(desk: Desk) -> None:
    """BEGIN inside a transaction changes nothing there."""
    assert_applied(desk, desk.run(_by_driver("BEGIN")))


@_desks("postgresql")
def test_commit_whose_refusal_is_hidden_on_postgresql_is_torn(desk: Desk) -> None:
    """The refused COMMIT rolled back; what came after it was outside, so the key is held."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        with suppress(*DRIVER_ERRORS):
            execute(raw(run), "COMMIT")

    assert_torn(desk, desk.run(handler), landed=0)


@_desks("postgresql", "mariadb")
@pytest.mark.parametrize(
    ("statements", "landed"),
    [
        (["ROLLBACK"], 0),
        (["ROLLBACK AND CHAIN"], 0),
        (["ROLLBACK", "{credit}"], 0),
        (["ROLLBACK", "{credit}", "COMMIT"], UNITS),
    ],
    ids=lambda value: " then ".join(value) if isinstance(value, list) else "",
)
def test_rollback_past_duly_is_torn(desk: Desk, statements: list[str], landed: int) -> None:
    """A lost transaction is found by the seal; what the handler committed itself stays its own."""
    if desk.bank.name == "postgresql" and "{credit}" in statements:
        landed = UNITS  # what follows an end within one text commits with it
    assert_torn(desk, desk.run(_past_duly(*statements)), landed=landed)


@_desks("postgresql", "mariadb")
def test_e11_handler_that_replaces_the_transaction_and_then_fails_is_torn(desk: Desk) -> None:
    """A partial effect that was committed is not recorded as a mere failure."""

    def handler(run: duly.Run, bank: Bank) -> None:
        _past_duly("ROLLBACK", "{credit}", "COMMIT")(run, bank)
        raise ValueError("after my own commit")

    assert_torn(desk, desk.run(handler), landed=UNITS)


@_desks("mariadb")
@pytest.mark.parametrize(
    "statements",
    [
        ["COMMIT"],
        ["COMMIT AND CHAIN"],
        ["START TRANSACTION"],
        ["CREATE TABLE made_{account} (id INTEGER)"],
        ["ALTER TABLE emptied COMMENT = 'y'"],
        ["TRUNCATE TABLE emptied"],
        ["SET autocommit = 1"],
    ],
    ids=" then ".join,
)
def test_commit_past_duly_on_mariadb_is_torn(
    desk: Desk, emptied: None, statements: list[str]
) -> None:
    """An explicit or implicit commit landed the effect: the key is held, never free."""
    assert_torn(desk, desk.run(_past_duly(*statements)), landed=UNITS)


@_desks("mariadb")
def test_commit_then_failure_on_mariadb_is_torn(desk: Desk) -> None:
    """A handler that raises after its commit has not merely failed."""

    def handler(run: duly.Run, bank: Bank) -> None:
        _past_duly("COMMIT")(run, bank)
        raise ValueError("after my own commit")

    assert_torn(desk, desk.run(handler), landed=UNITS)


# --------------------------------------------------------------- the driver connection's methods


@_desks("postgresql", "mariadb")
@pytest.mark.parametrize("method", ["commit", "rollback", "close"])
def test_end_by_a_method_of_the_drivers_connection_is_refused(desk: Desk, method: str) -> None:
    """The driver's own commit, rollback and close raise while the handler has it."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        getattr(raw(run), method)()

    ended = desk.run(handler)
    assert isinstance(ended, duly.UsageError)
    assert_failed(desk, ended)


@_desks("mariadb")
@pytest.mark.parametrize(
    "call",
    [
        lambda connection: connection.begin(),
        lambda connection: connection.autocommit(True),
        lambda connection: connection.select_db("mysql"),
        lambda connection: connection.ping(reconnect=True),
    ],
    ids=["begin", "autocommit", "select_db", "ping"],
)
def test_method_that_ends_or_moves_pymysqls_transaction_is_refused(
    desk: Desk, call: Callable[[Any], Any]
) -> None:
    """What commits, moves or silently reconnects is refused, too."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        call(raw(run))

    assert_failed(desk, desk.run(handler))


@_desks("postgresql")
def test_psycopg_transaction_block_inside_is_a_savepoint(desk: Desk) -> None:
    """`connection.transaction()` nests, and ends nothing of ours."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with raw(run).transaction():
            execute(raw(run), bank.credit())

    assert_applied(desk, desk.run(handler))


@_desks("postgresql")
def test_psycopg_switched_to_autocommit_inside_fails(desk: Desk) -> None:
    """The driver refuses the switch inside a transaction."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        raw(run).autocommit = True

    assert_failed(desk, desk.run(handler))


SQLITE_CALLS: dict[str, Callable[[sqlite3.Connection, Bank], Any]] = {
    "commit": lambda connection, bank: connection.commit(),
    "rollback": lambda connection, bank: connection.rollback(),
    "executescript": lambda connection, bank: connection.executescript(bank.credit()),
    "with": lambda connection, bank: _enter_and_leave(connection),
    "isolation_level": lambda connection, bank: setattr(connection, "isolation_level", None),
}


def _enter_and_leave(connection: sqlite3.Connection) -> None:
    with connection:
        pass


@_desks("sqlite")
@pytest.mark.parametrize("call", SQLITE_CALLS)
def test_end_by_a_method_of_sqlite3_is_denied(desk: Desk, call: str) -> None:
    """What the standard library's connection commits by, explicitly or not, is denied."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        SQLITE_CALLS[call](raw(run), bank)

    assert_failed(desk, desk.run(handler))


@_desks("sqlite")
def test_end_that_was_prepared_before_is_denied(desk: Desk) -> None:
    """A COMMIT in the driver's statement cache does not slip past the authorizer."""
    kept: list[sqlite3.Connection] = []

    def warm(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit(0))
        kept.append(raw(run))

    for _ in range(2):  # the second attempt finds the authorizer set
        assert isinstance(desk.run(warm), duly.Result)
        desk.bank.run(f"DELETE FROM duly_occurrence WHERE job = '{desk.bank.job}'")
        desk.bank.run(f"DELETE FROM duly_attempt WHERE job = '{desk.bank.job}'")
        for statement in ("BEGIN", "COMMIT"):  # by whoever has it between two attempts
            with suppress(sqlite3.ProgrammingError):  # Django's is closed again
                kept[-1].cursor().execute(statement)

    assert_failed(desk, desk.run(_by_driver("COMMIT")))


# --------------------------------------------------------------- what the database itself undoes


@_desks("sqlite")
def test_insert_or_rollback_on_sqlite_fails_and_leaves_nothing(desk: Desk) -> None:
    """A conflict clause that rolls everything back raises, and the key is free."""
    text = "INSERT OR ROLLBACK INTO balance (id, units) VALUES ({account}, 1)"
    assert_failed(desk, desk.run(_by_driver(text)))


@_desks("sqlite")
def test_statement_after_a_hidden_automatic_rollback_on_sqlite_lands_nothing(desk: Desk) -> None:
    """What follows a transaction that SQLite ended by itself does not commit alone."""

    def handler(run: duly.Run, bank: Bank) -> None:
        with suppress(*DRIVER_ERRORS):
            _by_driver("INSERT OR ROLLBACK INTO balance (id, units) VALUES ({account}, 1)")(
                run, bank
            )
        execute(raw(run), bank.credit())

    desk.run(handler)
    assert desk.bank.units == 0
    assert [s.disposition for s in desk.bank.settled] in ([], ["torn"])
    assert desk.bank.outcomes in (["failed"], ["torn"])


@_desks("postgresql")
def test_e10_error_of_the_database_that_the_handler_hides_is_a_failure(desk: Desk) -> None:
    """PostgreSQL would answer COMMIT with ROLLBACK and no error: nothing counts as done."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        with suppress(sqlalchemy.exc.SQLAlchemyError):
            run.execute("SELECT 1/0")

    ended = desk.run(handler)
    assert isinstance(ended, duly.SwallowedError)
    assert "begin_nested" in str(ended)
    assert_failed(desk, ended)


@_desks("sqlite", "mariadb")
def test_e10_error_that_undoes_only_its_statement_may_be_hidden(desk: Desk) -> None:
    """SQLite and MariaDB undo the failed statement alone: the rest is kept, and complete."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        with suppress(sqlalchemy.exc.IntegrityError):
            run.execute(f"INSERT INTO balance (id, units) VALUES ({bank.account}, 1)")

    assert_applied(desk, desk.run(handler))


AGAIN = "WITH one AS (SELECT 1) UPDATE balance SET units = units + 10 WHERE id = {account}"


@_desks("sqlite")
@pytest.mark.parametrize("then", ["returns", "raises"])
def test_prepared_statement_after_a_hidden_automatic_rollback_on_sqlite_is_held(
    desk: Desk, then: str
) -> None:
    """A statement prepared in our transaction and run after its end is not lost from sight.

    The driver begins nothing for it and the authorizer is not asked again: if it landed, the
    key is held as torn, also where the handler then fails.
    """

    def handler(run: duly.Run, bank: Bank) -> None:
        again = AGAIN.format(account=bank.account)
        execute(raw(run), again)
        error: Exception | None = None
        try:
            execute(
                raw(run),
                f"INSERT OR ROLLBACK INTO balance (id, units) VALUES ({bank.account}, 1)",
            )
        except sqlite3.Error as caught:
            error = caught
        with suppress(sqlite3.Error):
            execute(raw(run), again)
        if then == "raises":
            assert error is not None
            raise error

    ended = desk.run(handler)
    if desk.bank.units:
        assert_torn(desk, ended, landed=UNITS)
    else:
        assert isinstance(ended, duly.TransactionEnded | sqlite3.Error)


@_desks("sqlite")
def test_connection_closed_by_the_handler_on_sqlite_lands_nothing(desk: Desk) -> None:
    """sqlite3's own close cannot be refused: it undoes all, and duly says what happened."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        raw(run).close()

    ended = desk.run(handler)
    assert isinstance(ended, duly.DulyError), ended
    assert desk.bank.units == 0
    assert [s.disposition for s in desk.bank.settled] in ([], ["torn"])
    assert desk.bank.outcomes in (["failed"], ["torn"])


class Deadlock:
    """Forces a deadlock between a handler and a second connection, in which the handler loses."""

    def __init__(self, bank: Bank) -> None:
        self.bank = bank
        self.rival = bank.connect()
        self.times = 0
        # Many changed rows make the rival the one that InnoDB spares.
        self.other = bank.account + 1_000_000
        bank.run(f"INSERT INTO balance (id, units) VALUES ({self.other}, 0)")
        heavy = ", ".join(f"({self.other + 10_000 * (n + 1)}, 0)" for n in range(50))
        execute(self.rival, f"INSERT IGNORE INTO balance (id, units) VALUES {heavy}")
        execute(self.rival, f"UPDATE balance SET units = units WHERE id = {self.other}")

    def lose(self, statement: Callable[[str], Any]) -> None:
        """With the account's row locked by the handler, wait for the rival's in a circle."""
        import threading

        self.times += 1
        if self.times > 1:
            return
        waiting = threading.Thread(
            target=execute,
            args=[self.rival, f"UPDATE balance SET units = units WHERE id = {self.bank.account}"],
        )
        waiting.start()
        self.bank.wait_until_blocked()
        try:
            statement(f"UPDATE balance SET units = units WHERE id = {self.other}")
        finally:
            waiting.join()
            self.rival.rollback()


@_desks("mariadb")
@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "raised"])
def test_deadlock_in_the_handler_on_mariadb_is_tried_again(desk: Desk, *, hidden: bool) -> None:
    """1213 took the whole transaction: duly makes the attempt again, also if it was hidden."""
    deadlock = Deadlock(desk.bank)

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        if hidden:
            with suppress(sqlalchemy.exc.OperationalError):
                deadlock.lose(run.execute)
        else:
            deadlock.lose(run.execute)

    ended = desk.run(handler)
    assert deadlock.times == 2
    assert_applied(desk, ended)


@_desks("mariadb")
def test_statement_after_a_hidden_deadlock_on_mariadb_is_refused(desk: Desk) -> None:
    """After 1213 `run.execute` does nothing more in a transaction that is not ours."""
    deadlock = Deadlock(desk.bank)
    refused: list[str] = []

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        with suppress(sqlalchemy.exc.OperationalError):
            deadlock.lose(run.execute)
        try:
            run.execute(bank.credit(0))
        except duly.UsageError as error:
            refused.append(str(error))

    assert_applied(desk, desk.run(handler))
    assert len(refused) == 1
    assert "deadlock" in refused[0]


@_desks("mariadb")
@pytest.mark.parametrize("then", ["returns", "raises"])
def test_deadlock_hidden_on_the_drivers_cursor_is_tried_again(desk: Desk, then: str) -> None:
    """Nothing more is done in a transaction that MariaDB has ended, whatever the handler tries."""
    deadlock = Deadlock(desk.bank)
    refused: list[str] = []

    def handler(run: duly.Run, bank: Bank) -> None:
        execute(raw(run), bank.credit())
        try:
            deadlock.lose(lambda text: execute(raw(run), text))
        except DRIVER_ERRORS:
            for text in (bank.credit(500), "COMMIT"):
                try:
                    execute(raw(run), text)
                except duly.UsageError as error:
                    refused.append(str(error))
            if then == "raises":
                raise

    assert_applied(desk, desk.run(handler))
    assert len(refused) == 2
    assert deadlock.times == 2


@_desks("mariadb")
@pytest.mark.parametrize("hidden", [True, False], ids=["hidden", "raised"])
def test_lock_wait_timeout_in_the_handler_on_mariadb_commits_what_the_handler_wants(
    desk: Desk, *, hidden: bool
) -> None:
    """1205 undoes one statement: raised, all is tried again; hidden, the rest is kept."""
    rival = desk.bank.connect()
    other = desk.bank.account + 1_000_000
    desk.bank.run(f"INSERT INTO balance (id, units) VALUES ({other}, 0)")
    execute(rival, f"UPDATE balance SET units = units WHERE id = {other}")
    tries: list[int] = []

    def handler(run: duly.Run, bank: Bank) -> None:
        tries.append(1)
        run.execute(bank.credit())
        run.execute("SET innodb_lock_wait_timeout = 1")
        try:
            run.execute(f"UPDATE balance SET units = units + 1 WHERE id = {other}")
        except sqlalchemy.exc.OperationalError:
            rival.rollback()
            if not hidden:
                raise

    assert_applied(desk, desk.run(handler))
    assert len(tries) == (1 if hidden else 2)
    changed = 0 if hidden else 1
    assert desk.bank.run(f"SELECT units FROM balance WHERE id = {other}") == [(changed,)]


# ------------------------------------------------------------------------- storage and results


@_desks("mariadb")
@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO {table} VALUES (1)",
        "UPDATE `{table}` SET id = 2",
        "DELETE FROM {table}",
        "REPLACE INTO {table} VALUES (1)",
        "insert ignore into {table} values (1)",
    ],
)
def test_table_without_transactions_is_refused_by_name(
    ledgers: Callable[[DatabaseName], Ledger], desk: Desk, text: str
) -> None:
    """A MyISAM row would stay when the attempt rolls back: refused before it is written."""
    bank = desk.bank
    table = f"log_{bank.account}"
    bank.run(f"CREATE TABLE {table} (id INTEGER) ENGINE=MyISAM")

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        run.execute(text.format(table=table))

    ended = desk.run(handler)
    rows = bank.run(f"SELECT * FROM {table}")
    bank.run(f"DROP TABLE {table}")
    assert isinstance(ended, duly.UnsafeStorage)
    assert ended.details["table"] == table
    assert "ENGINE=InnoDB" in str(ended)
    assert rows == []
    assert_failed(desk, ended)


# ------------------------------------------------------------------------ after, and inside


def test_connection_kept_after_the_run_is_refused(desk: Desk) -> None:
    """What the handler keeps is dead once it returned: nothing slips into another's work."""
    kept: list[Any] = []

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        kept.extend([run, run.connection])

    assert_applied(desk, desk.run(handler))
    run, connection = kept[0], kept[1]
    with pytest.raises(duly.UsageError, match="over"):
        run.execute(desk.bank.credit())
    with pytest.raises(duly.UsageError, match="over"):
        connection.execute(sqlalchemy.text(desk.bank.credit()))
    with pytest.raises(duly.UsageError):
        connection.commit()
    assert desk.bank.units == UNITS


@_desks("sqlite")
def test_run_inside_a_handler_on_the_same_file_is_refused_at_once(desk: Desk) -> None:
    """SQLite has one writer: a second attempt could only wait for its own handler."""
    other = desk.bank.app()

    @other.job("nested")
    def nested(run: duly.Run) -> None:
        raise AssertionError("it was called")

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        with pytest.raises(duly.UsageError, match="one writer"):
            other.run("nested", OLD, wait=600)

    assert_applied(desk, desk.run(handler))


@_desks("postgresql", "mariadb")
def test_run_of_another_job_inside_a_handler_is_an_attempt_of_its_own(desk: Desk) -> None:
    """On a server a handler may start another occurrence, which commits by itself."""
    other = Bank(desk.bank.ledger)
    app = other.define(other.app())

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        app.run(other.job, OLD)
        raise ValueError("the outer one fails")

    ended = desk.run(handler)
    assert other.units == UNITS
    other.close()
    assert_failed(desk, ended)


KILL = {
    "postgresql": "SELECT pg_terminate_backend({id})",
    "mariadb": "KILL {id}",
}
IDENTITY = {"postgresql": "SELECT pg_backend_pid()", "mariadb": "SELECT CONNECTION_ID()"}


@_desks("postgresql", "mariadb")
def test_connection_lost_in_the_handler_leaves_nothing_and_its_error_comes_out(
    desk: Desk,
) -> None:
    """A lost connection is the handler's error like any other: recorded, and the key free."""

    def handler(run: duly.Run, bank: Bank) -> None:
        run.execute(bank.credit())
        identity = run.execute(IDENTITY[bank.name]).scalar()
        bank.run(KILL[bank.name].format(id=identity))
        run.execute(bank.credit())

    ended = desk.run(handler)
    assert isinstance(ended, sqlalchemy.exc.OperationalError), ended
    assert_failed(desk, ended)
    assert desk.bank.attempts[0].error_origin == "database"


@_desks("postgresql", "mariadb")
def test_handler_that_goes_on_after_it_lost_its_connection_is_given_no_other(desk: Desk) -> None:
    """What a handler sends after the loss lands nowhere: not at once, nor with a later start."""
    told: list[Exception] = []

    def goes_on(run: duly.Run, bank: Bank) -> None:
        identity = run.execute(IDENTITY[bank.name]).scalar()
        bank.run(KILL[bank.name].format(id=identity))
        for _ in range(3):
            for send in (lambda: run.execute(bank.credit()), run.connection.rollback):
                try:
                    send()
                except Exception as error:
                    told.append(error)

    ended = desk.run(goes_on)
    assert isinstance(ended, duly.DulyError), ended
    assert desk.bank.units == 0
    assert len(told) >= 3
    applied = desk.run(lambda run, bank: run.execute(bank.credit()).rowcount)
    assert isinstance(applied, duly.Result)
    assert desk.bank.units == UNITS
