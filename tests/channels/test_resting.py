"""Connections at rest are used by one thread at a time, by one process, and not for long."""

from __future__ import annotations

import os

from duly.channels.resting import Resting


def test_newest_comes_first_and_each_is_lent_once() -> None:
    """So few stay warm, and no two threads talk on one."""
    resting: Resting[str] = Resting(lambda _: None)
    resting.give("old")
    resting.give("new")

    assert [resting.take(), resting.take(), resting.take()] == ["new", "old", None]


def test_one_that_rested_too_long_is_closed() -> None:
    """The server has hung up by then, or will over the next word."""
    closed: list[str] = []
    resting: Resting[str] = Resting(closed.append, seconds_max=-1)
    resting.give("stale")

    assert resting.take() is None
    assert closed == ["stale"]


def test_close_closes_all_also_one_that_fails_to() -> None:
    """A connection that cannot even be closed keeps none of the others open."""
    closed: list[str] = []

    def close(connection: str) -> None:
        closed.append(connection)
        raise OSError(connection)

    resting = Resting(close)
    resting.give("a")
    resting.give("b")

    resting.close()

    assert sorted(closed) == ["a", "b"]
    assert resting.take() is None


def test_child_never_uses_its_parents_connection() -> None:
    """A word of the child's would be one in the parent's talk."""
    resting: Resting[str] = Resting(lambda _: None)
    resting.give("the parent's")

    pid = os.fork()
    if pid == 0:
        os._exit(0 if resting.take() is None else 1)

    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert resting.take() == "the parent's"
