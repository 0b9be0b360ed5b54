"""The runbook's scripts do what the text around them says."""

from __future__ import annotations

import configparser
import re
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import MetaData, create_engine, inspect, text

import duly
from duly.channels import Answer, Call
from duly.contrib import http
from duly.contrib.alembic import include_name
from duly.contrib.wsgi import IdempotencyMiddleware
from tests.docs.pages import DOCS, Block, blocks

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.database import Database
    from tests.servers.mariadb import MariaDBServer
    from tests.servers.postgresql import PostgresServer

FOUND = blocks(DOCS / "operating.md")
INIT = [each for each in FOUND if each.section == "A role for init"]
DAY = timedelta(days=1)


def block(language: str, section: str) -> Block:
    """The only one of its language in that section."""
    [only] = [each for each in FOUND if each.language == language and each.section == section]
    return only


# -------------------------------------------------------------------------------------------- roles


@dataclass(frozen=True)
class Roles:
    """One database with the runbook's roles, and a way to become one of them."""

    owner: str
    job: str
    operator: str


@contextmanager
def postgresql_roles(server: PostgresServer) -> Iterator[Roles]:
    url = server.create_database()
    name, mark, password = server.database_of(url), secrets.token_hex(4), secrets.token_hex(8)
    script = block("sql", "PostgreSQL roles").text
    for role in ("bank_job", "bank_operator"):
        script = script.replace(role, f"{role}_{mark}")
    _owner(url)
    with server.connect(name, autocommit=True) as connection:
        connection.execute(script)
        connection.execute(f"GRANT SELECT, UPDATE ON balance TO bank_job_{mark}")
        for role in ("job", "operator"):
            connection.execute(f"CREATE ROLE {role}_{mark} LOGIN PASSWORD '{password}'")
            connection.execute(f"GRANT bank_{role}_{mark} TO {role}_{mark}")
        yield Roles(url, *(_as(url, f"{role}_{mark}", password) for role in ("job", "operator")))
    server.drop(url)
    with server.connect(autocommit=True) as connection:
        for role in (
            f"job_{mark}",
            f"operator_{mark}",
            f"bank_operator_{mark}",
            f"bank_job_{mark}",
        ):
            connection.execute(f"DROP ROLE {role}")


@contextmanager
def mariadb_roles(server: MariaDBServer) -> Iterator[Roles]:
    url = server.create_database()
    name, mark, password = server.database_of(url), secrets.token_hex(4), secrets.token_hex(8)
    script = block("sql", "MariaDB roles").text.replace("bank.", f"`{name}`.")
    for role in ("bank_job", "bank_operator"):
        script = script.replace(role, f"{role}_{mark}")
    _owner(url)
    lines = [line for line in script.splitlines() if not line.startswith("--")]
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in filter(str.strip, "\n".join(lines).split(";")):
            cursor.execute(statement)
        cursor.execute(f"GRANT SELECT, UPDATE ON `{name}`.balance TO bank_job_{mark}")
        for role in ("job", "operator"):
            user = f"'{role}_{mark}'@'%'"
            cursor.execute(f"CREATE USER {user} IDENTIFIED BY '{password}'")
            cursor.execute(f"GRANT bank_{role}_{mark} TO {user}")
            cursor.execute(f"SET DEFAULT ROLE bank_{role}_{mark} FOR {user}")
        yield Roles(url, *(_as(url, f"{role}_{mark}", password) for role in ("job", "operator")))
        for role in ("job", "operator"):
            cursor.execute(f"DROP USER '{role}_{mark}'@'%'")
            cursor.execute(f"DROP ROLE bank_{role}_{mark}")
    server.drop(url)


@pytest.fixture(params=["postgresql", "mariadb"])
def roles(request: pytest.FixtureRequest) -> Iterator[Roles]:
    if request.param == "postgresql":
        with postgresql_roles(request.getfixturevalue("postgres")) as made:
            yield made
    else:
        with mariadb_roles(request.getfixturevalue("mariadb")) as made:
            yield made


