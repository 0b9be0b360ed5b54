"""From the text of a SQL script to its statements, each with its line and its parameters.

Decides where a statement ends (by sqlglot's tokens of that database, and by the database's own
client where a body has semicolons), which words are parameters, and what no script may hold. It
must never put a value into a text, and never pass on a text whose end it did not understand.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from duly._db.ending import ending
from duly.errors import ScriptInvalid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from duly._db.dialects import Dialect

SCRIPT_BYTES_MAX = 2 << 20
"""A megabyte of statements takes about a hundred of memory to read: data belongs in a table."""

_NAME = re.compile(r"[^\W\d]\w*")
_PLACE = re.compile(r":(\d+)$")


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script.

    Attributes:
        number: From 1.
        line: Where it begins, from 1.
        verb: Its first word, in capitals.
        texts: The text between its parameters; one more than there are names.
        names: Its parameters, in their order; a name may come twice.
        lines: The line of each parameter.
    """

    number: int
    line: int
    verb: str
    texts: tuple[str, ...]
    names: tuple[str, ...]
    lines: tuple[int, ...]

    def spelled(self, dialect: Dialect) -> str:
        """The text for the driver's `execute`, which must be given parameters, even if none."""
        doubled = "%" in dialect.paramstyle("x")
        texts = [text.replace("%", "%%") if doubled else text for text in self.texts]
        binds = [dialect.paramstyle(name) for name in self.names]
        return texts[0] + "".join(
            f"{bind}{text}" for bind, text in zip(binds, texts[1:], strict=True)
        )


@dataclass(frozen=True, slots=True)
class Script:
    """A script that may be run.

    Attributes:
        where: Its name, for messages.
        digest: The SHA-256 of its text, hexadecimal.
        statements: At least one.
    """

    where: str
    digest: str
    statements: tuple[Statement, ...]

    @property
    def backslash_at(self) -> int | None:
        """The line of the first statement with a backslash; None if there is none."""
        return next((s.line for s in self.statements if any("\\" in t for t in s.texts)), None)

    @property
    def names(self) -> dict[str, int]:
        """The parameters, each with the line where it comes first."""
        found: dict[str, int] = {}
        for statement in self.statements:
            for name, line in zip(statement.names, statement.lines, strict=True):
                found.setdefault(name, line)
        return found


def parse(data: bytes, dialect: Dialect, *, where: str) -> Script:
    """The statements of a script, in their order.

    Args:
        data: UTF-8; a byte order mark is dropped.
        where: The script's name, for messages.

    Raises:
        ScriptInvalid: It is too large, no text, empty, not complete, or holds what would end the
            transaction or is for a client program; the message names the line.
    """
    text = _decoded(data, where)
    statements = tuple(_statements(text, dialect, where))
    if not statements:
        raise ScriptInvalid(f"{where} holds no statement, only blanks or comments: nothing was run")
    return Script(where, sha256(data).hexdigest(), statements)


def count(text: str, dialect: Dialect) -> int:
    """How many statements a text has.

    Raises:
        ScriptInvalid: It opens what it does not close.
    """
    return sum(1 for _ in _split(_tokens(text, dialect, "it"), _RULES[dialect.name]))


def check_backslashes(script: Script, dialect: Dialect, ask: Callable[[str], Any]) -> None:
    """Refuse a script whose quotes may end elsewhere for this session than they were read to.

    Args:
        ask: Runs a query in the session, and returns its one value.

    Raises:
        ScriptInvalid: It has a backslash, and the session's settings make another sign of it.
    """
    rules, line = _RULES[dialect.name], script.backslash_at
    if line is None or rules.reads_backslashes is None or ask(rules.reads_backslashes):
        return
    raise ScriptInvalid(
        f"{script.where}, line {line}: a backslash, which this session's settings read in another"
        f" way than the script was split by: {rules.remedy}",
        line=line,
    )


