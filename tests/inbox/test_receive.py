"""`App.receive`: a message is handled once, in a transaction of duly's own."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly import testing
from tests.contract.bank import async_url
from tests.inbox.post import OLD, SOURCE

if TYPE_CHECKING:
    from tests.inbox.post import Post

DAY = timedelta(days=1)


def parked(post: Post, message_id: str = "m-1", payload: Any = 2, **named: Any) -> dict[str, Any]:
    """The facts of a delivery that is parked."""
    with pytest.raises(duly.MessageParked) as caught:
        post.deliver(message_id, payload, **named)
    assert "\n" not in caught.value.message
    return caught.value.details


def test_message_delivered_twice_is_handled_once_and_answered_twice(post: Post) -> None:
    """A duplicate gets the stored result, and is counted."""
    first = post.deliver(payload={"units": 10.0})
    again = post.deliver(payload={"units": 10})
    assert (first.is_new, again.is_new) == (True, False)
    assert first.value == again.value == {"said": {"units": 10}}
    assert first.receipt_id == again.receipt_id
    row = post.row()
    assert row is not None
    assert (post.effects, row["duplicates"]) == (1, 1)


def test_m14_message_redelivered_after_the_senders_window_is_refused_by_the_inbox(
    post: Post,
) -> None:
    """M14: a broker that forgets ids after two minutes delivers again; the inbox remembers."""
    post.deliver()
    earlier = 3 * 60 * 1_000_000
    post.run(
        f"UPDATE duly_inbox SET received_us = received_us - {earlier},"
        f" handled_us = handled_us - {earlier} WHERE consumer = '{post.consumer}'"
    )
    assert not post.deliver().is_new
    assert post.effects == 1


def test_same_id_with_another_body_is_parked_with_both_hashes(post: Post) -> None:
    """The handler is not run, and the message is not acknowledged."""
    post.deliver(payload=1)
    details = parked(post, payload=2)
    details_again = parked(post, payload=2)
    assert details == details_again
    assert details["why"] == "conflict"
    assert details["stored_fingerprint"] != details["given_fingerprint"]
    assert (post.effects, post.calls) == (1, 1)
    assert post.parked == [("m-1", "conflict", "held", 2)]
    found = post.office.parked(post.consumer)[0]
    assert (found.fingerprint, found.stored_fingerprint) == (
        details["given_fingerprint"],
        details["stored_fingerprint"],
    )
    assert not post.deliver(payload=1).is_new


def test_same_id_to_two_consumers_is_handled_once_by_each(post: Post) -> None:
    """Each consumer takes a message by itself."""
    other = f"{post.consumer}-b"
    post.consumer_on(post.office, other)
    for _ in range(2):
        for consumer in (post.consumer, other):
            post.office.receive(consumer, source=SOURCE, message_id="m-1", payload=1)
    assert post.effects == 2


def test_same_id_of_two_sources_is_two_messages(post: Post) -> None:
    """An id means something only beside its source."""
    post.deliver(source="a")
    post.deliver(source="b")
    assert post.effects == 2


@pytest.mark.parametrize("other", ["M-1", "m-1 ", " m-1", "m\u0301-1", "\uff4d-1"])
def test_ids_that_differ_by_a_code_point_are_two_messages(post: Post, other: str) -> None:
    """No folding of case, width or accents, and no padding."""
    post.deliver("m-1")
    assert post.deliver(other).is_new
    assert post.effects == 2


def test_bytes_and_json_are_compared_as_they_are(post: Post) -> None:
    """A body of bytes reaches the handler unchanged."""
    seen: list[Any] = []
    post.doing = lambda message: seen.append(message.payload)
    post.deliver("raw", b'{"a": 1}')
    post.deliver("raw", b'{"a": 1}')
    parked(post, "raw", b'{"a":1}')
    assert seen == [b'{"a": 1}']


def test_handler_that_fails_keeps_nothing_and_the_next_delivery_is_new(post: Post) -> None:
    """The exception comes out unchanged, and the key stays free."""

    def fail(_message: Any) -> None:
        raise LookupError("no such order")

    post.doing = fail
    with pytest.raises(LookupError, match="no such order"):
        post.deliver()
    assert (post.effects, post.row()) == (0, None)
    post.doing = None
    assert post.deliver().is_new
    assert post.effects == 1


def test_message_that_is_released_is_handled_once(post: Post) -> None:
    """A person lets the other body through; it is then answered as any duplicate."""
    post.deliver(payload=1)
    parked(post, payload=2)
    post.office.release_parked(post.consumer, SOURCE, "m-1", reason="two orders", actor="ann")
    first = post.deliver(payload=2)
    again = post.deliver(payload=2)
    assert (first.is_new, again.is_new) == (True, False)
    assert first.value == again.value == {"said": 2}
    assert post.effects == 2
    assert post.parked[0][:3] == ("m-1", "conflict", "taken")
    with pytest.raises(duly.OperatorError, match=r"is handled already \(by ann: two orders\)"):
        post.office.release_parked(post.consumer, SOURCE, "m-1", reason="again", actor="bob")


@pytest.mark.parametrize(
    ("decide", "said"),
    [
        ("release_parked", "is released already: its next delivery is handled as new"),
        ("discard_parked", "is discarded already: its deliveries are acknowledged unhandled"),
    ],
)
def test_second_decision_of_the_same_kind_says_who_made_the_first(
    post: Post, decide: str, said: str
) -> None:
    """And leaves it as it is."""
    post.deliver(payload=1)
    parked(post, payload=2)
    act = getattr(post.office, decide)
    act(post.consumer, SOURCE, "m-1", reason="two orders", actor="ann")
    with pytest.raises(duly.OperatorError) as refused:
        act(post.consumer, SOURCE, "m-1", reason="again", actor="bob")
    assert f"{said} (by ann: two orders); nothing was changed now" in str(refused.value)
    entry = post.office.inbox_message(post.consumer, SOURCE, "m-1")
    assert [(each.actor, each.reason) for each in entry.parked] == [("ann", "two orders")]


def test_released_message_whose_handler_fails_stays_released(post: Post) -> None:
    """The release is used up by a commit, not by an attempt."""

    def fail(_message: Any) -> None:
        raise LookupError

    post.deliver(payload=1)
    parked(post, payload=2)
    post.office.release_parked(post.consumer, SOURCE, "m-1", reason="two orders", actor="ann")
    post.doing = fail
    with pytest.raises(LookupError):
        post.deliver(payload=2)
    assert post.parked[0][2] == "released"
    post.doing = None
    assert post.deliver(payload=2).is_new


def test_message_that_is_discarded_is_acknowledged_unhandled(post: Post) -> None:
    """A person has decided that nobody handles it."""
    post.deliver(payload=1)
    parked(post, payload=2)
    post.office.discard_parked(post.consumer, SOURCE, "m-1", reason="a test", actor="ann")
    receipt = post.deliver(payload=2)
    assert (receipt.is_new, receipt.is_discarded, receipt.value) == (False, True, None)
    assert (post.effects, post.calls) == (1, 1)
    entry = post.office.inbox_message(post.consumer, SOURCE, "m-1")
    assert [(each.actor, each.reason) for each in entry.parked] == [("ann", "a test")]


def test_releasing_needs_one_body_to_be_meant(post: Post) -> None:
    """Two bodies under one id: the person names one by its fingerprint."""
    post.deliver(payload=1)
    parked(post, payload=2)
    wanted = parked(post, payload=3)["given_fingerprint"]
    with pytest.raises(duly.UsageError, match="--fingerprint"):
        post.office.release_parked(post.consumer, SOURCE, "m-1", reason="r", actor="ann")
    post.office.release_parked(
        post.consumer, SOURCE, "m-1", reason="r", actor="ann", fingerprint=wanted[:12]
    )
    assert post.deliver(payload=3).is_new
    parked(post, payload=2)


def test_releasing_what_is_not_parked_is_refused(post: Post) -> None:
    post.deliver()
    with pytest.raises(duly.UsageError, match="nothing parked"):
        post.office.release_parked(post.consumer, SOURCE, "m-1", reason="r", actor="ann")


# ------------------------------------------------------------------------------------------ pruning


def test_message_older_than_the_horizon_is_parked_and_never_taken_as_new(post: Post) -> None:
    """Its record is gone, so nobody can tell whether it was handled."""
    post.deliver("old", sent_at=OLD)
    post.deliver("young", sent_at=datetime.now(UTC))
    post.deliver("untimed")
    done = post.office.prune_inbox(older_than=OLD)
    assert [each.occurrences for each in done if each.job == post.consumer] == [1]
    assert post.row("old") is None
    assert parked(post, "old", 1, sent_at=OLD)["why"] == "expired"
    assert parked(post, "never-seen", 1, sent_at=OLD - DAY)["why"] == "expired"
    assert not post.deliver("young", sent_at=datetime.now(UTC)).is_new
    assert not post.deliver("untimed").is_new
    assert post.effects == 3


def test_message_without_a_time_of_its_own_is_never_pruned(post: Post) -> None:
    """Nothing would tell it from a new one afterwards."""
    post.deliver("untimed")
    post.run(f"UPDATE duly_inbox SET received_us = 0 WHERE consumer = '{post.consumer}'")
    post.office.prune_inbox(older_than=400 * DAY, clock_is_right=True)
    assert not post.deliver("untimed").is_new


def test_message_whose_time_changes_between_deliveries_is_never_pruned(post: Post) -> None:
    """A time that is each delivery's own says nothing about the message."""
    post.deliver("m-1", sent_at=OLD)
    post.deliver("m-1", sent_at=OLD + DAY)
    post.office.prune_inbox(older_than=OLD + 2 * DAY)
    row = post.row()
    assert row is not None
    assert row["sent_us"] is None


