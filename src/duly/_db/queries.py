"""Loads the named queries of one database, with tables qualified and binds spelt its way.

Decides nothing at run time: a query's text is made once per (database, schema) and cached.
"""

from __future__ import annotations

import re
from functools import cache, partial
from importlib.resources import files
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from duly._db.dialects import Dialect

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)
_TABLE = re.compile(r"(?<!')\bduly_[a-z]\w*")
_BIND = re.compile(r"(?<![:\w]):([a-z_]\w*)")
_INCLUDED = re.compile(r"\{(\w+)\}")
_COMMENT = re.compile(r"^\s*--.*\n?", re.MULTILINE)


@cache
def queries(dialect: Dialect, schema: str | None) -> Mapping[str, str]:
    """Every named query of *dialect*, its tables qualified by *schema* where one is given.

    An own file's query overrides the common one of that name.
    """
    named: dict[str, str] = {}
    shared = ("common", "catch_up", "status", "outbox", "inbox")
    for stem in (*shared, dialect.name, f"inbox_{dialect.name}"):
        file = files("duly._db").joinpath("sql", f"{stem}.sql")
        if not file.is_file():
            continue
        parts = _NAME.split(file.read_text("utf-8"))
        named.update(zip(parts[1::2], parts[2::2], strict=True))
    return {
        name: _render(_INCLUDED.sub(partial(_included, named), body), dialect, schema)
        for name, body in named.items()
    }


def qualify(text: str, dialect: Dialect, schema: str | None) -> str:
    """Put *schema* before each table of duly's in *text*."""
    if schema is None:
        return text
    mark = dialect.quote
    prefix = mark + schema.replace(mark, mark * 2) + mark + "."
    return _TABLE.sub(lambda found: prefix + found.group(), text)


def _included(named: Mapping[str, str], found: re.Match[str]) -> str:
    name = found.group(1)
    return found.group() if name == "now" else named[name].strip()


def _render(body: str, dialect: Dialect, schema: str | None) -> str:
    text = _COMMENT.sub("", body).strip().replace("{now}", dialect.now_us)
    pyformat = dialect.paramstyle("x").startswith("%")
    escaped = text.replace("%", "%%") if pyformat else text
    bound = _BIND.sub(lambda found: dialect.paramstyle(found.group(1)), escaped)
    # A bind's mark in the schema's own name is doubled, as in the rest of the text.
    named = schema.replace("%", "%%") if schema and pyformat else schema
    return qualify(bound, dialect, named)
