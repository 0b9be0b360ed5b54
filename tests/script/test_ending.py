"""Which statements end a transaction by their text: a table, and what the server makes of it."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly._db.dialects import DIALECTS, MARIADB
from duly._db.ending import ending

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.servers.mariadb import MariaDBServer

# A statement for MariaDB, and what the message calls it.
ENDS: list[tuple[str, str]] = [
    ("COMMIT WORK", "COMMIT would end"),
    ("# why\nCOMMIT", "COMMIT would end"),
    ("-- why\n/* so */ COMMIT", "COMMIT would end"),
    ("ROLLBACK", "ROLLBACK would end"),
    ("BEGIN", "BEGIN would end"),
    ("START/* x */TRANSACTION READ ONLY", "START TRANSACTION would end"),
    ("/*! COMMIT */", "COMMIT would end"),
    ("/*M! COMMIT */", "COMMIT would end"),
    ("/*!50000COMMIT*/", "COMMIT would end"),
    ("/*M!100100 COMMIT */", "COMMIT would end"),
    ("/*!*/ COMMIT", "COMMIT would end"),
    ("/*! /* x */ COMMIT */", "COMMIT would end"),
    ("/*! SET @x = 1, */ autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET /*!50000 autocommit*/ = 1", "SET AUTOCOMMIT would end"),
    ("SET autocommit=1", "SET AUTOCOMMIT would end"),
    ("SET/**/autocommit=1", "SET AUTOCOMMIT would end"),
    ("SET @@autocommit := 1", "SET AUTOCOMMIT would end"),
    ("SET LOCAL autocommit = ON", "SET AUTOCOMMIT would end"),
    ("SET @@session.`autocommit` = 1", "SET AUTOCOMMIT would end"),
    ("SET @x = 1, autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET @x = 'it''s \\', ', @@local.autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET @x = (SELECT 1), SESSION autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET @x = CASE WHEN 1 THEN 2 END, autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET NAMES utf8mb4, autocommit = 1", "SET AUTOCOMMIT would end"),
    ("SET @x = 1, DEFAULT ROLE NONE", "SET DEFAULT ROLE would end"),
    ("SET STATEMENT max_statement_time = 10 FOR COMMIT", "COMMIT would end"),
    ("SET STATEMENT max_statement_time = (SELECT 1 FOR UPDATE) FOR COMMIT", "COMMIT would end"),
    (
        "SET STATEMENT lock_wait_timeout = 9 FOR SET STATEMENT lock_wait_timeout = 8 FOR COMMIT",
        "COMMIT would end",
    ),
    (
        "EXECUTE IMMEDIATE CONCAT('COM', 'MIT')",
        "EXECUTE is for a text that only the server reads, which may end",
    ),
    ("CREATE TEMPORARY SEQUENCE s", "CREATE would end"),
    ("CREATE TABLE made (a int)", "CREATE would end"),
    ("ALTER TABLE own ADD b int", "ALTER would end"),
    ("TRUNCATE own", "TRUNCATE would end"),
    ("DROP TABLE own", "DROP would end"),
    ("ANALYZE LOCAL TABLE t", "ANALYZE LOCAL TABLE would end"),
    ("OPTIMIZE TABLE t", "OPTIMIZE would end"),
    ("CHECK TABLE t", "CHECK TABLE would end"),
    ("REPAIR TABLE t", "REPAIR would end"),
    ("FLUSH LOCAL STATUS", "FLUSH would end"),
    ("RESET QUERY CACHE", "RESET would end"),
    ("BACKUP UNLOCK", "BACKUP would end"),
]

# What the tests' server cannot be asked: it would change the server, or show nothing.
ENDS_UNASKED: list[tuple[str, str]] = [
    ("SET PASSWORD = PASSWORD('x')", "SET PASSWORD would end"),
    ('SET "autocommit" = 1', "SET AUTOCOMMIT would end"),
    ("UNINSTALL PLUGIN nothing", "UNINSTALL would end"),
    ("BACKUP STAGE START", "BACKUP would end"),
    ("RESET MASTER", "RESET would end"),
    ("LOCK TABLE t WRITE", "LOCK TABLE would end"),
    ("UNLOCK TABLES", "UNLOCK TABLES would end"),
    ("GRANT SELECT ON t TO CURRENT_USER", "GRANT would end"),
    ("PREPARE p FROM 'COMMIT'", "PREPARE is for a text that only the server reads, which may end"),
    ("EXECUTE p", "EXECUTE is for a text that only the server reads, which may end"),
    (";; COMMIT", "COMMIT would end"),
]

# What holds the words of an end as data, or looks like one and is none.
STAYS: list[str] = [
    "SELECT 'COMMIT', \"ROLLBACK\", 1 AS `commit`",
    "INSERT INTO words (`commit`, `set`, `reset`) VALUES ('; COMMIT', 'SET autocommit = 1', 1)",
    "UPDATE words SET `commit` = 'x', autocommit = 1",
    "UPDATE words SET reset = 2 /* COMMIT */ -- COMMIT",
    "SELECT reset, autocommit FROM words # COMMIT",
    "/* COMMIT */ SELECT 1",
    "-- COMMIT\nSELECT 1",
    "# COMMIT\nSELECT 1",
    "SELECT CASE WHEN 1 THEN 2 END",
    "/*!40101 SET NAMES utf8mb4 */",
    "/*!40101 SET @old = @@autocommit */",
    "SELECT /*! SQL_NO_CACHE */ 1",
    "SELECT /*+ COMMIT */ 1",
    "SET @autocommit = 1",
    "SET @x = 'a, autocommit = 1'",
    'SET @x = "a, autocommit = 1"',
    "SET @x = 1 -- , autocommit = 1",
    "SET @x = 1 /* , autocommit = 1 */, @y = 2",
    "SET @x = (SELECT autocommit FROM words LIMIT 1)",
    "SET @x = 'it''s', @y = ' \\', autocommit = 1'",
    "SET @x = @@autocommit, @y = @@session.autocommit",
    "SET @`a, autocommit` = 1",
    "SET ROLE NONE",
    "SET STATEMENT max_statement_time = 10 FOR SELECT reset FROM words FOR UPDATE",
    "SET STATEMENT max_statement_time = 10 FOR SELECT SUBSTRING('ab' FROM 1 FOR reset) FROM words",
    "SET STATEMENT max_statement_time = 10 FOR UPDATE words SET autocommit = 1",
    "SAVEPOINT `commit`",
    "ROLLBACK TO `kept`",
    "ROLLBACK WORK TO SAVEPOINT kept",
    "CREATE TEMPORARY TABLE fresh (a int)",
    "CREATE OR REPLACE TEMPORARY TABLE own (`commit` int)",
    "DROP TEMPORARY TABLE own",
    "DEALLOCATE PREPARE p",
    "DROP PREPARE p",
    "BEGIN NOT ATOMIC SELECT 1; END",
    "ANALYZE UPDATE words SET reset = 1",
    "CHECKSUM TABLE t",
    "LOAD INDEX INTO CACHE t",
    "EXPLAIN SELECT 1",
]


@pytest.mark.parametrize(("statement", "said"), ENDS + ENDS_UNASKED)
def test_statement_that_ends_a_transaction_of_mariadb_is_known(statement: str, said: str) -> None:
    """Each other spelling is found, and the message names what would end it."""
    assert ending(MARIADB, statement) == said


@pytest.mark.parametrize("statement", [*STAYS, "SET GLOBAL autocommit = 1"])
def test_words_of_an_end_that_are_data_are_none(statement: str) -> None:
    """A string, a name, a comment or a column never has a statement refused."""
    assert ending(MARIADB, statement) is None


@pytest.mark.parametrize("name", ["sqlite", "postgresql"])
@pytest.mark.parametrize(
    "statement", ["EXECUTE p", "RESET ALL", "ALTER TABLE t ADD b int", "SET x = 1, autocommit = 1"]
)
def test_what_commits_on_mariadb_alone_is_free_elsewhere(name: str, statement: str) -> None:
    """Its list is no other database's."""
    assert ending(DIALECTS[name], statement) is None


