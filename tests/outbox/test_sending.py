"""Messages leave with their occurrence, or not at all; on each database."""

from __future__ import annotations

import itertools
import threading
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly.channels import Answer, Http
from tests.outbox.desk import LONG, QUICK, Desk, until

if TYPE_CHECKING:
    from tests.outbox.peer import Peer


def test_message_of_an_applied_occurrence_arrives_once_under_its_id(desk: Desk, peer: Peer) -> None:
    desk.receive(Http(peer.url))
    desk.start()
    assert desk.deliver().sent == 1
    assert desk.deliver().sent == 0
    (seen,) = peer.seen
    assert [seen.key] == desk.ids
    assert seen.body == b'{"n":1}'
    assert desk.one("state, started, finished") == ("sent", 1, 1)


def test_message_of_a_failed_attempt_is_never_sent(desk: Desk, peer: Peer) -> None:
    """Invariant 10: no commit, no message."""
    desk.receive(Http(peer.url))

    def fails(run: duly.Run) -> None:
        run.send(desk.to, 1)
        raise RuntimeError("after the send")

    desk.sends = fails
    with pytest.raises(RuntimeError):
        desk.start()
    desk.deliver()
    assert (desk.rows(), peer.seen) == ([], [])


_numbers = itertools.count()


def in_sql(run: duly.Run, work: Any) -> None:
    name = f"part_{next(_numbers)}"
    run.execute(f"/* a part */ SAVEPOINT {name}")
    try:
        work()
    except ValueError:
        run.execute(f"ROLLBACK TO {name.upper()}")
    else:
        run.execute(f"RELEASE SAVEPOINT {name}")


def in_connection(run: duly.Run, work: Any) -> None:
    with suppress(ValueError), run.connection.begin_nested():
        work()


def in_session(run: duly.Run, work: Any) -> None:
    with suppress(ValueError), run.session.begin_nested():
        work()


@pytest.mark.parametrize("part", [in_sql, in_connection, in_session])
def test_message_of_work_that_a_savepoint_took_back_is_never_sent(
    desk: Desk, peer: Peer, part: Any
) -> None:
    """A payment without its change would be one too many; the name is free for another."""
    desk.receive(Http(peer.url))

    def sends(run: duly.Run) -> None:
        def one(key: str, *, fails: bool) -> None:
            run.send(desk.to, f"{key} {fails}", key=key)
            if fails:
                raise ValueError(key)

        def both() -> None:
            part(run, lambda: one("c", fails=False))
            part(run, lambda: one("d", fails=True))

        def neither() -> None:
            part(run, lambda: one("e", fails=False))
            raise ValueError("the outer one")

        part(run, lambda: one("a", fails=True))
        part(run, lambda: one("b", fails=False))
        part(run, both)
        part(run, neither)
        part(run, lambda: one("a", fails=False))

    desk.sends = sends
    desk.start()
    desk.deliver()
    assert sorted(seen.body for seen in peer.seen) == [b'"a False"', b'"b False"', b'"c False"']


def test_message_whose_attempt_cannot_commit_is_not_there(desk: Desk, peer: Peer) -> None:
    """The commit itself fails, after everything was written: the message goes with the effect."""
    desk.receive(Http(peer.url))

    def refuse(when: str, op: Any, _shell: Any) -> None:
        if (when, type(op).__name__) == ("before", "Seal"):
            raise duly.TransientError("no commit")

    desk.app._probe = refuse
    with pytest.raises(Exception, match=r"no commit|not known"):
        desk.start()
    desk.app._probe = None
    assert desk.rows() == []


