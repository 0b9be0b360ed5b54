"""What persons decide about messages: possible where it makes sense, and recorded."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

import duly
from duly._sync.telling import told
from duly.channels import Answer

if TYPE_CHECKING:
    from tests.outbox.desk import Desk

WHO = {"reason": "looked at the receiver", "actor": "ops"}
UNSURE = Answer.ambiguous("read_timeout", "nobody answered")
NO = Answer.refused("http_400", "bad request", final=True)


def test_m11_redrive_sends_again_under_the_same_id(desk: Desk) -> None:
    """M11: what was held is sent by a person's word, and the receiver sees the id that it knows."""
    answers, ids = iter([UNSURE, Answer.sent()]), list[str]()

    def receive(message: Any) -> Answer:
        ids.append(message.id)
        return next(answers)

    desk.receive(receive)
    desk.start()
    desk.deliver()
    (message,) = desk.ids
    assert desk.one("state") == "uncertain"
    assert desk.app.outbox.redrive(message, **WHO) == [message]
    assert desk.deliver().sent == 1
    assert ids == [message, message]
    found = desk.app.outbox.show(message)
    assert [each.verdict for each in found.deliveries] == ["ambiguous", "sent"]
    (decision,) = found.decisions
    assert (decision["action"], decision["actor"]) == ("outbox redrive", "ops")
    with pytest.raises(duly.MessageSettled, match="is sent"):
        desk.app.outbox.redrive(message, **WHO)


def test_resend_is_a_message_of_the_next_generation_and_only_once(desk: Desk) -> None:
    got: list[tuple[str, int]] = []
    desk.receive(lambda message: got.append((message.id, message.generation)))
    desk.start()
    desk.deliver()
    (first,) = desk.ids
    (again,) = desk.app.outbox.resend(first, **WHO)
    desk.deliver()
    assert got == [(first, 1), (again, 2)]
    assert first != again
    with pytest.raises(duly.MessageSettled, match=again):
        desk.app.outbox.resend(first, **WHO)
    assert sorted(desk.rows("generation, state")) == [(1, "sent"), (2, "sent")]


def test_resend_of_a_dead_one_closes_it(desk: Desk) -> None:
    answers = iter([NO, Answer.sent()])
    desk.receive(lambda message: next(answers))
    desk.start()
    desk.deliver()
    (first,) = desk.ids
    desk.app.outbox.resend(first, **WHO)
    desk.deliver()
    assert sorted(desk.rows("generation, state, answer")) == [
        (1, "dead", "resent"),
        (2, "sent", "sent"),
    ]
    assert desk.app.outbox.messages(destination=desk.to) == []


def test_confirm_settles_what_arrived(desk: Desk) -> None:
    desk.receive(lambda message: UNSURE)
    desk.start()
    desk.deliver()
    desk.app.outbox.confirm(*desk.ids, **WHO)
    assert desk.one("state, answer") == ("sent", "confirmed")
    assert desk.deliver().sent == 0


def test_abandon_cancels_what_was_never_started_and_ends_the_rest(desk: Desk) -> None:
    desk.receive(lambda message: NO)
    desk.start()
    desk.app.outbox.abandon(*desk.ids, **WHO)
    assert desk.one("state") == "cancelled"
    desk.deliver()
    assert desk.one("state, started") == ("cancelled", 0)
    with pytest.raises(duly.MessageSettled):
        desk.app.outbox.redrive(*desk.ids, **WHO)


def test_abandon_of_a_dead_one_closes_it(desk: Desk) -> None:
    desk.receive(lambda message: NO)
    desk.start()
    desk.deliver()
    assert [each.state for each in desk.app.outbox.messages(destination=desk.to)] == ["dead"]
    desk.app.outbox.abandon(*desk.ids, **WHO)
    assert desk.app.outbox.messages(destination=desk.to) == []
    assert desk.one("state, answer") == ("dead", "abandoned")


def test_decision_about_several_is_made_for_all_of_them_or_for_none(desk: Desk) -> None:
    answers = iter([Answer.sent(), NO])
    desk.receive(lambda message: next(answers), concurrency=1)
    desk.sends = lambda run: [run.send(desk.to, n, name=str(n)) for n in range(2)]
    desk.start()
    desk.deliver()
    with pytest.raises(duly.MessageSettled):
        desk.app.outbox.redrive(*desk.ids, **WHO)
    assert sorted(desk.rows()) == ["dead", "sent"]


@pytest.mark.parametrize("action", ["redrive", "resend", "confirm", "abandon", "lookup"])
def test_rehearsal_of_a_decision_says_what_it_meets_and_decides_nothing(
    desk: Desk, action: str
) -> None:
    """In each state, with the words of the refusal that follows, and of no state in two."""
    answers = {"a": Answer.sent(), "b": NO, "c": UNSURE, "d": Answer.not_sent("later")}
    desk.receive(
        lambda message: answers[message.name],
        lookup=lambda _: True,
        backoff=(timedelta(hours=1), timedelta(hours=2)),
    )
    later = datetime.now(UTC) + timedelta(days=1)
    desk.sends = lambda run: [
        *(run.send(desk.to, 1, name=name) for name in "abcd"),
        *(run.send(desk.to, 1, name=name, not_before=later) for name in "ef"),
    ]
    desk.start()
    desk.deliver()
    by_name = {
        each.name: each for each in desk.app.outbox.messages(destination=desk.to, closed=True)
    }
    desk.app.outbox.abandon(by_name["f"].id, **WHO)
    desk.app.outbox.resend(by_name["b"].id, **WHO)
    columns = "id, generation, state, answer, due_us, token, settled_us, started"
    before, audits = desk.rows(columns), desk.run("SELECT COUNT(*) FROM duly_audit")
    ids = [each.id for each in by_name.values()] + ["00000000-0000-0000-0000-000000000000"]

    said = desk.app.outbox.rehearse(action, *ids)
    assert (desk.rows(columns), desk.run("SELECT COUNT(*) FROM duly_audit")) == (before, audits)
    met: dict[str, str | None] = {}
    for each in ids:
        act = getattr(desk.app.outbox, action)
        try:
            act(each) if action == "lookup" else act(each, **WHO)
            met[each] = None
        except duly.DulyError as error:
            met[each] = error.message
    assert {name: None if why is None else why.message for name, why in said.items()} == met
    assert None in met.values()


