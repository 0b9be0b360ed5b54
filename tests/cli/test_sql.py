"""`duly sql`: a script is the effect, whole or not at all, and its values are bound."""

from __future__ import annotations

import json
import warnings
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from sqlalchemy.engine import make_url

from tests.contract.bank import autocommit

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cli.conftest import Bank, Duly, Ended
    from tests.servers.database import Database

CREDIT = """\
-- The nightly credit; its amount is a parameter.
UPDATE balance SET units = units + :units WHERE id = 1;
INSERT INTO told (word) VALUES (:word);
"""
NIGHTLY = ("--schedule", "0 0 * * *", "--timezone", "Europe/Berlin")
AT = ("--at", "2026-09-13")
KEY = "credit:2026-09-12T22:00:00Z"
WHOLE = "SELECT count(*) FROM {table}"


class Sql:
    """Types `duly sql` for one job, with a script's text in place of its file."""

    def __init__(self, bank: Bank, duly: Duly, folder: Path) -> None:
        self.bank, self._duly, self._folder = bank, duly, folder
        bank.execute("CREATE TABLE told (word VARCHAR(200))")

    def __call__(self, script: str | bytes, *more: str, job: str = "credit") -> Ended:
        file = self._folder / "a.sql"
        file.write_bytes(script if isinstance(script, bytes) else script.encode())
        return self._duly("--database", self.bank.url, "sql", job, "a.sql", *more)

    def told(self) -> list[str]:
        return [str(row[0]) for row in self.rows("SELECT word FROM told ORDER BY word")]

    def rows(self, query: str) -> list[Any]:
        return self.bank.ask(query)

    def left(self) -> dict[str, int]:
        """How many rows each table of the ledger holds that an attempt could write."""
        tables = ("duly_occurrence", "duly_attempt", "duly_job", "duly_job_revision")
        return {table: self.rows(WHOLE.format(table=table))[0][0] for table in tables}


@pytest.fixture
def sql(bank: Bank, duly: Duly, tmp_path: Path) -> Sql:
    return Sql(bank, duly, tmp_path)


def test_script_is_applied_once_and_its_rows_are_reported_and_stored(sql: Sql) -> None:
    given = (*NIGHTLY, *AT, "-p", "units:=10", "-p", "word=it's ; :x %s")

    first = sql(CREDIT, *given)
    again = sql(CREDIT, *given, "--json")

    assert first.code == 0, first.err
    lines = first.out.splitlines()
    assert lines[:3] == ["statement\tline\tverb\trows", "1\t2\tUPDATE\t1", "2\t3\tINSERT\t1"]
    assert lines[3].startswith(f"applied {KEY}  attempt ")
    assert again.code == 0
    assert again.json["outcome"] == "duplicate"
    assert again.json["value"]["rows"] == 2
    assert [each["rows"] for each in again.json["value"]["each"]] == [1, 1]
    assert (sql.bank.units(), sql.told()) == (10, ["it's ; :x %s"])


def test_parameters_of_the_run_are_what_the_databases_own_clock_would_write(sql: Sql) -> None:
    """Compared by the database itself: the night in Berlin that ended on the 13th, in UTC."""
    kind = "timestamptz" if sql.bank.database.name == "postgresql" else "char(19)"
    zone = "+00" if kind == "timestamptz" else ""
    script = f"""
        CREATE TEMPORARY TABLE seen (a {kind}, b {kind}, c {kind});
        INSERT INTO seen VALUES (:nominal_time, :interval_start, :interval_end);
        INSERT INTO told SELECT 'times' FROM seen WHERE a = '2026-09-12 22:00:00{zone}'
            AND b = '2026-09-11 22:00:00{zone}' AND c = a;
        INSERT INTO told SELECT :key;
        INSERT INTO told SELECT :partition;
        INSERT INTO told SELECT 'day' WHERE :local_date = '2026-09-13' AND '5%s' LIKE '5%%';
    """

    ended = sql(script, *NIGHTLY, *AT, "--partition", "north/1")

    assert ended.code == 0, ended.err
    assert sql.told() == sorted([f"{KEY}:north%2F1", "north/1", "times", "day"])


