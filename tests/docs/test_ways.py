"""The pages of the ways in do what they show."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
import sqlalchemy

import duly
from tests.docs import shell
from tests.docs.pages import DOCS, blocks, links

if TYPE_CHECKING:
    from pathlib import Path

    from tests.docs.pages import Block
    from tests.servers.database import Database

PAGES = ("async", "claim", "once", "orm")
# Their blocks need a server, and are run on one below.
ON_A_SERVER = {"psycopg": "postgresql", "PyMySQL": "mariadb"}


@pytest.mark.parametrize("name", PAGES)
def test_page_typed_from_top_to_bottom_prints_what_it_shows(name: str, tmp_path: Path) -> None:
    """Every block is run; each text block is what the one before it printed."""
    found = [b for b in blocks(DOCS / f"{name}.md") if b.section not in ON_A_SERVER]
    assert {block.language for block in found} == {"python", "sh", "text"}, "a block nobody runs"

    printed = shell.run(found, tmp_path)

    wrong = []
    for number, block in enumerate(found):
        if block.language == "text" and not shell.matches(block.text, printed[number - 1]):
            wrong.append(f"line {block.line}: expected\n{block.text}found\n{printed[number - 1]}")
    assert not wrong, "\n".join(wrong)


def test_drivers_of_servers_claim_as_the_page_shows(database: Database, tmp_path: Path) -> None:
    """The block of a driver applies once, and says `duplicate` when it is typed again."""
    ours: list[Block] = [
        block
        for block in blocks(DOCS / "claim.md")
        if ON_A_SERVER.get(block.section) == database.name
    ]
    if not ours:
        assert database.name == "sqlite"
        return
    (block,) = ours
    app = duly.App(database.url)
    app.init()
    with app.database.engine.begin() as connection:
        for statement in (
            "CREATE TABLE balance (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)",
            "INSERT INTO balance VALUES (1, 100)",
        ):
            connection.execute(sqlalchemy.text(statement))

    with mock.patch.dict(os.environ, _parameters(database.url)):
        printed = shell.run([block, block], tmp_path)

    with app.database.engine.begin() as connection:
        units = connection.execute(sqlalchemy.text("SELECT units FROM balance")).scalar_one()
    app.close()
    assert [text.strip() for text in printed] == ["applied", "duplicate"]
    assert units == 110


def _parameters(url: Any) -> dict[str, str]:
    parts = sqlalchemy.make_url(url)
    plain = {
        "host": parts.host, "port": parts.port, "user": parts.username,
        "password": parts.password or "", "database": parts.database,
    }  # fmt: skip
    dsn = parts.set(drivername="postgresql").render_as_string(hide_password=False)
    return {"PG_DSN": dsn, "MARIADB": json.dumps(plain)}


def test_index_of_the_ways_names_every_page_of_one() -> None:
    """A way in that the index does not name is not found."""
    ours = {f"{name}.md" for name in ("claim", "once", "orm", "async", "django", "sql", "exec")}
    there = {page.name for page in DOCS.glob("*.md")} & ours
    assert there <= set(links(DOCS / "ways.md"))