def test_page_says_whether_there_are_more(desk: Desk) -> None:
    desk.receive(lambda message: NO)
    desk.sends = lambda run: [run.send(desk.to, n, name=str(n)) for n in range(3)]
    desk.start()
    asked: dict[str, Any] = {"destination": desk.to, "state": "", "answer": "", "job": ""}
    asked |= {"older_than": None}
    for closed in (False, True):
        for limit, more in ((2, True), (3, False), (100_000, False)):
            found = desk.app.outbox.page(**asked, closed=closed, limit=limit)
            assert (len(found[0]), found[1]) == (min(limit, 3), more)


@pytest.mark.parametrize("poll", [0, 0.0, -1, float("nan"), timedelta(0), timedelta(-1), True])
def test_relay_that_would_never_pause_is_refused(desk: Desk, poll: Any) -> None:
    desk.receive(lambda message: NO)
    with pytest.raises(duly.UsageError):
        desk.app.deliver(once=True, poll=poll)


def test_lookup_by_a_person_asks_at_once(desk: Desk) -> None:
    desk.receive(lambda message: UNSURE, lookup=lambda message: True)
    desk.start()
    desk.deliver()
    (message,) = desk.ids
    assert desk.app.outbox.lookup(message) == {message: "sent"}
    assert desk.one("state, answer") == ("sent", "lookup")


def test_lookup_that_raises_leaves_the_message_in_doubt_and_says_why(desk: Desk) -> None:
    """Without the secret that its error quotes; it can be asked again at once."""
    key = "sk_live_1234567890"
    said = iter([RuntimeError(f"the account of {key} is closed"), None])

    def lookup(_message: Any) -> bool:
        told(key)
        if (error := next(said)) is not None:
            raise error
        return True

    desk.receive(lambda message: UNSURE, lookup=lookup)
    desk.start()
    desk.deliver()
    (message,) = desk.ids
    with pytest.raises(duly.LookupFailed, match=rf"{message} \(RuntimeError.*confirm") as failed:
        desk.app.outbox.lookup(message)
    assert key not in str(failed.value)
    assert desk.one("state") == "uncertain"
    assert desk.app.outbox.lookup(message) == {message: "sent"}


def test_lookup_without_one_says_what_to_register(desk: Desk) -> None:
    desk.receive(lambda message: UNSURE)
    desk.start()
    desk.deliver()
    with pytest.raises(duly.DestinationInvalid, match="lookup="):
        desk.app.outbox.lookup(*desk.ids)


@pytest.mark.parametrize("named", ["x", "", "00000000-0000-0000-0000-000000000000"])
def test_unknown_message_is_said_to_be_none(desk: Desk, named: str) -> None:
    with pytest.raises(duly.UnknownMessage):
        desk.app.outbox.show(named)


def test_messages_are_found_by_what_they_have(desk: Desk) -> None:
    answers = {"a": Answer.sent(), "b": NO, "c": UNSURE}
    desk.receive(lambda message: answers[message.name])
    desk.sends = lambda run: [run.send(desk.to, 1, name=name) for name in answers]
    desk.start()
    desk.deliver()

    def names(**chosen: Any) -> list[str]:
        found = desk.app.outbox.messages(destination=desk.to, **chosen)
        return sorted(str(each.name) for each in found)

    assert names() == ["b", "c"]
    assert names(closed=True) == ["a", "b", "c"]
    assert names(state="sent") == ["a"]
    assert names(state="uncertain") == ["c"]
    assert names(answer="http_400") == ["b"]
    assert names(older_than=timedelta(minutes=1)) == []
    assert names(limit=1) == ["b"] or names(limit=1) == ["c"]
    assert {each.key.partition(":")[0] for each in desk.app.outbox.messages(job=desk.job)} == {
        desk.job
    }
    with pytest.raises(duly.UsageError, match="uncertain"):
        names(state="lost")


def test_summary_tells_how_each_destination_is(desk: Desk) -> None:
    answers = {"a": Answer.sent(), "b": NO, "c": UNSURE}
    desk.receive(lambda message: answers[message.name])
    desk.sends = lambda run: [run.send(desk.to, 1, name=name) for name in answers]
    desk.start()
    desk.deliver()
    desk.sends = lambda run: run.send(desk.to, 1)
    desk.start()
    (mine,) = [each for each in desk.app.outbox.summary() if each.destination == desk.to]
    assert (mine.pending, mine.sending, mine.uncertain, dict(mine.dead), mine.registered) == (
        1, 0, 1, {"http_400": 1}, True,
    )  # fmt: skip
    assert mine.oldest_pending_at is not None