def test_a_syntax_error_in_the_last_statement_leaves_nothing_of_the_earlier_ones(sql: Sql) -> None:
    script = "UPDATE balance SET units = 5;\n\nINSERT INTO told (word) VALUES ('a');\nUPDAT x;"

    ended = sql(script, *NIGHTLY, *AT, "--json")

    assert ended.code == 1
    assert ended.error["code"] == "statement_failed"
    assert "a.sql, line 4: statement 3 (UPDAT): " in ended.error["message"]
    assert (sql.bank.units(), sql.told()) == (0, [])
    assert sql(script.replace("UPDAT x", ""), *NIGHTLY, *AT).code == 0, "the key is free"


@pytest.mark.parametrize(
    ("script", "more", "said"),
    [
        ("", (), "a.sql holds no statement"),
        ("-- only\n/* comments */", (), "a.sql holds no statement"),
        (b"UPDATE balance SET units = '\xff'", (), "a.sql, line 1: byte 0xff is not UTF-8"),
        (b" " * (2 << 20) + b";", (), "a.sql is larger than 2 MiB"),
        ("DELETE FROM told;\nCOMMIT", (), "a.sql, line 2: COMMIT would end"),
        ("SELECT 1;\nSELECT :unit", ("-p", "units=1"), "line 2: the parameter :unit has no value"),
        (CREDIT, ("-p", "units=1", "-p", "word=a", "-p", "wrd=b"), "has no parameter :wrd"),
        ("SELECT :key", ("-p", "key=1"), "-p key cannot be given"),
        ("SELECT :a", ("-p", "a"), "-p 'a' is no parameter"),
        ("SELECT :a", ("-p", "a=1", "-p", "a=2"), "-p a was given twice"),
        ("SELECT :a", ("-p", "a:=[1]"), "an object or a list"),
        ("SELECT :a", ("-p", "a:=nan"), "-p a:=nan"),
        ("SELECT :a", ("-p", "a:=9007199254740993"), "-p a:=9007199254740993"),
    ],
)
def test_what_may_not_run_is_refused_in_one_line_before_anything_is_done(
    sql: Sql, script: str | bytes, more: tuple[str, ...], said: str
) -> None:
    before = sql.left()

    ended = sql(script, *NIGHTLY, *AT, *more)

    assert ended.code == 2
    assert said in ended.err
    assert ended.err.count("\n") == 1
    assert sql.left() == before


def test_no_more_of_a_file_of_100_mb_is_read_than_shows_its_size(sql: Sql, duly: Duly) -> None:
    with (sql.bank.folder / "a.sql").open("wb") as file:
        file.truncate(100 << 20)

    ended = duly("--database", sql.bank.url, "sql", "credit", "a.sql", *AT)

    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "a.sql is larger than 2 MiB" in ended.err


SETTINGS = {
    "no-backslash-escapes": {
        "init_command": "SET sql_mode='STRICT_ALL_TABLES,NO_BACKSLASH_ESCAPES'"
    },
    "ansi-quotes": {"init_command": "SET sql_mode='STRICT_ALL_TABLES,ANSI_QUOTES'"},
    "old-strings": {"options": "-c standard_conforming_strings=off"},
}


