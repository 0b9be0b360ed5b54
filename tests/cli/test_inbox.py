"""`duly inbox`: what was received, what is parked, and what a person decides."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import App, MessageParked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.servers.database import Database

NAMES = ("billing", "shop", "m-1")


@pytest.fixture
def office(database: Database) -> Iterator[Callable[..., Any]]:
    """Delivers a message; one was handled, and one with another body is parked."""
    app = duly.App(database.url)
    app.init()
    app.consumer("billing")(lambda message: message.payload)

    def deliver(payload: Any = 1) -> Any:
        return app.receive("billing", source="shop", message_id="m-1", payload=payload)

    deliver(1)
    with pytest.raises(duly.MessageParked):
        deliver(2)
    yield deliver
    app.close()


def test_inbox_is_told_in_rows_and_in_json(office: Any, database: Database, duly: Any) -> None:
    for action, word in {
        ("summary",): "billing",
        ("list", "billing"): "m-1",
        ("parked",): "conflict",
        ("parked", "billing"): "held",
        ("show", *NAMES): "conflict",
    }.items():
        done = duly("--database", database.url, "inbox", *action)
        assert (done.code, word in done.out) == (0, True), action
        told = duly("--json", "--database", database.url, "inbox", *action)
        assert isinstance(json.loads(told.out), dict)


@pytest.mark.parametrize("action", [("list", "billing"), ("parked",)])
def test_limit_of_the_inbox_says_that_it_left_others_out(
    office: Any, database: Database, duly: Any, action: tuple[str, ...]
) -> None:
    call = ("--database", database.url, "inbox", *action, "--limit", "1")
    assert duly(*call).err == ""
    if action == ("parked",):
        with pytest.raises(MessageParked):
            office(3)
    else:
        app = App(database.url)
        app.consumer("billing")(lambda message: message.payload)
        app.receive("billing", source="shop", message_id="m-2", payload=1)
        app.close()
    done = duly(*call)
    assert (done.code, len(done.out.splitlines()), done.err.count("\n")) == (0, 2, 1)
    assert "more than --limit 1" in done.err
    assert "more than --limit 1" in json.loads(duly("--json", *call).err)["note"]


def test_released_message_is_handled_and_discarded_one_is_not(
    office: Any, database: Database, duly: Any
) -> None:
    why = ("--reason", "two orders", "--actor", "ann")
    done = duly("--database", database.url, "inbox", "discard", *NAMES, *why)
    assert (done.code, "discarded" in done.out) == (0, True)
    assert office(2).is_discarded
    done = duly("--json", "--database", database.url, "inbox", "release", *NAMES, *why)
    assert json.loads(done.out)["state"] == "released"
    assert office(2).is_new
    done = duly("--database", database.url, "inbox", "release", *NAMES, *why)
    assert done.code == 3


def test_prune_of_the_inbox_says_what_it_did(office: Any, database: Database, duly: Any) -> None:
    done = duly("--database", database.url, "inbox", "prune", "--older-than", "400d")
    assert done.code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("list",),
        ("show", "billing"),
        ("show", "billing", "shop", "m-2"),
        ("show", "billing", "shap", "m-1"),
        ("summary", "x"),
        ("prune",),
        ("list", "billing", "--older-than", "4d"),
        ("release", *NAMES),
        ("release", "billing", "shop", "other", "--reason", "r"),
        ("list", "Not A Consumer!", "x"),
    ],
)
def test_wrong_call_is_one_line_and_exit_2(
    office: Any, database: Database, duly: Any, arguments: tuple[str, ...]
) -> None:
    done = duly("--database", database.url, "inbox", *arguments)
    assert (done.code, done.err.count("\n")) == (2, 1)