def _owner(url: str) -> None:
    app = duly.App(url)
    with app.database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE balance (id INTEGER PRIMARY KEY, units BIGINT)"))
        connection.execute(text("INSERT INTO balance VALUES (1, 0)"))
    app.init()
    app.close()


def _as(url: str, user: str, password: str) -> str:
    made = create_engine(url).url.set(username=user, password=password)
    return made.render_as_string(hide_password=False)


def app_of(url: str, tears: Callable[[duly.Run], None] | None = None) -> duly.App:
    """An App whose markers are written at once, so that their rights are needed too."""
    app = duly.App(url, evidence_after=0)

    @app.job("credit", payload={"units": 10})
    def credit(run: duly.Run) -> None:
        run.execute("UPDATE balance SET units = units + :units WHERE id = 1", run.payload)

    @app.job("fails")
    def fails(run: duly.Run) -> None:
        raise ValueError("no")

    @app.job("tears")
    def tear(run: duly.Run) -> None:
        if tears is not None:
            tears(run)

    return app


def _tear(run: duly.Run) -> None:
    """What gets past every refusal: text on the raw driver; for MariaDB in a block."""
    raw: Any = run.connection.connection.driver_connection
    mariadb = run.connection.dialect.name in {"mariadb", "mysql"}
    raw.cursor().execute("BEGIN NOT ATOMIC ROLLBACK; END" if mariadb else "ROLLBACK")


def at(age: timedelta) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) - age


def test_init_role_of_the_runbook_may_create_the_tables_on_postgresql(
    postgres: PostgresServer,
) -> None:
    url, mark = postgres.create_database(), secrets.token_hex(4)
    script = INIT[0].text.replace("bank_init", f"bank_init_{mark}")
    with postgres.connect(postgres.database_of(url), autocommit=True) as connection:
        connection.execute(script)
        connection.execute(f"CREATE ROLE init_{mark} LOGIN PASSWORD '{mark}'")
        connection.execute(f"GRANT bank_init_{mark} TO init_{mark}")
    app = duly.App(_as(url, f"init_{mark}", mark))
    assert app.init() == (None, "0005")
    assert app.init() == ("0005", "0005")
    app.close()
    postgres.drop(url)
    with postgres.connect(autocommit=True) as connection:
        for role in (f"init_{mark}", f"bank_init_{mark}"):
            connection.execute(f"DROP ROLE {role}")


def test_init_role_of_the_runbook_may_create_the_tables_on_mariadb(
    mariadb: MariaDBServer,
) -> None:
    url, mark = mariadb.create_database(), secrets.token_hex(4)
    script = INIT[1].text.replace("bank_init", f"bank_init_{mark}")
    script = script.replace("bank.", f"`{mariadb.database_of(url)}`.")
    user = f"'init_{mark}'@'%'"
    with mariadb.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in filter(str.strip, script.split(";")):
            cursor.execute(statement)
        cursor.execute(f"CREATE USER {user} IDENTIFIED BY '{mark}'")
        cursor.execute(f"GRANT bank_init_{mark} TO {user}")
        cursor.execute(f"SET DEFAULT ROLE bank_init_{mark} FOR {user}")
        app = duly.App(_as(url, f"init_{mark}", mark))
        assert app.init() == (None, "0005")
        assert app.init() == ("0005", "0005")
        app.close()
        cursor.execute(f"DROP USER {user}")
        cursor.execute(f"DROP ROLE bank_init_{mark}")
    mariadb.drop(url)


def test_job_role_of_the_runbook_may_do_all_that_a_job_does(roles: Roles) -> None:
    """Applied, duplicate, failed, old, torn, claimed, claimed again, swept, asked."""
    app = app_of(roles.job, _tear)
    for age in (DAY / 24, 10 * DAY):
        when = at(age)
        assert app.run("credit", when).outcome is duly.Outcome.APPLIED
        assert app.run("credit", when).outcome is duly.Outcome.DUPLICATE
        with pytest.raises(duly.PayloadConflict):
            app.run("credit", when, payload={"units": 11})
    with pytest.raises(ValueError, match="no"):
        app.run("fails", at(DAY))
    with pytest.raises(duly.TransactionEnded):
        app.run("tears", at(DAY))
    for _ in range(2):
        with app.database.engine.begin() as connection:
            duly.claim(connection, duly.Occurrence("claimed", at(DAY).replace(minute=0, second=0)))
    outcomes = {attempt.outcome.value for attempt in app.history("credit").attempts}
    assert outcomes == {"applied", "conflict"}
    app.close()