def test_prune_cannot_pass_the_floor(post: Post) -> None:
    """As of occurrences: what may still be redelivered is not forgotten."""
    post.deliver("m-1", sent_at=datetime.now(UTC) - DAY)
    with pytest.raises(duly.PruneRefused, match="floor"):
        post.office.prune_inbox(older_than=timedelta(hours=1))


# ------------------------------------------------------------- a handler that ends the transaction


def test_message_whose_handler_lost_the_transaction_is_parked_as_torn(post: Post) -> None:
    """What it left is not known: neither handled again nor acknowledged, until a person says."""
    from tests.faults.scenarios import end

    post.doing = end
    with pytest.raises(duly.MessageParked) as caught:
        post.deliver()
    assert caught.value.details["why"] == "torn"
    post.doing = None
    assert parked(post, payload=1)["why"] == "torn"
    assert post.parked[0][:3] == ("m-1", "torn", "held")
    post.office.release_parked(post.consumer, SOURCE, "m-1", reason="not there", actor="ann")
    assert post.deliver().is_new
    assert not post.deliver().is_new


@pytest.mark.parametrize("how", ["commit", "rollback"])
def test_handler_may_not_end_the_transaction(post: Post, how: str) -> None:
    """As in a job: duly commits when the handler returns."""
    post.doing = lambda message: getattr(message.connection, how)()
    with pytest.raises(duly.UsageError):
        post.deliver()
    assert (post.effects, post.row()) == (0, None)


