"""What becomes of a message: the table of verdict, contract, doubt and time."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duly._core.breaker import Breaker
from duly._core.channel import Answer
from duly._core.contract import Contract
from duly._core.destination import Destination
from duly._core.occurrence import Occurrence
from duly._core.outbox import message_id
from duly._core.sending import Look, Move, Row, Start, after_lookup, after_send, backoff, step
from duly._core.states import MESSAGE_TRANSITIONS, MessageState, Verdict
from duly.errors import DestinationInvalid

NOW = 1_800_000_000_000_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
ROW = Row(UUID(int=1), MessageState.PENDING, 0, 0, NOW, NOW, None, None, None)
TEN_MINUTES = Contract(key_life=timedelta(minutes=10), margin=timedelta(minutes=1))


class Nowhere:
    def send(self, message: object) -> Answer:
        raise AssertionError

    def close(self) -> None:
        return


def to(**settings: Any) -> Destination:
    return Destination(name="pay", channel=Nowhere(), **settings)


def started(row: Row, at_us: int) -> Row:
    return replace(row, state=MessageState.SENDING, started=row.started + 1, tried_us=at_us)


HOLD, RETRY = to(), to(contract=Contract(ambiguous="retry"))
KEYED = to(contract=TEN_MINUTES, retry_for=timedelta(hours=1), outlives_key=True)
ANSWERS = {
    Verdict.SENT: Answer.sent(),
    Verdict.NOT_SENT: Answer.not_sent("connect_failed"),
    Verdict.REFUSED: Answer.refused("http_503", final=False),
    Verdict.AMBIGUOUS: Answer.ambiguous("read_timeout"),
}


@pytest.mark.parametrize(
    ("verdict", "destination", "state", "in_doubt"),
    [
        (Verdict.SENT, HOLD, MessageState.SENT, False),
        (Verdict.NOT_SENT, HOLD, MessageState.PENDING, False),
        (Verdict.REFUSED, HOLD, MessageState.PENDING, False),
        (Verdict.AMBIGUOUS, HOLD, MessageState.UNCERTAIN, True),
        (Verdict.AMBIGUOUS, RETRY, MessageState.PENDING, True),
        (Verdict.AMBIGUOUS, KEYED, MessageState.PENDING, True),
    ],
)
def test_verdict_and_contract_decide_the_state(
    verdict: Verdict, destination: Destination, state: MessageState, in_doubt: bool
) -> None:
    """What may have arrived is sent again only where the contract says that it may be."""
    move = after_send(started(ROW, NOW), ANSWERS[verdict], destination, NOW + SECOND, 0.5)
    assert (move.state, move.doubt_us is not None) == (state, in_doubt)


def test_final_refusal_is_dead_and_with_a_doubt_before_it_uncertain() -> None:
    """That it may have been sent is never guessed away by a later no."""
    no = Answer.refused("http_401", final=True)
    row = started(ROW, NOW)
    assert after_send(row, no, KEYED, NOW, 0).state is MessageState.DEAD
    doubtful = replace(row, doubt_us=NOW - MINUTE)
    assert after_send(doubtful, no, KEYED, NOW, 0).state is MessageState.UNCERTAIN


def test_conflict_at_the_receiver_is_dead() -> None:
    answer = Answer.refused("http_422", final=True, conflict=True)
    assert after_send(started(ROW, NOW), answer, KEYED, NOW, 0).state is MessageState.DEAD


def test_stored_answer_is_not_asked_for_again() -> None:
    """A provider that keeps its 500 for the key would only say it again."""
    answer = Answer.ambiguous("http_500", final=True)
    assert after_send(started(ROW, NOW), answer, KEYED, NOW, 0).state is MessageState.UNCERTAIN


@pytest.mark.parametrize("minutes", range(31))
def test_no_send_is_started_after_the_receivers_memory(minutes: int) -> None:
    """Key life 10 min, margin 1 min, outage of 30: sends for 9 minutes, then uncertain."""
    doubt_us = NOW
    row = replace(ROW, started=3, finished=3, tried_us=NOW, doubt_us=doubt_us)
    found = step(row, KEYED, NOW + minutes * MINUTE)
    if minutes < 9:
        assert found == Start(4, doubt_us)
    else:
        assert isinstance(found, Move)
        assert (found.state, found.answer) == (MessageState.UNCERTAIN, "key_life_over")


def test_pause_never_sleeps_past_the_end_of_the_receivers_memory() -> None:
    """However long Retry-After is, the decision is made in time."""
    row = replace(started(ROW, NOW), doubt_us=NOW)
    answer = Answer.refused("http_503", final=False, retry_after=timedelta(days=10_000))
    move = after_send(row, answer, KEYED, NOW + MINUTE, 0)
    assert move.due_us == NOW + 9 * MINUTE


def test_message_that_surely_never_arrived_outlives_the_key() -> None:
    """The receiver does not know the id, so there is nothing that it could forget."""
    row = replace(ROW, started=9, finished=9, tried_us=NOW)
    assert isinstance(step(row, KEYED, NOW + 30 * MINUTE), Start)


@pytest.mark.parametrize("asked", [timedelta(0), timedelta(seconds=7), timedelta(days=99_999)])
def test_retry_after_is_honoured_within_a_day(asked: timedelta) -> None:
    answer = Answer.refused("http_429", final=False, retry_after=asked)
    move = after_send(started(ROW, NOW), answer, HOLD, NOW, 0.0)
    assert move.due_us == NOW + max(
        500_000, min(asked, timedelta(days=1)) // timedelta(microseconds=1)
    )


def test_deadline_gives_up_what_was_tried_and_never_what_was_not() -> None:
    """M07: no age removes what was never tried; what is in doubt stays in doubt."""
    late = NOW + 3 * 24 * 60 * MINUTE
    assert isinstance(step(ROW, HOLD, late), Start)
    tried = replace(ROW, started=5, finished=5, tried_us=NOW)
    found = step(tried, HOLD, late)
    assert isinstance(found, Move)
    assert (found.state, found.answer) == (MessageState.DEAD, "exhausted")
    doubtful = step(replace(tried, doubt_us=NOW), RETRY, late)
    assert isinstance(doubtful, Move)
    assert doubtful.state is MessageState.UNCERTAIN


def test_lease_that_ran_out_is_a_doubt() -> None:
    """Its relay wrote down the start and not the end: hold, send again, or poison."""
    row = started(ROW, NOW)
    held = step(row, HOLD, NOW + MINUTE)
    assert isinstance(held, Move)
    assert (held.state, held.answer, held.doubt_us) == (MessageState.UNCERTAIN, "lease_over", NOW)
    assert step(row, RETRY, NOW + MINUTE) == Start(2, NOW)
    poison = step(replace(row, started=3), RETRY, NOW + MINUTE)
    assert isinstance(poison, Move)
    assert (poison.state, poison.answer) == (MessageState.DEAD, "poison")
    assert step(replace(row, started=3, finished=1), RETRY, NOW + MINUTE) == Start(4, NOW)


def test_lookup_settles_what_is_in_doubt() -> None:
    asks = to(lookup=lambda message: None)
    row = replace(ROW, state=MessageState.UNCERTAIN, started=1, finished=1, doubt_us=NOW)
    assert step(row, asks, NOW + MINUTE) == Look()
    assert after_lookup(row, True, asks, NOW, 0).state is MessageState.SENT
    absent = after_lookup(row, False, asks, NOW, 0)
    assert (absent.state, absent.doubt_us, absent.due_us) == (MessageState.PENDING, None, NOW)
    unknown = after_lookup(row, None, asks, NOW, 0)
    assert unknown.state is MessageState.UNCERTAIN
    assert unknown.due_us is not None
    assert unknown.due_us > NOW
    over = after_lookup(row, None, asks, NOW + 9 * 24 * 60 * MINUTE, 0)
    assert (over.state, over.due_us) == (MessageState.UNCERTAIN, None)


def test_lookup_is_not_believed_before_the_receiver_is_done() -> None:
    asks = to(lookup=lambda message: None)
    move = after_send(started(ROW, NOW), ANSWERS[Verdict.AMBIGUOUS], asks, NOW, 0)
    assert move.due_us == NOW + MINUTE


@given(st.integers(0, 10_000), st.floats(0, 1, exclude_max=True))
def test_pause_is_bounded_however_often(sends: int, spread: float) -> None:
    """From half a second to half an hour, whatever the count."""
    pause = backoff(sends, HOLD, spread)
    assert timedelta(seconds=0.5) <= pause <= timedelta(minutes=30)


answers = st.one_of(
    st.sampled_from(list(ANSWERS.values())),
    st.booleans().map(lambda final: Answer.ambiguous("x", final=final)),
    st.booleans().map(lambda conflict: Answer.refused("x", final=True, conflict=conflict)),
)
rows = st.builds(
    Row,
    st.just(UUID(int=1)),
    st.sampled_from([MessageState.PENDING, MessageState.SENDING, MessageState.UNCERTAIN]),
    st.integers(1, 6),
    st.integers(0, 6),
    st.just(NOW),
    st.just(NOW),
    st.none() | st.integers(NOW, NOW + 90 * MINUTE),
    st.just(NOW + SECOND),
    st.none() | st.just(NOW + SECOND),
)
destinations = st.sampled_from([HOLD, RETRY, KEYED, to(lookup=lambda message: None)])


@given(rows, destinations, st.integers(0, 6_000), answers)
def test_every_move_is_in_the_table_and_no_doubt_is_forgotten(
    row: Row, destination: Destination, minutes: int, answer: Answer
) -> None:
    """Whatever is answered when: only a lookup or a person ends a doubt without `sent`."""
    now = NOW + minutes * MINUTE // 10
    found = step(row, destination, now)
    if isinstance(found, Start):
        row = replace(
            row, state=MessageState.SENDING, started=found.number, doubt_us=found.doubt_us
        )
        move = after_send(row, answer, destination, now, 0.3)
    elif isinstance(found, Move):
        move = found
    else:
        return
    assert move.state in MESSAGE_TRANSITIONS[row.state]
    if row.doubt_us is not None:
        assert move.doubt_us is not None
        known = {"poison", "x"} if answer.conflict or move.answer == "poison" else set()
        assert move.state is not MessageState.DEAD or move.answer in known
    if destination is HOLD and move.doubt_us is not None:
        assert move.state in {MessageState.UNCERTAIN, MessageState.DEAD, MessageState.SENT}


# The breaker


def test_breaker_opens_after_failures_in_a_row_and_lets_one_through() -> None:
    """M06: what waits for it is not tried, so nothing is used up."""
    breaker, no = Breaker(), ANSWERS[Verdict.NOT_SENT]
    for _ in range(4):
        breaker = breaker.seen(no, HOLD, 100.0)
        assert breaker.allows(100.0, 8) == 8
    breaker = breaker.seen(no, HOLD, 100.0)
    assert breaker.allows(100.5, 8) == 0
    assert breaker.allows(101.0, 8) == 1
    breaker = breaker.seen(no, HOLD, 101.0)
    assert breaker.allows(102.5, 8) == 0
    assert breaker.allows(103.0, 8) == 1
    breaker = breaker.seen(ANSWERS[Verdict.SENT], HOLD, 103.0)
    assert breaker.allows(103.0, 8) == 8


def test_breaker_pause_is_bounded_and_a_final_no_is_an_answer() -> None:
    breaker = Breaker()
    for n in range(100):
        breaker = breaker.seen(ANSWERS[Verdict.REFUSED], HOLD, 1000.0 * n)
    assert breaker.until_s - 99_000.0 <= 60.0
    assert breaker.seen(Answer.refused("http_400", final=True), HOLD, 1e6) == Breaker()
    never = to(break_after=0)
    for _ in range(50):
        breaker = Breaker().seen(ANSWERS[Verdict.NOT_SENT], never, 1.0)
    assert breaker.allows(1.0, 8) == 8


# Registration


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"contract": TEN_MINUTES, "retry_for": timedelta(minutes=30)}, "outlives_key=True"),
        ({"contract": Contract(key_life=timedelta(seconds=62))}, None),
        (
            {"contract": Contract(key_life=timedelta(seconds=65)), "timeout": timedelta(minutes=2)},
            "timeout",
        ),
        ({"timeout": timedelta(seconds=9), "lease": timedelta(seconds=9)}, "lease"),
        ({"concurrency": 0}, "concurrency"),
        ({"retry_for": timedelta(0)}, "retry_for"),
        ({"backoff_min": timedelta(hours=1)}, "backoff_min"),
    ],
)
def test_settings_that_contradict_each_other_are_refused(
    settings: dict[str, Any], said: str | None
) -> None:
    """Above all a retry that outlives the receiver's memory of the id (M02)."""
    if said is None:
        assert to(**settings).tried_for <= timedelta(seconds=62)
        return
    with pytest.raises(DestinationInvalid, match=said) as caught:
        to(**settings)
    assert "\n" not in str(caught.value)