def test_job_role_of_the_runbook_may_tick(roles: Roles) -> None:
    """Register, edit, take a slot, fix partitions, skip, cover, mark; and ask."""
    credit = "UPDATE balance SET units = units + 10 WHERE id = 1"
    days: dict[str, Any] = {"schedule": "0 0 * * *", "starts": at(4 * DAY)}

    def handler(run: duly.Run) -> None:
        run.execute(credit)

    app = duly.App(roles.job)
    app.job("each", **days)(handler)
    app.job("skip", catch_up="skip", skip_after=DAY, **days)(handler)
    app.job("reconcile", catch_up="reconcile", **days)(handler)
    app.job("parts", partitions=["a", "b"], **days)(handler)
    report = app.tick()
    assert {ran.error for job in report.jobs for ran in job.ran} == {None}, report
    assert [job.refused for job in report.jobs] == [None] * 4
    assert {job.state.value for job in app.status("each", "reconcile", "parts").jobs} == {"ok"}
    assert app.plan().jobs
    app.close()


def test_job_role_of_the_runbook_may_send_and_deliver(roles: Roles) -> None:
    """In order too; a send that fails is tried again, and its operator decides about it."""
    app = app_of(roles.job)
    answers: list[Answer] = [Answer.refused("no", final=True), Answer.sent()]
    app.destination("ledger", Call(lambda _message: answers.pop(0)))

    @app.job("sends")
    def send(run: duly.Run) -> None:
        run.send("ledger", {"n": 1}, ordering_key="a")

    app.run("sends", at(DAY))
    assert app.deliver(once=True).dead == 1
    [message] = [str(each.id) for each in app.outbox.messages(closed=True)]
    operator = app_of(roles.operator)
    operator.outbox.redrive(message, reason="it was repaired", actor="ann")
    assert app.deliver(once=True).sent == 1
    assert len(operator.outbox.show(message).decisions) == 1
    operator.close()
    app.close()


def test_job_role_of_the_runbook_may_receive_and_its_operator_may_release_and_prune(
    roles: Roles,
) -> None:
    """Taken, a duplicate, parked, released; in both ways of receiving, also below the horizon."""
    app = app_of(roles.job)
    app.consumer("billing")(_bill)
    old: Any = {"consumer": "stock", "source": "shop", "sent_at": at(20 * DAY)}
    for _ in range(2):
        given: Any = {"source": "shop", "message_id": "1", "sent_at": at(10 * DAY)}
        app.receive("billing", **given, payload={"units": 1})
        with app.database.engine.begin() as connection:
            duly.receive(connection, message_id="1", **old)
    with pytest.raises(duly.MessageParked):
        app.receive("billing", source="shop", message_id="1", payload={"units": 2})
    operator = app_of(roles.operator)
    operator.release_parked("billing", "shop", "1", reason="it is right", actor="ann")
    assert app.receive("billing", source="shop", message_id="1", payload={"units": 2}).is_new
    with pytest.raises(Exception, match="denied"):
        app.prune_inbox(older_than=5 * DAY)
    pruned = {each.job: each.occurrences for each in operator.prune_inbox(older_than=5 * DAY)}
    assert pruned["stock"] == 1
    for ident in ("1", "2"):
        with app.database.engine.begin() as connection, pytest.raises(duly.MessageParked):
            duly.receive(connection, message_id=ident, **old)
    assert app.inbox_message("billing", "shop", "1").parked
    operator.close()
    app.close()


def _bill(message: duly.Incoming) -> None:
    message.execute("UPDATE balance SET units = units + :units WHERE id = 1", message.payload)


