"""A relay that dies, loses its connection or its lease at every boundary of sending."""

from __future__ import annotations

import signal
import threading
import time
from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.channels import Answer, Http
from tests.outbox.desk import QUICK, Desk, until
from tests.outbox.dying import CONTRACTS
from tests.outbox.peer import Does

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.faults.victims import Victims
    from tests.outbox.peer import Memory, Peer

TAKING = [("Begin", 1), ("ReadClock", 1), ("TakeDue", 1), ("WriteAhead", 1), ("Commit", 1)]
FINISHING = [("Begin", 2), ("ReadClock", 2), ("Finish", 1), ("Commit", 2)]
POINTS = [(op, nth, when) for op, nth in TAKING + FINISHING for when in ("before", "after")]


def surely_unsent(op: str, nth: int, when: str) -> bool:
    """Whether the write-ahead had not been committed."""
    return (op, nth) in TAKING and (op, when) != ("Commit", "after")


@pytest.mark.parametrize("memory", ["honours", "forgets", "ignores"])
@pytest.mark.parametrize(("op", "nth", "when"), POINTS, ids=str)
def test_relay_killed_at_an_op_makes_no_second_effect_and_loses_nothing(
    desk: Desk, peer: Peer, victims: Victims, memory: Memory, op: str, nth: int, when: str
) -> None:
    """Killed at every boundary, with a receiver that honours, forgets or ignores ids."""
    peer.memory = memory
    desk.receive(Http(peer.url), contract=CONTRACTS[memory])
    desk.start()
    order: dict[str, Any] = {"op": op, "nth": nth, "when": when, "to": desk.to, "memory": memory}
    died = victims.kill_one(
        "tests.outbox.dying:relay", url=desk.database.url, peer=peer.url, **order
    )
    assert died == -signal.SIGKILL
    # The lease is over; a receiver that forgets has forgotten.
    desk.pass_time(timedelta(days=2) if memory == "forgets" else timedelta(minutes=5))
    desk.deliver()
    state, applied = desk.one("state"), sum(peer.applied.values())
    assert applied <= 1
    assert len(set(peer.keys)) <= 1
    if memory == "honours" or surely_unsent(op, nth, when) or (op, nth, when) == POINTS[-1]:
        assert (state, applied) == ("sent", 1)
    else:
        assert state == "uncertain"
        assert len(peer.seen) <= 1


@pytest.mark.parametrize("op", ["Commit", "Finish", "WriteAhead", "TakeDue"])
@pytest.mark.parametrize("nth", [1, 2])
@pytest.mark.parametrize("when", ["before", "after"])
def test_connection_cut_at_an_op_is_settled_by_asking_the_rows(
    desk: Desk, peer: Peer, op: str, nth: int, when: str
) -> None:
    """COMMIT applied and its answer lost: neither a second send nor a doubt that is none."""
    desk.receive(Http(peer.url), backoff=QUICK)
    desk.start()
    seen = Counter[tuple[str, str]]()

    def cut(now: str, found: Any, shell: Any) -> None:
        name = type(found).__name__
        seen[name, now] += 1
        if (name, now, seen[name, now]) == (op, when, nth):
            shell.session.kill()
            raise ConnectionError("cut")

    desk.app._probe = cut
    for _ in range(2):
        try:
            desk.deliver()
        except (ConnectionError, duly.DulyError):
            continue
    desk.app._probe = None
    desk.deliver()
    state = desk.one("state")
    assert len(peer.seen) <= 1
    # A finish that was lost with its process here stays with its lease; nothing is sent again.
    assert (state, len(peer.seen)) in {("sent", 1), ("sending", 1)}
    desk.pass_time(timedelta(minutes=5))
    desk.deliver()
    assert desk.one("state") in {"sent", "uncertain"}
    assert len(peer.seen) == 1