def test_retries_last_as_long_as_the_key_where_nothing_else_is_said() -> None:
    """M02: 72 hours of retries against a key of a day are not what one gets by default."""
    assert to(contract=Contract.stripe_like()).tried_for == timedelta(hours=23, minutes=30)
    assert to().tried_for == timedelta(days=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"ambiguous": "maybe"},
        {"key_form": "x"},
        {"key_life": timedelta(1), "margin": timedelta(2)},
        {"key_max": 35},
    ],
)
def test_contract_that_makes_no_sense_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DestinationInvalid):
        Contract(**settings)


# Ids


def test_id_is_a_uuid_of_version_8_and_never_changes() -> None:
    """A release that minted others would make every receiver do everything again."""
    at = datetime(2026, 9, 13, tzinfo=UTC)
    found = message_id(Occurrence("bill", at), "pay", None, None, 1)
    assert str(found) == "7af7a7c1-10bf-8841-ac07-e614cfd10296"
    assert (found.version, found.variant) == (8, "specified in RFC 4122")


def test_ids_of_different_messages_differ_whatever_the_parts_look_like() -> None:
    """Parts are length-prefixed: no two ways to cut one text give one id."""
    at = datetime(2026, 9, 13, tzinfo=UTC)
    occurrences = [
        Occurrence("a", at),
        Occurrence("ab", at),
        Occurrence("a", at, "b"),
        Occurrence("a", at, "", 2),
    ]
    found = {
        message_id(occurrence, destination, name, key, generation)
        for occurrence in occurrences
        for destination in ("p", "pa")
        for name, key in ((None, None), ("x", None), (None, "x"), ("name", None), ("ax", None))
        for generation in (1, 2)
    }
    assert len(found) == len(occurrences) * 2 * 5 * 2