@pytest.mark.parametrize(
    ("database", "setting"),
    [
        ("mariadb", "no-backslash-escapes"),
        ("mariadb", "ansi-quotes"),
        ("postgresql", "old-strings"),
    ],
    indirect=["database"],
)
def test_a_backslash_that_the_session_reads_otherwise_is_refused(
    sql: Sql, duly: Duly, setting: str
) -> None:
    """Its quotes would end elsewhere, and a COMMIT could hide in what was taken for a text."""
    url = make_url(sql.bank.url).update_query_dict(SETTINGS[setting])
    where = ("--database", url.render_as_string(hide_password=False))
    folder = sql.bank.folder
    (folder / "a.sql").write_text(
        "UPDATE balance SET units = 5;\nINSERT INTO told (word) VALUES ('\\'); COMMIT; -- ')"
        if setting != "old-strings"
        else "UPDATE balance SET units = 5;\nINSERT INTO told (word) VALUES ('\\')"
    )
    (folder / "b.sql").write_text("INSERT INTO told (word) VALUES ('it''s')")

    refused = duly(*where, "sql", "credit", "a.sql", *NIGHTLY, *AT)
    applied = duly(*where, "sql", "credit", "b.sql", *NIGHTLY, *AT)

    assert refused.code == 2, refused.err
    assert "a.sql, line 2: a backslash, which this session's settings read" in refused.err
    assert sql.bank.units() == 0
    assert (applied.code, sql.told()) == (0, ["it's"]), applied.err


def test_a_file_that_cannot_be_read_is_named(sql: Sql, duly: Duly) -> None:
    for file, why in (("none.sql", "No such file"), (".", "Is a directory")):
        ended = duly("--database", sql.bank.url, "sql", "credit", file, *AT)

        assert ended.code == 2
        assert f"{file} cannot be read: {why}" in ended.err


def test_a_byte_order_mark_is_dropped(sql: Sql) -> None:
    assert sql("\ufeffUPDATE balance SET units = 5", *NIGHTLY, *AT).code == 0
    assert sql.bank.units() == 5


def test_a_dry_run_shows_the_rows_and_leaves_nothing(sql: Sql) -> None:
    before = sql.left()

    ended = sql(CREDIT, *NIGHTLY, *AT, "-p", "units:=10", "-p", "word=a", "--dry-run")

    assert ended.code == 0, ended.err
    assert "1\t2\tUPDATE\t1\n2\t3\tINSERT\t1\nrolled back" in ended.out
    assert (sql.bank.units(), sql.told()) == (0, [])
    assert sql.left() == before


