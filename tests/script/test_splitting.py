"""The table by which the splitter was chosen: what each database's own client takes for one.

sqlparse 0.6 misses five of these (nested comments, `5--1`, a column named `begin`, executable
comments, what is not closed); sqlglot's tokens miss those with a body, for which psql's rule is
laid over them.
"""

from __future__ import annotations

import re
import sqlite3

import pytest

from duly._db import script
from duly._db.dialects import DIALECTS
from duly._db.script import SCRIPT_BYTES_MAX, Script, parse
from duly.errors import ScriptInvalid

EVERY = tuple(DIALECTS)
ATOMIC = (
    "CREATE OR REPLACE FUNCTION f() RETURNS int BEGIN ATOMIC SELECT 1; SELECT CASE WHEN true THEN 2"
    " END; END"
)
TRIGGER = (
    "CREATE TEMP TRIGGER g AFTER INSERT ON a BEGIN UPDATE b SET x=CASE WHEN 1 THEN 2 END; DELETE"
    " FROM c; END"
)

# Dialects, what it shows, the script, its statements.
SPLITS: list[tuple[tuple[str, ...], str, str, list[str]]] = [
    (EVERY, "no semicolon", "SELECT 1", ["SELECT 1"]),
    (EVERY, "empty statements", ";; SELECT 1;;\n;", ["SELECT 1"]),
    (EVERY, "in a string", "SELECT 'a;b'; SELECT 2", ["SELECT 'a;b'", "SELECT 2"]),
    (EVERY, "doubled quote", "SELECT 'it''s; so'; SELECT 2", ["SELECT 'it''s; so'", "SELECT 2"]),
    (EVERY, "in a comment", "SELECT 1 -- a; b\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
    (
        EVERY,
        "in a block",
        "SELECT 1 /* a; b */ + 1; SELECT 2",
        ["SELECT 1 /* a; b */ + 1", "SELECT 2"],
    ),
    (EVERY, "a trailing comment", "SELECT 1; -- the end; really", ["SELECT 1"]),
    (EVERY, "a trailing block", "SELECT 1; /* the; end */", ["SELECT 1"]),
    (EVERY, "CRLF", "SELECT 1;\r\n-- c;\r\nSELECT\r\n2;\r\n", ["SELECT 1", "SELECT\r\n2"]),
    (EVERY, "a byte order mark", "\ufeffSELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    (
        EVERY,
        "CASE … END",
        "SELECT CASE WHEN 1=1 THEN 2 END; SELECT 2",
        ["SELECT CASE WHEN 1=1 THEN 2 END", "SELECT 2"],
    ),
    (
        EVERY,
        "a column named begin",
        "UPDATE t SET begin=1; SELECT 2",
        ["UPDATE t SET begin=1", "SELECT 2"],
    ),
    (
        EVERY,
        "a savepoint",
        "SAVEPOINT a; ROLLBACK TO SAVEPOINT a",
        ["SAVEPOINT a", "ROLLBACK TO SAVEPOINT a"],
    ),
    (EVERY, "letters of all kinds", "SELECT 'ü;→;😀'; SELECT 2", ["SELECT 'ü;→;😀'", "SELECT 2"]),
    (EVERY, "a hint", "SELECT /*+ a; b */ 1; SELECT 2", ["SELECT /*+ a; b */ 1", "SELECT 2"]),
    (EVERY, "braces", "SELECT '{{#'; SELECT '%}'", ["SELECT '{{#'", "SELECT '%}'"]),
    (
        ("sqlite", "postgresql"),
        "quoted name",
        'SELECT "a"";b"; SELECT 2',
        ['SELECT "a"";b"', "SELECT 2"],
    ),
    (
        ("sqlite", "postgresql"),
        "a backslash is a letter",
        r"SELECT 'C:\'; SELECT 2",
        [r"SELECT 'C:\'", "SELECT 2"],
    ),
    (("sqlite", "postgresql"), "5--1", "SELECT 5--1; SELECT 2", ["SELECT 5"]),
    (
        ("postgresql",),
        "$$",
        "DO $$ BEGIN NULL; NULL; END $$; SELECT 2",
        ["DO $$ BEGIN NULL; NULL; END $$", "SELECT 2"],
    ),
    (
        ("postgresql",),
        "$tag$",
        "SELECT $b$ a; $$; $b$; SELECT 2",
        ["SELECT $b$ a; $$; $b$", "SELECT 2"],
    ),
    (
        ("postgresql",),
        "a dollar in a name",
        "SELECT a$b$c; SELECT d$b$e",
        ["SELECT a$b$c", "SELECT d$b$e"],
    ),
    (
        ("postgresql",),
        "nested comments",
        "SELECT 1 /* a; /* b; */ c; */; SELECT 2",
        ["SELECT 1", "SELECT 2"],
    ),
    (
        ("postgresql",),
        "E'…'",
        r"SELECT E'it\'s; so'; SELECT 2",
        [r"SELECT E'it\'s; so'", "SELECT 2"],
    ),
    (("postgresql",), "U&'…'", r"SELECT U&'\0041;'; SELECT 2", [r"SELECT U&'\0041;'", "SELECT 2"]),
    (
        ("postgresql",),
        "BEGIN ATOMIC",
        f"{ATOMIC}; SELECT 3",
        [
            ATOMIC,
            "SELECT 3",
        ],
    ),
    (
        ("postgresql",),
        "a rule",
        "CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b); SELECT 2",
        ["CREATE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM a; DELETE FROM b)", "SELECT 2"],
    ),
    (
        ("mariadb",),
        "backslash escapes",
        r"SELECT 'it\'s; so'; SELECT 2",
        [r"SELECT 'it\'s; so'", "SELECT 2"],
    ),
    (("mariadb",), "double quotes", r'SELECT "a\";b"; SELECT 2', [r'SELECT "a\";b"', "SELECT 2"]),
    (("mariadb",), "#", "SELECT 1 # a; b\n; SELECT 2", ["SELECT 1", "SELECT 2"]),
    (("mariadb",), "5--1", "SELECT 5--1; SELECT 2", ["SELECT 5--1", "SELECT 2"]),
    (("mariadb", "sqlite"), "`", "SELECT `a;b`; SELECT 2", ["SELECT `a;b`", "SELECT 2"]),
    (
        ("mariadb", "sqlite"),
        "no nesting",
        "SELECT 1 /* a /* b; */; SELECT 2",
        ["SELECT 1", "SELECT 2"],
    ),
    (
        ("mariadb",),
        "a temporary table",
        "CREATE TEMPORARY TABLE t (a int); SELECT 2",
        ["CREATE TEMPORARY TABLE t (a int)", "SELECT 2"],
    ),
    (("sqlite",), "[…]", "SELECT [a;b]; SELECT 2", ["SELECT [a;b]", "SELECT 2"]),
    (
        ("sqlite",),
        "a trigger",
        f"{TRIGGER}; SELECT 2",
        [
            TRIGGER,
            "SELECT 2",
        ],
    ),
]

# Dialects, the script, the line, a word of the reason.
REFUSALS: list[tuple[tuple[str, ...], str, int, str]] = [
    (EVERY, "SELECT 1;\nCOMMIT;\nSELECT 2", 2, "COMMIT would end"),
    (EVERY, "SELECT 1;\n  -- why\n  RoLLback ;", 3, "ROLLBACK would end"),
    (EVERY, "BEGIN; SELECT 1; COMMIT", 1, "BEGIN would end"),
    (EVERY, "SELECT 'a;\nb", 1, "not closed"),
    (EVERY, "SELECT 1;\n/* a; SELECT 2", 2, "not closed"),
    (EVERY, "SELECT 1;\n\n\\i other.sql\n", 3, r"\i is a command of a client"),
    (("postgresql", "mariadb"), "\nSTART /* x */ TRANSACTION", 2, "START TRANSACTION would end"),
    (("postgresql",), "SELECT $b$ a\n; $$", 1, "not closed"),
    (("postgresql",), "SELECT 1 \\gexec", 1, "client"),
    (("postgresql",), "SELECT 1;\nCOPY t (a, b) FROM STDIN;\n1\tit's\n\\.\n", 2, "COPY FROM STDIN"),
    (("postgresql",), "PREPARE TRANSACTION 'x'", 1, "PREPARE TRANSACTION would end"),
    (("postgresql",), "VACUUM t", 1, "VACUUM acts on more"),
    (("mariadb",), "SELECT 1;\nALTER TABLE t ADD b int", 2, "commits implicitly"),
    (("mariadb",), "CREATE TABLE t (a int)", 1, "commits implicitly"),
    (("mariadb",), "TRUNCATE t", 1, "TRUNCATE would end"),
    (("mariadb",), "SET autocommit = 1", 1, "AUTOCOMMIT would end"),
    (("mariadb",), "DELIMITER //\nSELECT 'it's' //", 1, "DELIMITER is a command"),
    (("mariadb",), "source other.sql", 1, "SOURCE is a command"),
    (("mariadb",), "/*!40101 COMMIT */; SELECT 1", 1, "comment that MariaDB executes"),
    (("mariadb",), "SELECT 1 /*M!100601 + 1 */", 1, "comment that MariaDB executes"),
    (("mariadb",), "BEGIN NOT ATOMIC UPDATE t SET a=1; END", 1, "CALL"),
    (("sqlite",), "SELECT 1;\nPRAGMA foreign_keys=1", 2, "PRAGMA acts on more"),
    (("sqlite",), "ATTACH 'x' AS y", 1, "ATTACH acts on more"),
    (("sqlite",), "VACUUM", 1, "VACUUM acts on more"),
    (("sqlite",), ".read other.sql", 1, "client"),
    (("sqlite",), "END", 1, "END would end"),
]


def texts(found: Script, dialect: str) -> list[str]:
    return [each.spelled(DIALECTS[dialect]) for each in found.statements]


def cases(table: list[tuple[tuple[str, ...], str, str, list[str]]]) -> list[object]:
    return [
        pytest.param(name, sql, wanted, id=f"{name}: {what}")
        for names, what, sql, wanted in table
        for name in names
    ]


@pytest.mark.parametrize(("dialect", "sql", "wanted"), cases(SPLITS))
def test_a_script_is_split_as_the_databases_own_client_does(
    dialect: str, sql: str, wanted: list[str]
) -> None:
    found = parse(sql.encode(), DIALECTS[dialect], where="a.sql")

    doubled = "%" in DIALECTS[dialect].paramstyle("x")
    assert texts(found, dialect) == [w.replace("%", "%%") if doubled else w for w in wanted]


@pytest.mark.parametrize(
    ("sql", "wanted"), [(s, w) for names, _, s, w in SPLITS if "sqlite" in names]
)
def test_each_statement_for_sqlite_is_complete_by_its_own_rule(sql: str, wanted: list[str]) -> None:
    """SQLite's `sqlite3_complete` takes each for one statement, and no shorter text of it."""
    for statement in wanted:
        assert sqlite3.complete_statement(f"{statement};")
        cuts = [match.start() for match in re.finditer(";", statement)]
        assert not any(sqlite3.complete_statement(statement[: cut + 1]) for cut in cuts)


@pytest.mark.parametrize(
    ("dialect", "sql", "line", "word"),
    [(name, sql, line, word) for names, sql, line, word in REFUSALS for name in names],
)
def test_what_no_script_may_hold_is_refused_by_its_line(
    dialect: str, sql: str, line: int, word: str
) -> None:
    with pytest.raises(ScriptInvalid) as refused:
        parse(sql.encode(), DIALECTS[dialect], where="a.sql")

    assert str(refused.value).startswith(f"a.sql, line {line}: "), str(refused.value)
    assert word in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("dialect", EVERY)
@pytest.mark.parametrize("sql", ["", " \r\n\t", "-- nothing", "/* nothing; */ ;;", "\ufeff"])
def test_a_script_without_a_statement_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises(ScriptInvalid, match="holds no statement"):
        parse(sql.encode(), DIALECTS[dialect], where="a.sql")


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"SELECT 1;\nSELECT '\xe4'", "line 2: byte 0xe4 is not UTF-8"),
        ("SELECT 1".encode("utf-16"), "line 1: byte 0xff is not UTF-8"),
        (b"SELECT 1;\n\nSELECT '\0'", "line 3: a NUL"),
        (b"-" * (SCRIPT_BYTES_MAX + 1), "larger than 2 MiB"),
    ],
)
def test_bytes_that_are_no_script_are_refused(data: bytes, word: str) -> None:
    with pytest.raises(ScriptInvalid, match=re.escape(word)):
        parse(data, DIALECTS["sqlite"], where="a.sql")