def test_fifty_starters_some_rolling_back_send_one_message(desk: Desk, peer: Peer) -> None:
    """One effect, one message, one request, whoever starts it and however often."""
    desk.receive(Http(peer.url))
    at, turns = desk.at, iter(range(1_000))

    def sometimes(run: duly.Run) -> None:
        run.send(desk.to, {"account": 7})
        if next(turns) % 2 == 0:
            raise RuntimeError("rolled back")

    desk.sends = sometimes
    outcomes: list[str] = []

    def starts() -> None:
        for _ in range(10):
            try:
                outcomes.append(str(desk.start(at).outcome))
            except RuntimeError:
                outcomes.append("failed")

    threads = [threading.Thread(target=starts) for _ in range(5)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    desk.deliver()
    assert outcomes.count("applied") == 1
    assert len(outcomes) == 50
    assert len(peer.seen) == 1
    assert desk.rows() == ["sent"]


def test_two_unnamed_messages_to_one_destination_are_refused(desk: Desk) -> None:
    """PROTOCOL 23: an order of calls is not an identity."""
    desk.receive(lambda message: None)
    desk.sends = lambda run: [run.send(desk.to, 1), run.send(desk.to, 2)]
    with pytest.raises(duly.MessageInvalid, match="name="):
        desk.start()
    assert desk.rows() == []


def test_m13_equal_bodies_under_two_names_are_two_messages(desk: Desk, peer: Peer) -> None:
    """M13: equal bodies are not duplicates."""
    desk.receive(Http(peer.url))
    desk.sends = lambda run: [run.send(desk.to, 1, name="a"), run.send(desk.to, 1, name="b")]
    desk.start()
    assert desk.deliver().sent == 2
    assert len(set(peer.keys)) == 2


def test_same_id_with_another_body_is_a_conflict_that_names_the_usual_cause(desk: Desk) -> None:
    """Nothing of the second is stored, and the message says what to look for."""
    desk.receive(lambda message: None)
    at = desk.at
    occurrence = duly.Occurrence(desk.job, at)
    with closing(desk.database.connect()) as connection:
        if desk.kind == "sqlite":
            connection.execute("BEGIN IMMEDIATE")
        assert duly.claim(connection, occurrence).is_new
        first = duly.send(connection, occurrence, desk.to, {"at": 1})
        assert duly.send(connection, occurrence, desk.to, {"at": 1}) == first
        with pytest.raises(duly.PayloadConflict, match=r"now\(\)"):
            duly.send(connection, occurrence, desk.to, {"at": 2})
        connection.commit()
    assert len(desk.rows()) == 1
    assert desk.deliver().sent == 1


def test_send_outside_the_transaction_of_its_occurrence_is_refused(desk: Desk) -> None:
    """It would be sent whatever became of the effect."""
    desk.receive(lambda message: None)
    kept: list[duly.Run] = []

    def keeps(run: duly.Run) -> None:
        kept.append(run)

    desk.sends = keeps
    desk.start()
    with pytest.raises(duly.NotInTransaction):
        kept[0].send(desk.to, 1)
    with closing(desk.database.connect()) as connection:
        if desk.kind == "sqlite":
            connection.execute("BEGIN IMMEDIATE")
        with pytest.raises(duly.NotInTransaction, match="not claimed"):
            duly.send(connection, duly.Occurrence(desk.job, desk.at), desk.to, 1)
        connection.rollback()
    assert desk.rows() == []


def test_send_on_a_connection_in_autocommit_is_refused(desk: Desk) -> None:
    """Message and claim would commit apart."""
    with closing(desk.database.connect()) as connection:
        match desk.kind:
            case "sqlite":
                connection.isolation_level = None
            case "postgresql":
                connection.autocommit = True
            case _:
                connection.autocommit(True)
        with pytest.raises(duly.NotInTransaction, match=r"duly\.send"):
            duly.send(connection, duly.Occurrence(desk.job, desk.at), desk.to, 1)


def test_unknown_destination_is_refused_with_the_nearest(desk: Desk) -> None:
    desk.receive(lambda message: None)
    desk.sends = lambda run: run.send(desk.to[:-1] + "x", 1)
    with pytest.raises(duly.UnknownDestination, match="did you mean"):
        desk.start()


@pytest.mark.parametrize(
    "given",
    [
        {"body": "x" * 262_145},
        {"body": b"x" * 262_145},
        {"body": object()},
        {"body": 1, "headers": {"X-A": "a\r\nInjected: 1"}},
        {"body": 1, "headers": {"X-A": "a\0"}},
        {"body": 1, "headers": {"X A": "1"}},
        {"body": 1, "headers": {"Idempotency-Key": "mine"}},
        {"body": 1, "headers": {"CE-Id": "mine"}},
        {"body": 1, "headers": {"ce-source": "mine"}},
        {"body": 1, "headers": [("X-Tenant", "ann")]},
        {"body": 1, "headers": {"Content-Type": ""}},
        {"body": 1, "headers": {"Connection": "close"}},
        {"body": 1, "headers": {"Content-Type": "x" * 201}},
        {"body": 1, "name": "a", "key": "b"},
        {"body": 1, "name": ""},
        {"body": 1, "ordering_key": "a\0b"},
        {"body": 1, "not_before": datetime(2026, 1, 1)},
        {
            "body": 1,
            "not_before": datetime(2026, 1, 2, tzinfo=UTC),
            "expires_at": datetime(2026, 1, 1, tzinfo=UTC),
        },
    ],
    ids="-".join,
)
def test_message_that_cannot_be_sent_is_refused_where_it_is_sent(given: dict[str, Any]) -> None:
    """In the handler, so that the occurrence is rolled back and no relay has to find it."""
    from duly._core.outbox import freeze

    body = given.pop("body")
    with pytest.raises(duly.MessageInvalid) as caught:
        freeze(duly.Occurrence("j", datetime(2026, 1, 1, tzinfo=UTC)), "pay", body, **given)
    assert "\n" not in str(caught.value)


def test_message_waits_for_its_time_and_lapses_after_it(desk: Desk) -> None:
    """Nothing is sent before `not_before` or from `expires_at` on."""
    got: list[str] = []
    desk.receive(lambda message: got.append(message.name))
    now = datetime.now(UTC)

    def sends(run: duly.Run) -> None:
        run.send(desk.to, 1, name="later", not_before=now + timedelta(hours=1))
        run.send(desk.to, 1, name="lapses", expires_at=now + timedelta(seconds=1))

    desk.sends = sends
    desk.start()
    desk.pass_time(timedelta(minutes=30))
    desk.deliver()
    assert got == []
    assert sorted(desk.rows("name, state, answer")) == [
        ("lapses", "dead", "lapsed"),
        ("later", "pending", None),
    ]
    desk.pass_time(timedelta(minutes=31))
    desk.deliver()
    assert got == ["later"]


def test_relay_of_the_same_process_wakes_when_a_message_is_committed(desk: Desk) -> None:
    """Nobody waits for a poll: the relay here polls once in an hour."""
    got = threading.Event()
    desk.receive(lambda message: got.set())
    stop = threading.Event()
    thread = threading.Thread(target=lambda: desk.app.deliver(stop=stop, poll=3600))
    thread.start()
    try:
        for _ in range(3):
            got.clear()
            desk.start()
            assert got.wait(10)
        # `duly.once` has a pool and an App of its own, and the same outbox.
        got.clear()
        day = desk.at.isoformat().replace("+00:00", "Z")
        with duly.once(desk.database.url, f"{desk.job}-once:{day}") as run:
            if run.is_new:
                run.send(desk.to, {"n": 2})
        assert got.wait(10)
    finally:
        stop.set()
        thread.join(10)


@pytest.mark.parametrize("way", ["run", "block", "function"])
def test_commit_of_a_message_rings_for_the_relays_of_the_process(desk: Desk, way: str) -> None:
    """Whatever committed it; the relay need not look by itself."""
    rung = threading.Event()
    desk.receive(lambda message: None)
    key = f"{desk.job}-once:{desk.at.isoformat().replace('+00:00', 'Z')}"
    desk.app.database.bell.hear(rung.set)
    if way == "run":
        desk.start()
    elif way == "block":
        with duly.once(desk.database.url, key) as run:
            if run.is_new:
                run.send(desk.to, {"n": 2})
    else:

        @duly.once(desk.database.url, key)
        def once(run: duly.Run) -> None:
            run.send(desk.to, {"n": 2})

        once()
    desk.app.database.bell.leave(rung.set)
    assert rung.is_set()
    assert desk.deliver().sent == 1


def test_worker_sends_what_its_jobs_send(desk: Desk, peer: Peer) -> None:
    """`duly worker` is a relay too."""
    desk.receive(Http(peer.url))
    desk.app.job(f"{desk.job}-tick", schedule=duly.Every(timedelta(days=1), anchor=desk.at))(
        lambda run: None
    )
    stop = threading.Event()
    thread = threading.Thread(target=lambda: desk.app.work(stop=stop, threads=1))
    thread.start()
    try:
        desk.start()
        until(lambda: peer.seen, "sent")
    finally:
        stop.set()
        thread.join(20)
    until(lambda: desk.rows() == ["sent"], "written down")


@pytest.mark.parametrize("number", [400, pytest.param(10_000, marks=pytest.mark.torture)])
def test_m03_four_relays_send_each_of_many_messages_once(desk: Desk, number: int) -> None:
    """M03: four relays at once, and each message is sent by one of them."""
    lock, got = threading.Lock(), list[str]()

    def slow(message: Any) -> Answer:
        with lock:
            got.append(message.id)
        threading.Event().wait(0.002)
        return Answer.sent()

    desk.receive(slow, concurrency=3, backoff=QUICK)
    desk.sends = lambda run: [run.send(desk.to, n, key=str(n)) for n in range(100)]
    for _ in range(number // 100):
        desk.start()
    relays = [desk.app, *(desk.other(slow, concurrency=3) for _ in range(3))]
    threads = [threading.Thread(target=lambda r=r: r.deliver(once=True)) for r in relays]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    desk.deliver()
    assert len(got) == len(set(got)) == number
    assert set(desk.rows()) == {"sent"}
    assert set(desk.rows("started")) == {1}


def test_m05_relay_claims_no_more_than_it_has_senders(desk: Desk) -> None:
    """M05: what waits behind a slow peer is nobody's, so no lease of it can run out."""
    enough = threading.Event()

    def stands(message: Any) -> Answer:
        assert enough.wait(LONG)
        return Answer.sent()

    def under_way() -> int:
        return desk.rows().count("sending")

    desk.receive(stands, concurrency=3)
    desk.sends = lambda run: [run.send(desk.to, n, key=str(n)) for n in range(20)]
    desk.start()
    with desk.relay():
        until(lambda: under_way() == 3, "three under way")
        with desk.relay(desk.other(stands, concurrency=2)):
            until(lambda: under_way() == 5, "two more under way")
            assert desk.rows().count("pending") == 15
            enough.set()
            until(lambda: set(desk.rows()) == {"sent"}, "all sent")
    assert set(desk.rows("started")) == {1}


def test_m08_messages_that_parallel_producers_commit_are_all_sent(desk: Desk) -> None:
    """M08: nobody reads by a position, so no commit that comes late is passed by."""
    got: list[Any] = []
    desk.receive(lambda message: got.append(message.json), backoff=QUICK)
    desk.sends = lambda run: [run.send(desk.to, [run.key, n], key=str(n)) for n in range(5)]
    times = [desk.at for _ in range(12)]
    with desk.relay():
        threads = [
            threading.Thread(target=lambda part=part: [desk.start(at) for at in part])
            for part in (times[:4], times[4:8], times[8:])
        ]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        until(lambda: len(got) == 60, "all sent")
    assert set(desk.rows()) == {"sent"}


def test_m01_database_restored_to_before_sends_the_same_ids(desk: Desk, peer: Peer) -> None:
    """M01: what is done again after a restore is the same message to its receiver."""
    desk.receive(Http(peer.url), contract=duly.Contract.idempotency_key(key_life=timedelta(days=1)))
    at = desk.at
    desk.start(at)
    desk.deliver()
    for table in ("duly_occurrence", "duly_attempt", "duly_outbox"):
        desk.run(f"DELETE FROM {table} WHERE job = '{desk.job}'")
    desk.run("DELETE FROM duly_delivery")
    desk.start(at)
    desk.deliver()
    assert len(peer.keys) == 2
    assert len(set(peer.keys)) == 1
    assert list(peer.applied.values()) == [1]


def test_m07_old_message_is_sent_and_no_prune_passes_one_that_is_not(
    desk: Desk, peer: Peer
) -> None:
    """M07: age removes nothing; a prune stops short of the oldest that is open."""
    desk.receive(Http(peer.url))
    old = datetime(2024, 3, 1, tzinfo=UTC)
    desk.start(old)
    desk.start(old + timedelta(days=1))
    desk.pass_time(timedelta(days=400))

    def pruned() -> Any:
        (job,) = [
            each
            for each in desk.app.prune(older_than=datetime(2024, 6, 1, tzinfo=UTC))
            if each.job == desk.job
        ]
        return job

    before = pruned()
    assert before.held is not None
    assert (before.held.why, before.held.nominal_us) == ("undelivered", int(old.timestamp() * 1e6))
    assert len(desk.rows()) == 2
    assert desk.deliver().sent == 2
    assert len(peer.seen) == 2
    assert pruned().held is None
    assert desk.rows() == []