def test_job_role_of_the_runbook_may_serve_under_idempotency_keys(roles: Roles) -> None:
    """An answer that is stored, replayed, and forgotten by the operator's prune."""
    app = app_of(roles.job)

    def shop(_environ: Any, start_response: Any) -> list[bytes]:
        http.connection().execute(text("UPDATE balance SET units = units + 1 WHERE id = 1"))
        start_response("201 Created", [])
        return [b"paid"]

    served = IdempotencyMiddleware(shop, app, scope=lambda _environ: "ann")
    client = httpx.Client(transport=httpx.WSGITransport(served), base_url="http://shop")
    with client:
        answers = [client.post("/", headers={"Idempotency-Key": "k-1"}) for _ in range(2)]
    assert [each.headers.get("Idempotent-Replayed") for each in answers] == [None, "true"]
    assert {each.content for each in answers} == {b"paid"}
    owner = duly.App(roles.owner)
    with owner.database.engine.begin() as connection:
        connection.execute(text("UPDATE duly_http_key SET expires_us = 1"))
    owner.close()
    operator = app_of(roles.operator)
    operator.prune_inbox(older_than=5 * DAY, clock_is_right=True)
    with operator.database.engine.connect() as connection:
        assert connection.execute(text("SELECT body FROM duly_http_key")).scalars().all() == [None]
    operator.close()
    app.close()


@pytest.mark.parametrize("section", ["PostgreSQL roles", "MariaDB roles"])
def test_roles_of_the_runbook_name_every_table_that_there_is(section: str, tmp_path: Any) -> None:
    """A table that a migration adds is granted, or the page says why not."""
    app = duly.App(f"sqlite:///{tmp_path}/x.db")
    app.init()
    with app.database.engine.connect() as connection:
        there = {name for name in inspect(connection).get_table_names() if "duly_" in name}
    app.close()
    granted = set(re.findall(r"\bduly_\w+", block("sql", section).text))
    assert granted == there | {"duly_running"}


def test_job_role_of_the_runbook_may_not_prune_nor_waive(roles: Roles) -> None:
    """Each is refused by the server, and nothing is done."""
    app = app_of(roles.job, _tear)
    when = at(10 * DAY)
    app.run("credit", at(DAY / 24))
    with pytest.raises(duly.TransactionEnded):
        app.run("tears", when)
    key = duly.Occurrence("tears", when).key
    if roles.owner.startswith("postgresql"):
        with pytest.raises(Exception, match="denied"):
            app.waive(key, reason="test", actor="test")
    with pytest.raises(Exception, match="denied"):
        app.prune(older_than=5 * DAY)
    app.close()


def test_operator_role_of_the_runbook_may_override_and_prune(roles: Roles) -> None:
    job = app_of(roles.job, _tear)
    when = at(10 * DAY)
    key = duly.Occurrence("tears", when).key
    job.run("credit", at(DAY / 24))
    job.run("credit", at(20 * DAY))
    with pytest.raises(duly.TransactionEnded):
        job.run("tears", when)
    job.close()

    app = app_of(roles.operator)
    app.waive(key, reason="it is there", actor="ann")
    corrected = app.correct(key, reason="it was not", actor="ann")
    assert corrected.key == f"{key}#2"
    pruned = {job.job: job.occurrences for job in app.prune(older_than=5 * DAY)}
    assert pruned == {"credit": 1, "tears": 2}
    with pytest.raises(duly.Expired):
        app.run("tears", when)
    app.close()


# ------------------------------------------------------------------------------------ what is said


def test_torn_occurrence_is_held_until_it_is_settled(database: Database) -> None:
    """The two ways out, and what each leaves; SQLite lets no handler tear."""
    if database.name == "sqlite":
        app = app_of(database.url, _tear)
        app.init()
        with pytest.raises(Exception, match="not authorized"):
            app.run("tears", at(DAY))
        app.close()
        return
    _owner(database.url)
    app = app_of(database.url, _tear)
    when = at(DAY)
    key = duly.Occurrence("tears", when).key
    with pytest.raises(duly.TransactionEnded):
        app.run("tears", when)
    with pytest.raises(duly.AlreadySettled):
        app.run("tears", when)

    mended = app_of(database.url)
    result = mended.correct(key, reason="not there", actor="ann")

    assert (result.outcome.value, result.key) == ("applied", f"{key}#2")
    settled = mended.explain(key).settled
    assert settled is not None
    assert settled.disposition is duly.Disposition.WAIVED
    repeated = mended.correct(key, reason="not there", actor="ann")
    assert repeated.outcome is duly.Outcome.DUPLICATE
    app.close()
    mended.close()


