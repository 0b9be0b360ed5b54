"""Messages of one ordering key: commit order on the wire, also where a head is dead."""

from __future__ import annotations

import threading
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from duly.channels import Answer
from tests.outbox.desk import QUICK, Desk, until

if TYPE_CHECKING:
    import duly


def test_order_under_parallel_producers_is_the_order_of_commits(desk: Desk) -> None:
    """Three producers, four senders: each key's messages arrive as they were committed."""
    got: dict[str, list[int]] = defaultdict(list)
    lock = threading.Lock()

    def receive(message: Any) -> None:
        key, seq = message.json
        with lock:
            got[key].append(seq)

    desk.receive(receive, concurrency=4, backoff=QUICK)
    table = f"counter_{desk.number}_{desk.to.split('-')[1]}"
    desk.run(f"CREATE TABLE {table} (id VARCHAR(10) PRIMARY KEY, n INTEGER NOT NULL)")
    for key in ("a", "b"):
        desk.run(f"INSERT INTO {table} (id, n) VALUES ('{key}', 0)")

    def sends(run: duly.Run) -> None:
        key = "a" if run.nominal_time.minute % 2 else "b"
        # The row's lock makes this counter the order of the commits.
        run.execute(f"UPDATE {table} SET n = n + 1 WHERE id = '{key}'")
        (n,) = run.execute(f"SELECT n FROM {table} WHERE id = '{key}'").one()
        run.send(desk.to, [key, n], name="one", ordering_key=key)

    desk.sends = sends
    times = [desk.at for _ in range(30)]
    with desk.relay():
        threads = [
            threading.Thread(target=lambda part=part: [desk.start(at) for at in part])
            for part in (times[::3], times[1::3], times[2::3])
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        until(lambda: sum(map(len, got.values())) == 30, "all sent")
    assert dict(got) == {key: sorted(got[key]) for key in got}


def test_calls_of_one_run_keep_their_order(desk: Desk) -> None:
    got: list[int] = []
    desk.receive(lambda message: got.append(message.json), concurrency=4)
    desk.sends = lambda run: [
        run.send(desk.to, n, name=str(n), ordering_key="k") for n in range(10)
    ]
    desk.start()
    desk.deliver()
    assert got == list(range(10))


@pytest.mark.parametrize("skips", [False, True])
def test_dead_head_blocks_its_key_unless_it_is_told_to_skip(desk: Desk, skips: bool) -> None:
    """Only its own key; the summary tells, and a person's word lets the rest go."""
    got: list[str] = []

    def receive(message: Any) -> Answer:
        if message.name == "head":
            return Answer.refused("http_400", final=True)
        got.append(message.name)
        return Answer.sent()

    desk.receive(receive, skip_blocked=skips)

    def sends(run: duly.Run) -> None:
        run.send(desk.to, 1, name="head", ordering_key="k")
        run.send(desk.to, 2, name="next", ordering_key="k")
        run.send(desk.to, 3, name="other", ordering_key="l")

    desk.sends = sends
    desk.start()
    desk.deliver()
    assert sorted(got) == (["next", "other"] if skips else ["other"])
    (mine,) = [each for each in desk.app.outbox.summary() if each.destination == desk.to]
    assert (mine.blocked, dict(mine.dead)) == (0 if skips else 1, {"http_400": 1})
    (head,) = [
        each.id for each in desk.app.outbox.messages(destination=desk.to) if each.name == "head"
    ]
    desk.app.outbox.abandon(head, reason="not needed", actor="ops")
    desk.deliver()
    assert sorted(got) == ["next", "other"]


def test_second_of_a_key_is_not_sent_while_the_first_is_under_way(desk: Desk) -> None:
    """Also by another relay."""
    go, got = threading.Event(), list[str]()

    def receive(message: Any) -> None:
        got.append(message.name)
        if message.name == "first":
            assert go.wait(20)

    desk.receive(receive)
    other = desk.other(receive)

    def sends(run: duly.Run) -> None:
        run.send(desk.to, 1, name="first", ordering_key="k")
        run.send(desk.to, 2, name="second", ordering_key="k")

    desk.sends = sends
    desk.start()
    thread = threading.Thread(target=desk.deliver)
    thread.start()
    until(lambda: got == ["first"], "started")
    assert other.deliver(once=True).sent == 0
    go.set()
    thread.join(20)
    other.deliver(once=True)
    assert got == ["first", "second"]