def test_m04_peer_accepted_and_the_finish_failed_is_a_doubt_with_its_evidence(
    desk: Desk, peer: Peer
) -> None:
    """M04: what was accepted is not sent again because writing it down failed."""
    desk.receive(Http(peer.url))
    desk.start()

    def fails(when: str, op: Any, _shell: Any) -> None:
        if (when, type(op).__name__) == ("before", "Finish"):
            raise RuntimeError("the archive failed")

    desk.app._probe = fails
    with pytest.raises(RuntimeError):
        desk.deliver()
    desk.app._probe = None
    assert desk.one("state") == "sending"
    desk.pass_time(timedelta(minutes=5))
    assert desk.deliver().sent == 0
    assert desk.one("state, answer") == ("uncertain", "lease_over")
    (send,) = desk.sends_of(desk.ids[0])
    assert (send.verdict, send.finished_at) == (None, None)
    assert len(peer.seen) == 1


def slow_then(go: threading.Event, calls: list[int]) -> Callable[[Any], Answer]:
    def send(message: Any) -> Answer:
        calls.append(message.number)
        if message.number == 1:
            assert go.wait(20)
        return Answer.sent(evidence=f"send {message.number}")

    return send


def test_two_relays_and_a_lease_shorter_than_the_send_keep_the_late_one_as_evidence(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    """One of them has the say; what the other says is kept, and overwrites nothing."""
    go, calls = threading.Event(), list[int]()
    settings: dict[str, Any] = {
        "contract": duly.Contract(ambiguous="retry"),
        "timeout": 1,
        "lease": 1.1,
        "backoff": QUICK,
    }
    desk.receive(slow_then(go, calls), **settings)
    other = desk.other(slow_then(go, calls), **settings)
    desk.start()
    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(desk.deliver()))
    thread.start()
    until(lambda: calls == [1], "started")
    until(lambda: other.deliver(once=True).sent or desk.rows() == ["sent"], "taken over")
    go.set()
    thread.join(20)
    assert calls == [1, 2]
    assert first[0].late == 1
    [told] = [each for each in caplog.records if each.getMessage() == "late_answer"]
    assert f"`duly outbox show {desk.ids[0]}`" in told.__dict__["error"]
    assert desk.one("state, started, finished") == ("sent", 2, 1)
    late, mine = desk.sends_of(desk.ids[0])
    assert (late.late, late.verdict, late.evidence) == (True, "sent", "send 1")
    assert (mine.late, mine.verdict) == (False, "sent")


def test_time_of_a_send_counts_from_its_write_ahead(desk: Desk) -> None:
    """So does its lease: a relay that stood still between the two must not begin to send."""
    seen: list[tuple[float, float]] = []
    stood_at = list[float]()

    def stand_still(when: str, op: Any, _: Any) -> None:
        if when == "after" and type(op).__name__ == "WriteAhead" and not stood_at:
            stood_at.append(time.monotonic())
            until(lambda: time.monotonic() > stood_at[0] + 1, "later")

    def receive(message: Any) -> Answer:
        seen.append((time.monotonic(), message.ends_s))
        return Answer.sent()

    desk.receive(receive, timeout=1, backoff=QUICK)
    desk.start()
    desk.app._attempts.probe = stand_still
    # Not `once`, which may have ended before the pause of a millisecond has.
    with desk.relay():
        until(lambda: desk.rows() == ["sent"], "sent")
    assert [now < ends for now, ends in seen] == [True]
    first, *_, last = desk.sends_of(desk.ids[0])
    assert (first.verdict, first.answer, last.verdict) == ("not_sent", "too_late", "sent")


@pytest.mark.parametrize("held", [False, True], ids=["sending", "uncertain"])
def test_finish_after_the_lease_counts_where_nobody_took_the_message_over(
    desk: Desk, held: bool
) -> None:
    """A handler that held a SQLite file for long must not turn a send into a doubt."""
    go, calls = threading.Event(), list[int]()
    desk.receive(slow_then(go, calls), timeout=1, lease=1.1)
    desk.start()
    done: list[Any] = []
    thread = threading.Thread(target=lambda: done.append(desk.deliver()))
    thread.start()
    until(lambda: calls == [1], "started")
    desk.pass_time(timedelta(minutes=5))
    if held:
        # Another relay found the lease over, and held the message for a person.
        desk.other(lambda message: Answer.sent()).deliver(once=True)
        assert desk.one("state") == "uncertain"
    go.set()
    thread.join(20)
    assert (done[0].sent, done[0].late, calls) == (1, 0, [1])
    assert desk.one("state, finished") == ("sent", 1)