def test_autogenerate_with_the_snippet_leaves_dulys_tables_alone(database: Database) -> None:
    space: dict[str, Any] = {}
    exec(block("python", "Alembic").text, space)  # noqa: S102 - the page's own text
    assert space["include_name"] is include_name, "the library's own, and no other"
    app = duly.App(database.url)
    app.init()

    def proposed(**options: Any) -> list[str]:
        with app.database.engine.connect() as connection:
            context = MigrationContext.configure(connection, opts=options)
            return [str(change) for change in compare_metadata(context, MetaData())]

    assert any("duly_" in change for change in proposed()), "the control"
    assert proposed(include_name=space["include_name"]) == []
    app.close()


def test_queries_for_people_run_on_every_database(database: Database) -> None:
    app = app_of(database.url)
    with app.database.engine.begin() as connection:
        connection.execute(text("CREATE TABLE balance (id INTEGER PRIMARY KEY, units BIGINT)"))
    app.init()
    queries = [each for each in FOUND if each.section == "Views for people"]
    assert len(queries) == 2
    with pytest.raises(ValueError, match="no"):
        app.run("fails", at(DAY))
    with app.database.engine.connect() as connection:
        assert connection.exec_driver_sql(queries[0].text.rstrip(";\n")).fetchall() == []
        named = queries[1].text.replace("daily-credit", "fails").rstrip(";\n")
        [row] = connection.exec_driver_sql(named).fetchall()
        assert row.error_type == "ValueError"
    app.close()


def test_every_block_of_the_runbook_is_used_above() -> None:
    used = {
        ("sql", "PostgreSQL roles"), ("sql", "MariaDB roles"), ("python", "Alembic"),
        ("sql", "Views for people"), ("text", "Pruning"), ("sql", "A role for init"),
        ("ini", "Driving it: tick or worker"),
    }  # fmt: skip
    assert {(each.language, each.section) for each in FOUND} == used


def test_unit_shown_for_a_worker_starts_one_and_gives_it_time_to_stop(tmp_path: Any) -> None:
    """Its command works until SIGTERM, and its time to stop is longer than the grace."""
    unit = configparser.ConfigParser()
    unit.read_string(block("ini", "Driving it: tick or worker").text)
    arguments = unit["Service"]["ExecStart"].split()[1:]
    (tmp_path / "jobs.py").write_text(WORKER_JOBS)
    made = [sys.executable, "-m", "duly", *arguments[:2], "init"]
    subprocess.run(made, cwd=tmp_path, check=True)
    worker = subprocess.Popen(
        [sys.executable, "-m", "duly", *arguments], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert worker.stdout is not None
    with worker:
        assert worker.stdout.readline().startswith("applied each:")
        worker.send_signal(signal.SIGTERM)
        worker.stdout.read()

    assert worker.returncode == 0
    grace = int(arguments[arguments.index("--grace") + 1])
    assert int(unit["Service"]["TimeoutStopSec"]) > grace + 10


WORKER_JOBS = """
from datetime import UTC, datetime, timedelta
import duly

app = duly.App("sqlite:///bank.db")

@app.job("each", schedule=duly.Every(timedelta(seconds=1), anchor=datetime(2026, 1, 1, tzinfo=UTC)))
def each(run):
    pass
"""


def test_command_shown_for_pruning_is_one_that_is_read(tmp_path: Any) -> None:
    """On a database without records it says so."""
    line = block("text", "Pruning").text.split()
    command = [sys.executable, "-m", "duly", *line[1:]]
    made = [sys.executable, "-m", "duly", "init"]
    where = ["--database", f"sqlite:///{tmp_path / 'bank.db'}"]
    subprocess.run([*made, *where], check=True)
    said = subprocess.run([*command, *where], check=True, capture_output=True, text=True)
    assert said.stdout.startswith("nothing to prune")