# A parameter is a colon that a name follows at once, outside of everything that is quoted.
PARAMETERS: list[tuple[tuple[str, ...], str, list[str]]] = [
    (EVERY, "SELECT :a, :b_1, :a", ["a", "b_1", "a"]),
    (EVERY, "SELECT ':x', '12:30:x' -- :x\n /* :x */, :a", ["a"]),
    (EVERY, "SELECT :größe", ["größe"]),
    (("sqlite", "postgresql"), 'SELECT ":x", :a', ["a"]),
    (("postgresql",), "SELECT '1'::int, :a::date, (:b)::text", ["a", "b"]),
    (("postgresql",), "SELECT $$ :x $$, $t$ :x $t$, E'\\':x', :a", ["a"]),
    (("postgresql",), "SELECT j->'a', j->>:a, j @> '{\"x\": 1}', j ? 'b:x'", ["a"]),
    (("postgresql",), "SELECT a[1: n], a[:a :: int]", ["a"]),
    (("mariadb",), "SELECT @a := 1, \":x\", `:x`, 'it\\'s :x', :a # :x", ["a"]),
    (("sqlite",), "SELECT [a:x], `b:x`, j->>'$.a:x', :a", ["a"]),
]


@pytest.mark.parametrize(
    ("dialect", "sql", "wanted"),
    [(name, sql, wanted) for names, sql, wanted in PARAMETERS for name in names],
)
def test_parameters_are_found_beside_casts_strings_comments_and_operators(
    dialect: str, sql: str, wanted: list[str]
) -> None:
    (found,) = parse(sql.encode(), DIALECTS[dialect], where="a.sql").statements

    assert list(found.names) == wanted


def test_the_lines_of_statements_and_parameters_are_those_of_the_file() -> None:
    sql = b"\xef\xbb\xbf-- one\r\nSELECT\r\n :a;\r\n\r\n/* x\r\n */ UPDATE t\r\nSET b = :b"

    found = parse(sql, DIALECTS["sqlite"], where="a.sql")

    assert [(each.number, each.line, each.verb) for each in found.statements] == [
        (1, 2, "SELECT"),
        (2, 6, "UPDATE"),
    ]
    assert found.names == {"a": 3, "b": 7}


def test_a_comment_that_the_tokens_end_with_is_found_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether sqlglot raises for a comment that is not closed is its own affair."""
    tokenizer = script._tokenizer("sqlite")

    class Lenient:
        def tokenize(self, text: str) -> list[object]:
            return list(tokenizer.tokenize(text.partition("/*")[0]))

    monkeypatch.setattr(script, "_tokenizer", lambda _name: Lenient())

    with pytest.raises(ScriptInvalid, match="line 2: /\\* opens what is not closed"):
        parse(b"SELECT 1;\n/* SELECT 2;", DIALECTS["sqlite"], where="a.sql")