def test_message_that_kills_its_relay_three_times_is_poison(desk: Desk) -> None:
    """It is not tried for ever, and its dead letter can be sent again by a person."""
    desk.receive(lambda message: None, contract=duly.Contract(ambiguous="retry"))
    desk.start()
    for _ in range(3):
        desk.run(
            "UPDATE duly_outbox SET state = 'sending', started = started + 1, tried_us = 1,"
            f" due_us = 1 WHERE destination = '{desk.to}'"
        )
    desk.deliver()
    assert desk.one("state, answer") == ("dead", "poison")
    desk.app.outbox.redrive(*desk.ids, reason="mended", actor="ops")
    assert desk.deliver().sent == 1


def test_m02_key_life_of_ten_minutes_against_an_outage_of_thirty(desk: Desk, peer: Peer) -> None:
    """M01, M02: sends for as long as the receiver knows the id, then uncertain; never again."""
    contract = duly.Contract(key_life=timedelta(minutes=10), margin=timedelta(minutes=1))
    desk.receive(
        Http(peer.url),
        contract=contract,
        retry_for=timedelta(hours=2),
        outlives_key=True,
        break_after=0,
    )
    peer.memory, peer.always = "ignores", Does(status=None)
    desk.start()
    sends = []
    for minute in range(31):
        desk.due_now()
        desk.deliver()
        sends.append(len(peer.seen))
        desk.pass_time(timedelta(minutes=1))
        assert desk.one("state") == ("pending" if minute < 9 else "uncertain")
    assert sends[8] == 9
    assert sends[-1] == 9
    assert len(set(peer.keys)) == 1
    assert desk.one("answer") == "key_life_over"
    (left,) = [each for each in desk.app.outbox.summary() if each.destination == desk.to]
    assert left.key_life_left == timedelta(0)


def test_m06_outage_of_half_an_hour_uses_no_message_up(desk: Desk, peer: Peer) -> None:
    """M06: refused for half an hour, everything is sent afterwards, and nothing is dead."""
    desk.receive(Http(peer.url), concurrency=2)
    desk.sends = lambda run: [run.send(desk.to, n, key=str(n)) for n in range(20)]
    desk.start()
    peer.always = Does(status=503, applies=False)
    with desk.relay():
        until(lambda: len(peer.seen) >= 5, "tried")
        for _ in range(30):
            desk.pass_time(timedelta(minutes=1))
        assert set(desk.rows()) <= {"pending", "sending"}
        # The breaker is open: far fewer sends than messages times minutes.
        assert len(peer.seen) < 60
    peer.always = Does()
    desk.due_now()
    desk.deliver()
    assert set(desk.rows()) == {"sent"}
    assert set(peer.applied.values()) == {1}


def test_relay_that_must_give_up_writes_down_what_is_under_way(desk: Desk) -> None:
    """One failed claim must not leave the sends of others in doubt."""
    go, calls = threading.Event(), list[int]()

    def fails(when: str, op: Any, _shell: Any) -> None:
        if calls and (when, type(op).__name__) == ("before", "TakeDue"):
            go.set()
            raise RuntimeError("the second claim")

    desk.receive(slow_then(go, calls), concurrency=2)
    desk.start()
    desk.app._probe = fails
    with pytest.raises(RuntimeError, match="second claim"):
        until(lambda: desk.deliver() and False, "failed")
    assert desk.one("state, finished") == ("sent", 1)


def test_lookup_decides_what_is_in_doubt(desk: Desk, peer: Peer) -> None:
    """The receiver is asked, after a while; found is sent, absent is sent again."""
    peer.memory, peer.always = "ignores", Does(status=None)
    said = iter([None, False, True])
    desk.receive(Http(peer.url), lookup=lambda message: next(said))
    desk.start()
    desk.deliver()
    assert desk.one("state") == "uncertain"
    assert desk.deliver().uncertain == 0  # not asked before the receiver can be done
    for state, requests in (("uncertain", 1), ("uncertain", 2), ("sent", 2)):
        desk.due_now()
        desk.deliver()
        assert (desk.one("state"), len(peer.seen)) == (state, requests)
    assert len(set(peer.keys)) == 1
