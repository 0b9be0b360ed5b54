"""Alembic in the user's own project: duly's tables are not its to change.

Decides which reflected names `--autogenerate` looks at. The tables are made and upgraded by
`duly init`; a revision that dropped them would let every key run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

PREFIX = "duly_"


def include_name(
    name: str | None,
    type_: str,
    parent_names: Mapping[str, str | None],
) -> bool:
    """Whether `--autogenerate` looks at what it found in the database; not at duly's tables.

    Give it to both calls of `context.configure(…, include_name=include_name)` in `env.py`. With
    a rule of your own, ask both: `include_name(name, type_, parents) and mine(name)`.

    Args:
        name: Of the schema, table, column or constraint; None for the default schema.
        type_: What it is the name of: `schema`, `table`, `column`, `index`, …
        parent_names: The names of what it is in, as Alembic gives them.
    """
    table = name if type_ == "table" else parent_names.get("table_name")
    return table is None or not table.startswith(PREFIX)