# ------------------------------------------------------------------------------------------- races


def test_fifty_deliveries_at_once_some_of_which_fail_make_one_effect(post: Post) -> None:
    """50 starters, some rolling back: one effect."""
    at_once = 50
    ready = threading.Barrier(at_once)
    turns = iter(range(at_once))
    lock = threading.Lock()
    ended: list[Any] = []

    def sometimes(_message: Any) -> str:
        with lock:
            if next(turns) < 5:
                raise LookupError
        return "done"

    post.doing = sometimes
    app = post.consumer_on(post.app(post.engine(pool_size=at_once)))

    def deliver() -> None:
        ready.wait()
        try:
            receipt = app.receive(
                post.consumer, source=SOURCE, message_id="m-1", payload=1, wait=60
            )
            ended.append((receipt.is_new, receipt.value))
        except LookupError:
            ended.append("failed")

    threads = [threading.Thread(target=deliver) for _ in range(at_once)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    row = post.row()
    assert row is not None
    assert (post.effects, ended.count("failed"), ended.count((True, "done"))) == (1, 5, 1)
    assert ended.count((False, "done")) == row["duplicates"] == at_once - 6


# ------------------------------------------------------------------------------------------ faults


@pytest.mark.parametrize("kind", ["raise", "cut"])
def test_commit_whose_answer_is_lost_is_settled_by_claiming_again(post: Post, kind: Any) -> None:
    """The message is acknowledged because it is there, not because it is likely."""
    office = post.office
    with testing.fault(office, op="Commit", when="after", kind=kind) as injected:
        receipt = post.deliver()
    assert injected.fired == 1
    assert (receipt.is_new, receipt.value, post.effects, post.calls) == (True, {"said": 1}, 1, 1)


def test_commit_that_never_arrived_is_made_again(post: Post) -> None:
    office = post.office
    with testing.fault(office, op="Commit", when="before", kind="raise") as injected:
        receipt = post.deliver()
    assert injected.fired == 1
    assert (receipt.is_new, post.effects, post.calls) == (True, 1, 2)


def test_refused_message_is_refused_also_where_it_cannot_be_parked(post: Post) -> None:
    """The record is evidence; without it the next delivery parks it."""
    post.deliver(payload=1)
    with (
        testing.fault(post.office, op="Record", when="before", kind="raise", times=10),
        pytest.raises((duly.MessageParked, duly.Busy)),
    ):
        post.deliver(payload=2, wait=0.2)
    assert post.effects == 1
    parked(post, payload=2)


# ----------------------------------------------------------------------------------------- duly.aio


def test_async_app_handles_a_message_once(post: Post) -> None:
    """The same promise where handlers await."""
    app: Any = post.aio_app(async_url(post.url))

    async def handle(message: Any) -> Any:
        await message.execute(post.credit())
        return message.message_id

    app.consumer(post.consumer)(handle)
    for expected in (True, False):
        receipt = app.receive(post.consumer, source=SOURCE, message_id="m-1", payload=1)
        assert (receipt.is_new, receipt.value) == (expected, "m-1")
    with pytest.raises(duly.MessageParked):
        app.receive(post.consumer, source=SOURCE, message_id="m-1", payload=2)
    assert post.effects == 1


# ---------------------------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("named", "match"),
    [
        ({"message_id": ""}, "message_id is empty"),
        ({"message_id": " "}, "message_id is empty"),
        ({"message_id": "x" * 301}, "longer than 300"),
        ({"message_id": "a\0b"}, "NUL"),
        ({"message_id": "a\ud800"}, "surrogate"),
        ({"message_id": 7}, "must be text"),
        ({"source": ""}, "source is empty"),
        ({"source": "x" * 251}, "longer than 250"),
        ({"sent_at": "2026-01-01"}, "aware datetime"),
        ({"sent_at": datetime(2026, 1, 1)}, "naive"),
        ({"payload": {1}}, "set"),
        ({"wait": -1}, "wait"),
    ],
)
def test_delivery_that_cannot_be_one_is_refused_in_one_line(
    post: Post, named: dict[str, Any], match: str
) -> None:
    with pytest.raises(duly.UsageError, match=match) as caught:
        post.deliver(**named)
    assert "\n" not in caught.value.message
    assert post.effects == 0


def test_longest_key_fits_every_database(post: Post) -> None:
    """The lengths that Python allows, in four bytes each, are within every index."""
    wide = "\N{GRINNING FACE}"
    assert post.deliver(wide * 300, source=wide * 250).is_new
    assert not post.deliver(wide * 300, source=wide * 250).is_new


def test_consumer_that_is_not_defined_is_named(post: Post) -> None:
    with pytest.raises(duly.UsageError, match="no consumer"):
        post.office.receive("nobody", source=SOURCE, message_id="m-1")


@pytest.mark.parametrize("name", ["", "Über", "a b", "x" * 101])
def test_consumer_of_an_impossible_name_is_refused(post: Post, name: str) -> None:
    with pytest.raises(duly.IncomingInvalid):
        post.office.consumer(name)


def test_consumer_that_is_defined_twice_is_refused(post: Post) -> None:
    with pytest.raises(duly.DuplicateJob):
        post.office.consumer(post.consumer)(lambda message: None)


def test_consumer_whose_handler_awaits_is_refused(post: Post) -> None:
    async def handle(message: Any) -> None:
        """Would never be awaited."""

    with pytest.raises(duly.HandlerInvalid):
        post.app().consumer("mine")(handle)