_TEXTS = st.text(st.sampled_from("';\"`\\ ,=@/*!#-\nCOMMITautocommit"), max_size=30)


def _quoted(text: str, quote: str) -> str:
    escaped = text if quote == "`" else text.replace("\\", "\\\\")
    return quote + escaped.replace(quote, quote * 2) + quote


@given(_TEXTS, st.sampled_from("'\""))
def test_no_text_of_a_string_has_a_statement_refused(text: str, quote: str) -> None:
    """Whatever a value holds, an assignment of it is free, and what follows it is still read."""
    string = _quoted(text, quote)

    assert ending(MARIADB, f"SET @x = {string}, @y = {string}") is None
    assert ending(MARIADB, f"SET @x = {string}, autocommit = 1") == "SET AUTOCOMMIT would end"


_GAPS = st.lists(
    st.sampled_from(["\n", "/* COMMIT */", "/**/", "# x\n", "-- x\n", "/*! */"]), min_size=1
).map("".join)


@given(_GAPS, _GAPS, _GAPS)
def test_no_gap_hides_the_end_of_a_transaction(first: str, second: str, third: str) -> None:
    """Comments and blanks may stand before and between the words."""
    assert ending(MARIADB, f"{first}START{second}TRANSACTION") == "START TRANSACTION would end"
    assert ending(MARIADB, f"{first}CREATE{second}TEMPORARY{third}TABLE x (a int)") is None
    assert (
        ending(MARIADB, f"{first}SET{second}@x = 1,{third}autocommit = 1")
        == "SET AUTOCOMMIT would end"
    )


@pytest.fixture(scope="module")
def database(mariadb: MariaDBServer) -> Iterator[str]:
    url = mariadb.create_database()
    name = mariadb.database_of(url)
    with closing(mariadb.connect(name, autocommit=True)) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE t (a int) ENGINE=InnoDB")
        cursor.execute("CREATE TABLE words (`commit` text, `set` text, reset int, autocommit int)")
    yield name
    mariadb.drop(url)


@pytest.mark.parametrize(
    ("statement", "ends"), [(each, True) for each, _ in ENDS] + [(each, False) for each in STAYS]
)
def test_table_is_what_the_server_makes_of_it(
    mariadb: MariaDBServer, database: str, statement: str, ends: bool
) -> None:
    """Its own savepoint is gone after each of these, and there after each of those."""
    with closing(mariadb.connect(database)) as connection:
        cursor = connection.cursor()
        cursor.execute("CREATE TEMPORARY TABLE own (a int)")
        cursor.execute("PREPARE p FROM 'SELECT 1'")
        cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("SAVEPOINT kept")
        cursor.execute(statement)
        if ends:
            with pytest.raises(connection.OperationalError, match="SAVEPOINT kept does not exist"):
                cursor.execute("ROLLBACK TO kept")
        else:
            cursor.execute("ROLLBACK TO kept")
        connection.rollback()
