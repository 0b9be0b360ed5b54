"""Whether a statement would end the transaction, by its text alone.

Decides by a dialect's patterns (`dialects.py`), and reads MariaDB's comments, strings and names
as its server does. It must never refuse a statement for a word that is data: a string, a name, a
comment. What it does not see (a procedure's COMMIT, a block) is found by the seal.
"""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duly._db.dialects import Dialect

_WORDS_OF_A_VERB = 6
"""CREATE OR REPLACE TEMPORARY TABLE has five; only a SET is judged by more."""

_LEXEMES = re.compile(
    r"""
    (?P<gap> \s+ | \#[^\n]* | --(?=\s|\Z)[^\n]*
        | /\*M?!(?:\d{5,6})? | \*/      # a comment that MariaDB executes is what it holds
        | /\*.*?\*/ )
    | `(?P<name>\w+)` | "(?P<quoted_name>\w+)"
    | (?P<data> '(?:[^'\\]++|\\.|'')*+' | "(?:[^"\\]++|\\.|"")*+" | `(?:[^`]++|``)*+` )
    | \w+ | .
    """,
    re.DOTALL | re.VERBOSE,
)


def ending(dialect: Dialect, statement: str) -> str | None:
    """What *statement* would do to the transaction, as "COMMIT would end"; None if nothing."""
    found = _pattern(dialect).match(dialect.plainly(statement))
    if found is None:
        return None
    verb = " ".join(" ".join(filter(None, found.groups())).upper().split())
    if found.groupdict().get("unread"):
        return f"{verb} is for a text that only the server reads, which may end"
    return f"{verb} would end"


@cache
def _pattern(dialect: Dialect) -> re.Pattern[str]:
    return re.compile(rf"{dialect.lead}(?:{dialect.ends_transaction})\b", re.IGNORECASE | re.DOTALL)


def mariadb_words(statement: str) -> str:
    """The words that begin *statement*, a blank between them; of a SET, all but parentheses.

    Strings are left empty. A name is bare, as is a word in double quotes: it is one in ANSI_QUOTES.
    """
    words: list[str] = []
    depth = 0
    for found in _LEXEMES.finditer(statement):
        if found.lastgroup == "gap" or (found[0] == ";" and not words):
            continue
        depth -= found[0] == ")"
        if depth <= 0:
            data = found.lastgroup == "data"
            words.append("''" if data else found["name"] or found["quoted_name"] or found[0])
        depth += found[0] == "("
        if len(words) == _WORDS_OF_A_VERB and words[0].upper() != "SET":
            break
    return " ".join(words)
