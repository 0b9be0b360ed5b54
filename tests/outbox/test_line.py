"""Relays that listen: commits of other processes wake them, and no lost notice loses a message.

A `deaf` relay looks at the outbox once, and then hourly: what it delivers, it has heard of.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

import duly
import duly.aio
from duly.channels import Http
from tests.outbox.desk import Desk, until
from tests.servers.database import Database
from tests.servers.processes import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.outbox.peer import Peer
    from tests.servers.database import DatabaseName
    from tests.servers.postgresql import PostgresServer

LISTENS = "datname = current_database() AND query IN ('LISTEN duly_outbox', 'SELECT 1')"
TELLS = "datname = current_database() AND query = 'NOTIFY duly_outbox'"
MODES = ("sync", "aio", "django")


@pytest.fixture
def teller(shared: Callable[[DatabaseName], Database]) -> Iterator[Desk]:
    """A desk whose commits are told."""
    made = Desk(shared("postgresql"), listen=True)
    yield made
    made.close()


def process(desk: Desk, peer: Peer, act: str, **order: Any) -> subprocess.Popen[bytes]:
    said = {"act": act, "url": desk.database.url, "to": desk.to, "job": desk.job, "peer": peer.url}
    return subprocess.Popen(
        [sys.executable, "-m", "tests.outbox.listening", json.dumps({**said, **order})], cwd=ROOT
    )


@contextmanager
def relay(desk: Desk, peer: Peer, mode: str = "sync", *, deaf: bool = True) -> Iterator[None]:
    """A relay in another process, which listens."""
    child = process(desk, peer, "relay", mode=mode, deaf=deaf)
    try:
        listens = f"SELECT 1 FROM pg_stat_activity WHERE {LISTENS}"
        until(lambda: desk.run(listens), "listened", seconds=60)
        yield
    finally:
        child.kill()
        child.wait()


def send_some(desk: Desk, peer: Peer, count: int = 4) -> None:
    """One after the other: what it does when it begins to listen can find one of them only."""
    for _ in range(count):
        before = len(peer.seen)
        desk.start()
        until_seen(peer, before + 1)


def until_seen(peer: Peer, count: int) -> None:
    until(lambda: len(peer.seen) == count, f"sent {count}")


@pytest.mark.parametrize("mode", MODES)
def test_relay_of_another_process_hears_of_each_commit(teller: Desk, peer: Peer, mode: str) -> None:
    teller.receive(Http(peer.url))
    with relay(teller, peer, mode):
        send_some(teller, peer)
        until(lambda: teller.rows() == ["sent"] * 4, "finished")


@pytest.mark.parametrize("mode", MODES)
def test_process_that_ends_at_once_has_told(teller: Desk, peer: Peer, mode: str) -> None:
    """Nothing waits for the telling but the end of the process."""
    with relay(teller, peer):
        for number in range(3):
            child = process(teller, peer, "send", mode=mode, at=teller.at.isoformat())
            assert child.wait(90) == 0
            until_seen(peer, number + 1)


def test_what_a_person_sends_again_is_told(teller: Desk, peer: Peer) -> None:
    teller.receive(Http(peer.url))
    with relay(teller, peer):
        send_some(teller, peer, 2)
        until(lambda: teller.rows() == ["sent"] * 2, "finished")
        for each in teller.ids:
            teller.app.outbox.resend(each, reason="lost in the post", actor="ann")
        until_seen(peer, 4)


def test_message_of_whom_nobody_told_is_found_by_looking(
    shared: Callable[[DatabaseName], Database], peer: Peer
) -> None:
    """A sender that tells nobody, or dies before it could."""
    with closing(Desk(shared("postgresql"))) as silent:
        silent.receive(Http(peer.url))
        with relay(silent, peer, deaf=False):
            send_some(silent, peer, 2)


@pytest.mark.parametrize("end", [LISTENS, TELLS], ids=["listener", "teller"])
def test_line_that_was_cut_is_made_anew_and_loses_no_message(
    teller: Desk, peer: Peer, end: str
) -> None:
    """What was committed while nobody listened is found when the relay listens again."""
    teller.receive(Http(peer.url))
    with relay(teller, peer):
        send_some(teller, peer, 2)
        for _ in range(3):
            cut(teller, end)
            send_some(teller, peer, 2)


def cut(desk: Desk, end: str) -> None:
    """Take the connections away that are one end of a line."""
    found = desk.run(f"SELECT pid FROM pg_stat_activity WHERE {end}")
    pids = ", ".join(str(pid) for (pid,) in found)
    desk.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid IN ({pids})")
    left = f"SELECT 1 FROM pg_stat_activity WHERE pid IN ({pids})"
    until(lambda: not desk.run(left), "cut")


def test_server_that_is_restarted_is_told_and_heard_again(
    postgres_private: PostgresServer, peer: Peer
) -> None:
    url = postgres_private.create_database()
    with closing(Desk(Database("postgresql", url, postgres_private), listen=True)) as desk:
        desk.receive(Http(peer.url))
        with relay(desk, peer):
            send_some(desk, peer, 2)
            postgres_private.restart()
            send_some(desk, peer, 3)


def test_notice_comes_from_no_transaction_of_an_attempt(teller: Desk) -> None:
    """There a NOTIFY would hold a lock of the whole server at the commit; a rollback is mute."""
    attempts = []
    teller.receive(lambda message: None)

    def send(run: duly.Run) -> None:
        attempts.append(run.execute("SELECT pg_backend_pid()").scalar_one())
        run.send(teller.to, {"n": 1})
        if len(attempts) == 1:
            raise RuntimeError("rolled back")

    teller.sends = send
    url = teller.database.url.replace("+psycopg", "")
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("LISTEN duly_outbox")
        with pytest.raises(RuntimeError, match="rolled back"):
            teller.start()
        teller.app.close()  # tells what is to be told
        connection.execute("SELECT 1")
        assert list(connection.notifies(timeout=0)) == []
        teller.start()
        teller.app.close()
        (notice,) = connection.notifies(timeout=20, stop_after=1)
    assert notice.pid not in attempts


@pytest.mark.parametrize("kind", [duly.App, duly.aio.App])
@pytest.mark.parametrize("name", ["sqlite", "mariadb"])
def test_listening_elsewhere_is_refused(kind: Any, name: str) -> None:
    """In one line, with what to do instead."""
    url = {"sqlite": "sqlite:///bank.db", "mariadb": "mariadb://ann@db.example/bank"}[name]
    with pytest.raises(duly.UsageError) as refused:
        kind(url, listen=True)
    assert "\n" not in refused.value.message
    assert "listen=True is for PostgreSQL" in refused.value.message
    assert "leave it out" in refused.value.message