def test_a_dry_run_in_a_file_without_dulys_tables_makes_none(
    file_bank: Bank, duly: Duly, tmp_path: Path
) -> None:
    """It shows what a start would do there, which makes them; the file keeps its bytes."""
    sql = Sql(file_bank, duly, tmp_path)
    tables = "SELECT name FROM sqlite_master ORDER BY name"
    before = (sql.rows(tables), (tmp_path / "test.db").read_bytes())
    script = "UPDATE balance SET units = units + 10"

    shown = sql(script, *NIGHTLY, *AT, "--dry-run")
    wrong = sql(f"{script}; UPDATE nothing SET x = 1", *NIGHTLY, *AT, "--dry-run")
    after = (sql.rows(tables), (tmp_path / "test.db").read_bytes())

    assert (shown.code, wrong.code) == (0, 1), shown.err
    assert f"rolled back {KEY}" in shown.out
    assert after == before
    assert sql(script, *NIGHTLY, *AT).code == 0
    assert sql.bank.units() == 10


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_dry_run_on_a_server_without_dulys_tables_is_refused_as_a_start_is(
    database: Database, duly: Duly, tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1")
    line = ("--database", database.url, "sql", "credit", "a.sql", *NIGHTLY, *AT)
    dry, start = duly(*line, "--dry-run"), duly(*line)

    assert (dry.code, start.code) == (3, 3)
    assert dry.err == start.err
    assert "duly init" in dry.err


def test_a_correction_runs_the_script_again_under_a_key_of_its_own(sql: Sql) -> None:
    """Its parameters are its payload, so a wrong amount can be put right."""
    script = "UPDATE balance SET units = units + :units"
    assert sql(script, *NIGHTLY, *AT, "-p", "units:=10").code == 0
    order = ("--correct", KEY, "--reason", "five too few", "-p", "units:=5")

    corrected = sql(script, *NIGHTLY, *order)
    again = sql(script, *NIGHTLY, *order)
    other = sql(script, *NIGHTLY, *order[:-1], "units:=6")
    dry = sql(script, *NIGHTLY, *order, "--dry-run")

    assert (corrected.code, again.code, other.code, dry.code) == (0, 0, 3, 2)
    assert f"applied {KEY}#2" in corrected.out
    assert "leave --dry-run out" in dry.err
    assert sql.bank.units() == 15


def test_a_dry_run_of_what_is_settled_or_fails_says_so(sql: Sql) -> None:
    assert sql("UPDATE balance SET units = 5", *NIGHTLY, *AT).code == 0

    settled = sql("UPDATE balance SET units = 6", *NIGHTLY, *AT, "--dry-run")
    failing = sql("UPDATE nope SET units = 6", *NIGHTLY, "--at", "2026-09-14", "--dry-run")
    future = sql("SELECT 1", *NIGHTLY, "--at", "2999-01-01", "--dry-run")

    assert (settled.code, failing.code, future.code) == (0, 1, 2)
    assert "is settled as applied" in settled.out
    assert "line 1: statement 1 (UPDATE)" in failing.err
    assert "in the future" in future.err
    assert sql.bank.units() == 5


def test_parameters_are_the_payload_and_the_text_is_not(sql: Sql) -> None:
    """Another amount for a settled night is a conflict; an edited script is a duplicate."""
    given = (*NIGHTLY, *AT, "-p", "units:=10")
    script = "UPDATE balance SET units = units + :units"
    assert sql(script, *given).code == 0

    edited = sql(f"{script}, id = id", *given)
    other = sql(script, *NIGHTLY, *AT, "-p", "units:=11")

    assert edited.code == 0
    assert edited.out.startswith("the script was another text then")
    assert other.code == 3
    assert "another payload" in other.err
    assert sql.bank.units() == 10


def test_without_a_schedule_a_job_is_as_the_ledger_has_it(sql: Sql) -> None:
    """A repair by hand edits no definition; a new job has no schedule and needs a time."""
    assert sql("SELECT 1", *NIGHTLY, *AT).code == 0
    before = sql.left()["duly_job_revision"]

    by_hand = sql("UPDATE balance SET units = 5", "--at", "2026-09-14")
    new = sql("SELECT 1", job="once")
    timed = sql("SELECT :nominal_time", "--at", "2026-09-14T12:00:00Z", job="once")
    lost = sql("SELECT :interval_end", "--at", "2026-09-14T13:00:00Z", job="once")

    assert by_hand.code == 0, by_hand.err
    assert "credit:2026-09-13T22:00:00Z" in by_hand.out
    assert sql.left()["duly_job_revision"] == before + 1, "that of the job without a schedule"
    assert (new.code, timed.code, lost.code) == (2, 0, 2)
    assert "line 1: :interval_end needs a schedule" in lost.err


@pytest.mark.parametrize("more", [("--at", "2026-09-13T00:00:00Z"), ()])
def test_a_job_without_a_schedule_in_a_file_without_dulys_tables_needs_a_time(
    file_bank: Bank, duly: Duly, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """The first start makes the tables there, whatever defines the job."""
    sql = Sql(file_bank, duly, tmp_path)

    ended = sql("UPDATE balance SET units = units + 10", *more)

    assert ended.code == (0 if more else 2), ended.err
    assert sql.bank.units() == (10 if more else 0)


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_a_job_without_a_schedule_on_a_server_without_tables_names_the_command(
    database: Database, duly: Duly, tmp_path: Path
) -> None:
    (tmp_path / "a.sql").write_text("SELECT 1")

    ended = duly("--database", database.url, "sql", "credit", "a.sql", *AT)

    assert ended.code == 3, ended.err
    assert "duly init" in ended.err


def test_an_edit_is_a_revision_and_an_earlier_definition_is_stale_unless_adopted(
    sql: Sql,
) -> None:
    assert sql("SELECT 1", *NIGHTLY, *AT).code == 0
    assert sql("SELECT 1", "--schedule", "0 1 * * *").code == 0

    stale = sql("SELECT 1", *NIGHTLY)
    adopted = sql("SELECT 1", *NIGHTLY, "--adopt")

    assert stale.code == 3
    assert "leave --schedule out to start by that one, or" in stale.err
    assert adopted.code == 0, adopted.err
    whys = sql.rows("SELECT why FROM duly_job_revision WHERE job = 'credit' ORDER BY revision")
    assert [row[0] for row in whys] == ["first", "edit", "adopted"]


@pytest.mark.parametrize("words", [("sql", "a.sql"), ("exec", "--after-crash=retry")])
def test_schedule_for_a_later_name_is_refused_and_the_line_to_type_is_told(
    sql: Sql, duly: Duly, words: tuple[str, str]
) -> None:
    """Its night is settled under the first name; nothing here defines a job by `formerly=`."""
    assert sql("UPDATE balance SET units = units + 1", *NIGHTLY, *AT).code == 0
    sql.bank.execute("UPDATE duly_job SET shown_name = 'nightly' WHERE name = 'credit'")
    line = ("--database", sql.bank.url, words[0], "nightly", *words[1:], *AT)
    work = ("--", "true") if words[0] == "exec" else ()

    refused = duly(*line, *NIGHTLY, *work)
    given = duly(*line, *work)

    assert refused.code == 2
    assert "give credit with --schedule, or leave --schedule out" in refused.err
    assert "formerly=" not in refused.err
    assert given.out.startswith(f"duplicate {KEY}")
    assert sql.bank.units() == 1


def test_a_period_names_the_day_whatever_time_starts_it(sql: Sql) -> None:
    daily = ("--period", "day", "--timezone", "Europe/Berlin", *AT)
    script = "UPDATE balance SET units = units + 1"

    assert sql(script, "--schedule", "15 1 * * *", *daily).code == 0
    moved = sql(script, "--schedule", "15 2 * * *", *daily)

    assert moved.out.startswith(f"duplicate {KEY}")
    assert sql.bank.units() == 1


def test_with_an_app_its_schedule_and_payload_serve_and_its_handler_does_not(
    sql: Sql, duly: Duly, tmp_path: Path
) -> None:
    (tmp_path / "b.sql").write_text("UPDATE balance SET units = units + 2 * :units")
    start = ("--app", sql.bank.app, "sql", "daily-credit", "b.sql", *AT)

    applied = duly(*start)
    by_code = duly("--app", sql.bank.app, "run", "daily-credit", *AT)
    unknown = duly("--app", sql.bank.app, "sql", "dayly-credit", "b.sql")
    twice = duly(*start, "--schedule", "0 0 * * *")

    assert applied.code == 0, applied.err
    assert by_code.out.startswith("duplicate daily-credit:2026-09-13T00:00:00Z")
    assert sql.bank.units() == 20
    assert (unknown.code, twice.code) == (2, 2)
    assert "--schedule defines a job, and the App defines daily-credit" in twice.err


def test_options_that_say_more_of_a_schedule_need_one(sql: Sql) -> None:
    for option in (("--timezone", "Europe/Berlin"), ("--period", "day"), ("--adopt",)):
        ended = sql("SELECT 1", *AT, *option)

        assert ended.code == 2
        assert f"{option[0]} says more of a --schedule" in ended.err


def test_returned_rows_are_counted_and_not_kept(sql: Sql) -> None:
    script = """
        INSERT INTO told (word) VALUES ('a'), ('b');
        SELECT word FROM told;
        INSERT INTO told (word) VALUES ('c') RETURNING word;
    """

    ended = sql(script, *NIGHTLY, *AT, "--json")

    assert ended.code == 0, ended.err
    assert [each["rows"] for each in ended.json["value"]["each"]] == [2, 2, 1]
    assert ended.json["value"]["rows"] == 3
    assert "word" not in json.dumps(ended.json)


def test_a_script_of_thousands_of_statements_keeps_a_bounded_result(sql: Sql) -> None:
    script = "UPDATE balance SET units = units + 1;\n" * 2_000

    ended = sql(script, *NIGHTLY, *AT)

    assert ended.code == 0, ended.err
    assert "… and 1500 more statements; 2000 rows changed in all" in ended.out
    assert sql.bank.units() == 2_000


def test_what_ends_the_transaction_unseen_is_found_and_held(sql: Sql) -> None:
    """A COMMIT that hides from the reader of the script never lands the key with half an effect."""
    hidden = {
        "sqlite": "INSERT OR ROLLBACK INTO balance (id, units) VALUES (1, 0)",
        "postgresql": "DO $$ BEGIN COMMIT; END $$",
        "mariadb": "CALL commits()",
    }[sql.bank.database.name]
    if sql.bank.database.name == "mariadb":
        with closing(autocommit(sql.bank.database)) as connection:
            connection.cursor().execute("CREATE OR REPLACE PROCEDURE commits() COMMIT")

    ended = sql(f"UPDATE balance SET units = 5; {hidden}; SELECT 1", *NIGHTLY, *AT)

    assert ended.code in {1, 3}, ended.err
    assert ended.err.count("\n") == 1
    settled = sql.rows("SELECT disposition FROM duly_occurrence")
    on_mariadb = sql.bank.database.name == "mariadb"
    assert [row[0] for row in settled] == (["torn"] if on_mariadb else [])
    assert sql.bank.units() == (5 if on_mariadb else 0)


def test_a_script_that_kills_its_own_connection_is_told_of_it_in_one_line(sql: Sql) -> None:
    """Neither the pool nor a driver adds a warning of its own to what duly says."""
    if sql.bank.database.name == "sqlite":
        pytest.skip("SQLite has no server to ask for it")
    killing = {
        "postgresql": "SELECT pg_terminate_backend(pg_backend_pid())",
        "mariadb": "KILL CONNECTION_ID()",
    }[sql.bank.database.name]

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        ended = sql(f"UPDATE balance SET units = 5; {killing}", *NIGHTLY, *AT)

    assert ended.code == 75, ended.err
    assert (ended.err.count("\n"), [str(each.message) for each in warned]) == (1, [])
    assert sql.bank.units() == 0


def test_a_dry_run_asks_what_the_commit_would(sql: Sql) -> None:
    """A constraint that is deferred to the commit is not broken by a script that looks well."""
    if sql.bank.database.name != "postgresql":
        pytest.skip("only PostgreSQL defers a constraint of a script's own")
    sql.bank.execute(
        "CREATE TABLE entry (id int REFERENCES balance (id) DEFERRABLE INITIALLY DEFERRED)"
    )
    given = (*NIGHTLY, *AT)

    dry = sql("INSERT INTO entry VALUES (7)", *given, "--dry-run")
    real = sql("INSERT INTO entry VALUES (7)", *given)

    assert (dry.code, real.code) == (1, 1)
    assert f"the commit of {KEY} would be refused" in dry.err
    assert sql("INSERT INTO entry VALUES (1)", *given, "--dry-run").code == 0


def test_a_script_that_gave_way_is_tried_again_as_a_whole(sql: Sql) -> None:
    """A serialization failure is nobody's mistake; a sequence, which no rollback resets, counts."""
    if sql.bank.database.name != "postgresql":
        pytest.skip("only PostgreSQL lets a statement raise such a failure by its code")
    sql.bank.execute("CREATE SEQUENCE tries")
    script = """
        UPDATE balance SET units = units + 5;
        DO $$ BEGIN
            IF nextval('tries') = 1 THEN RAISE EXCEPTION 'again' USING ERRCODE = '40001'; END IF;
        END $$;
    """

    ended = sql(script, *NIGHTLY, *AT)

    assert ended.code == 0, ended.err
    assert sql.bank.units() == 5
    assert sql.rows("SELECT last_value FROM tries")[0][0] == 2
