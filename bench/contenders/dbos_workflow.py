"""DBOS: a workflow whose id is the key, with the change in a transaction of its datasource."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbos import DBOS, SetWorkflowID, SQLAlchemyDatasource
from sqlalchemy import text

if TYPE_CHECKING:
    from place import Place

NAME = "DBOS"
HAS_KEY = True
_applied: set[str] = set()


def prepare(place: Place) -> None:
    connect(place)
    DBOS.destroy()


def connect(place: Place) -> Any:
    DBOS(
        config={
            "name": "bench",
            "system_database_url": place.url,
            "application_version": "1",  # what a killed process left is recovered by the next one
            "log_level": "CRITICAL",
        }
    )
    source = SQLAlchemyDatasource.create(place.url)

    @source.transaction
    def change(name: str, number: int) -> None:
        update = text("UPDATE account SET units = units + 10 WHERE id = :id")
        source.sql_session().execute(update, {"id": number % 1000})
        _applied.add(name)

    @DBOS.workflow()
    def credit(name: str, number: int) -> None:
        change(name, number)

    DBOS.launch()
    return credit


def once(worker: Any, name: str, number: int) -> bool:
    _applied.clear()
    with SetWorkflowID(name):
        worker(name, number)
    return name in _applied


def close(worker: Any) -> None:  # noqa: ARG001 - there is one for each process
    DBOS.destroy()
