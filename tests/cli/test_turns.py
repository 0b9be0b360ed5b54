"""Turns at a key: the lock file goes with its turn, and never lets two in at once."""

from __future__ import annotations

import fcntl
import threading
from typing import TYPE_CHECKING

import pytest

from duly._sync.turns import Turn, Turns
from duly.errors import AccessDenied

if TYPE_CHECKING:
    from pathlib import Path

THREADS, TURNS = 8, 40


def test_one_at_a_time_has_the_turn_although_each_removes_the_file(tmp_path: Path) -> None:
    """Who locked a file that another removed meanwhile asks again for the one that is there."""
    inside, most, guard = 0, 0, threading.Lock()

    def work() -> None:
        nonlocal inside, most
        ours = Turns(tmp_path / "bank.db-duly")
        done = 0
        while done < TURNS:
            turn = ours.take("credit:2026-09-13T00:00:00Z")
            if turn is None:
                continue
            with guard:
                inside += 1
                most = max(most, inside)
            done += 1
            with guard:
                inside -= 1
            turn.give_back()

    threads = [threading.Thread(target=work) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert most == 1
    assert list((tmp_path / "bank.db-duly").iterdir()) == []


def test_file_that_is_removed_between_opening_and_locking_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other's turn ends just there, and a third begins under a new file."""
    ours, others = Turns(tmp_path), Turns(tmp_path)
    first = others.take("key")
    assert first is not None
    third: list[Turn | None] = []
    flock = fcntl.flock

    def locking(descriptor: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        first.give_back()
        third.append(others.take("key"))
        flock(descriptor, how)

    monkeypatch.setattr(fcntl, "flock", locking)

    assert ours.take("key") is None, "two have the turn"
    assert third[0] is not None
    third[0].give_back()


def test_folder_that_cannot_be_written_is_an_operators_error(tmp_path: Path) -> None:
    """Without the file, two starts could run the command at once."""
    (tmp_path / "bank.db-duly").write_text("a file, where the folder should be")

    with pytest.raises(AccessDenied, match="two starts of key could run its command"):
        Turns(tmp_path / "bank.db-duly").take("key")