def _decoded(data: bytes, where: str) -> str:
    if len(data) > SCRIPT_BYTES_MAX:
        raise ScriptInvalid(
            f"{where} is larger than {SCRIPT_BYTES_MAX >> 20} MiB: keep data in a table or in a"
            " file that the database loads, and let the script read it from there"
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScriptInvalid(
            f"{where}, line {line}: byte 0x{data[error.start]:02x} is not UTF-8: save the script as"
            " UTF-8",
            line=line,
        ) from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ScriptInvalid(
            f"{where}, line {line}: a NUL character, which no statement may hold: save the script"
            " as UTF-8 text",
            line=line,
        )
    return text


def _statements(text: str, dialect: Dialect, where: str) -> Iterator[Statement]:
    lines = _Lines(text)
    found = _tokens(text, dialect, where)
    for token in found if dialect.name == "mariadb" else ():
        if any(comment.startswith(("!", "M!")) for comment in token.comments):
            raise ScriptInvalid(
                f"{where}, line {lines.at(token.start)}: a comment that MariaDB executes (/*! or"
                " /*M!) hides what it does: write the statement itself"
            )
    lines = _Lines(text)
    for number, tokens in enumerate(_split(found, _RULES[dialect.name]), 1):
        _refuse(tokens, text, dialect, f"{where}, line {lines.at(tokens[0].start)}")
        yield _statement(number, tokens, text, lines)


def _statement(number: int, tokens: Sequence[Any], text: str, lines: _Lines) -> Statement:
    """The statement of *tokens*, cut at each colon that a name follows at once."""
    texts, names, places = [], [], []
    begin = tokens[0].start
    for token, following in pairwise(tokens):
        touches = following.start == token.end + 1
        if token.text == ":" and _is(token, "COLON") and touches and _is_name(following):
            texts.append(text[begin : token.start])
            names.append(following.text)
            places.append(lines.at(token.start))
            begin = following.end + 1
    texts.append(text[begin : tokens[-1].end + 1])
    line, verb = lines.at(tokens[0].start), tokens[0].text.upper()
    return Statement(number, line, verb, tuple(texts), tuple(names), tuple(places))


class _Lines:
    """The line of a place in a text, asked from its beginning to its end."""

    def __init__(self, text: str) -> None:
        self._text, self._place, self._line = text, 0, 1

    def at(self, place: int) -> int:
        if place < self._place:
            return self._line - self._text.count("\n", place, self._place)
        self._line += self._text.count("\n", self._place, place)
        self._place = place
        return self._line


# Where a statement ends


@dataclass(frozen=True, slots=True)
class _Rules:
    """What differs between databases for the reader of a script.

    Attributes:
        module, name: sqlglot's dialect.
        reads_backslashes: Asks a session whether it reads them as that dialect does; None if
            every session does.
        remedy: What to do where it does not.
        bodies: What a CREATE makes that has statements of its own between BEGIN and END.
        refused: What its first words may not be, and why.
    """

    module: str
    name: str
    bodies: frozenset[str]
    refused: tuple[tuple[str, str], ...]
    reads_backslashes: str | None = None
    remedy: str = ""


_CLIENT = "is a command of a client program, not of the database: leave it out"
_STREAM = (
    "FROM STDIN or TO STDOUT needs a client program: write INSERT, or COPY from a server's file"
)
_SINGLE = "acts on more than this transaction: run it by hand, outside of the script"

_RULES = {
    "sqlite": _Rules(
        "sqlglot.dialects.sqlite",
        "SQLite",
        frozenset({"TRIGGER"}),
        ((r"PRAGMA|ATTACH|DETACH|VACUUM", _SINGLE), (r"\.\s*\w+", _CLIENT)),
    ),
    "postgresql": _Rules(
        "sqlglot.dialects.postgres",
        "Postgres",
        frozenset({"FUNCTION", "PROCEDURE"}),
        (
            (
                r"COPY\b.*\b(?:FROM\s+STDIN|TO\s+STDOUT)\b",
                _STREAM,
            ),
            (r"VACUUM|(?:CREATE|DROP)\s+(?:DATABASE|TABLESPACE)|ALTER\s+SYSTEM", _SINGLE),
        ),
        "SELECT current_setting('standard_conforming_strings') = 'on'",
        "set standard_conforming_strings to on, or write chr(92) for it",
    ),
    "mariadb": _Rules(
        "sqlglot.dialects.mysql",
        "MySQL",
        frozenset(),
        (
            (r"DELIMITER|SOURCE", _CLIENT),
            (
                r"BEGIN\s+NOT\s+ATOMIC|DECLARE|IF|CASE|LOOP|WHILE|REPEAT|FOR",
                "begins a block of a stored program: put it into a procedure, and CALL that",
            ),
        ),
        "SELECT FIND_IN_SET('NO_BACKSLASH_ESCAPES', @@sql_mode)"
        " + FIND_IN_SET('ANSI_QUOTES', @@sql_mode) = 0",
        "take NO_BACKSLASH_ESCAPES and ANSI_QUOTES out of sql_mode, or write CHAR(92) for it",
    ),
}


def _split(tokens: Sequence[Any], rules: _Rules) -> Iterator[list[Any]]:
    """The tokens of each statement.

    By psql's rule: a semicolon in parentheses, or between BEGIN and END of a body, ends none.
    """
    found: list[Any] = []
    parentheses = blocks = 0
    for token in tokens:
        if _is(token, "SEMICOLON") and parentheses <= 0 and not blocks:
            if found:
                yield found
            found, parentheses = [], 0
            continue
        found.append(token)
        if _is(token, "L_PAREN"):
            parentheses += 1
        elif _is(token, "R_PAREN"):
            parentheses -= 1
        elif rules.bodies and _is(token, "VAR"):
            word = token.text.upper()
            if word == "BEGIN" and _has_body(found, rules.bodies):
                blocks += 1
            elif blocks:
                blocks += (word == "CASE") - (word == "END")
    if found:
        yield found


def _has_body(tokens: Sequence[Any], bodies: frozenset[str]) -> bool:
    """Whether these first tokens are CREATE [OR REPLACE] [TEMPORARY] and one of *bodies*."""
    first = [token.text.upper() for token in tokens[:4]]
    return first[0] == "CREATE" and not bodies.isdisjoint(first)


def _tokens(text: str, dialect: Dialect, where: str) -> list[Any]:
    """The tokens, all of them: what is not closed would swallow the rest of the script."""
    from sqlglot.errors import TokenError

    try:
        # The last token must be ours: a comment that is not closed may end with the text.
        found: list[Any] = _tokenizer(dialect.name).tokenize(f"{text}\n;")
    except TokenError as error:
        raise _unclosed(text, dialect, where, error) from error
    if not found or found[-1].start != len(text) + 1:
        raise _unclosed(text, dialect, where, None)
    return found


def _unclosed(
    text: str, dialect: Dialect, where: str, error: BaseException | None
) -> ScriptInvalid:
    """The error for a quote that is not closed, or for what stands before it and is refused."""
    place = _PLACE.search(str(error.__cause__)) if error is not None else None
    start = int(place[1]) if place else text.rfind("/*")
    line = text.count("\n", 0, max(start, 0)) + 1
    if 0 <= start < len(text):
        try:
            # What follows a COPY or a DELIMITER is no SQL: name that, not its quotes.
            list(_statements(text[:start], dialect, where))
        except ScriptInvalid as earlier:
            return earlier
    return ScriptInvalid(
        f"{where}, line {line}: {text[start : start + 2].strip()} opens what is not closed, or"
        " cannot be read: close it",
        line=line,
    )


@cache
def _tokenizer(name: str) -> Any:
    """The tokenizer of sqlglot for a database, with its lexical rules and none of its grammar.

    Words stay words, so that no list of sqlglot's own takes a statement for one opaque command.
    """
    from sqlglot.tokenizer_core import TokenType

    rules = _RULES[name]
    dialect = getattr(import_module(rules.module), rules.name)
    operators = {"::": TokenType.DCOLON, ":=": TokenType.COLON_EQ}
    return type("Words", (dialect.Tokenizer,), {"KEYWORDS": operators})(dialect=dialect)


# What no script may hold


def _refuse(tokens: Sequence[Any], text: str, dialect: Dialect, place: str) -> None:
    """Raise for a statement that would end the transaction, or that no database understands."""
    if any(_is(token, "BACKSLASH") for token in tokens):
        command = next(token for token in tokens if _is(token, "BACKSLASH"))
        rest = text[command.start : tokens[-1].end + 1].split(None, 1)[0][:20]
        raise ScriptInvalid(f"{place}: {rest} {_CLIENT}")
    head = _head(tokens, text)
    if ends := ending(dialect, head):
        implicitly = ", MariaDB commits implicitly" if dialect.name == "mariadb" else ""
        raise ScriptInvalid(
            f"{place}: {ends} the one transaction"
            f" before the completion is recorded{implicitly}: leave it out, duly commits at the end"
        )
    for pattern, reason in _RULES[dialect.name].refused:
        if match := re.match(rf"(?:{pattern})(?!\w)", head, re.IGNORECASE | re.DOTALL):
            word = match.group(0).split()[0].upper()
            raise ScriptInvalid(f"{place}: {word} {reason}")


def _head(tokens: Sequence[Any], text: str) -> str:
    """The first words as they stand, a blank in the place of each comment or gap."""
    said = ""
    # An assignment may stand anywhere in a list of them; no other statement is judged by its end.
    first = tokens if tokens[0].text.upper() == "SET" else tokens[:64]
    for token, before in zip(first, [None, *tokens], strict=False):
        apart = before is not None and token.start != before.end + 1
        said += (" " if apart else "") + text[token.start : token.end + 1]
    return said


def _is(token: Any, kind: str) -> bool:
    return bool(token.token_type.name == kind)


def _is_name(token: Any) -> bool:
    return _is(token, "VAR") and _NAME.fullmatch(token.text) is not None
