"""Which test shows each promise about effects beyond the database; and that there is one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
SENDING = "outbox/test_sending.py"
FAULTS = "outbox/test_faults.py"

# What must be shown to hold -> where it is.
HOLDS = {
    "50 starters, some rolling back: one effect": (
        SENDING,
        "test_fifty_starters_some_rolling_back_send_one_message",
    ),
    "kill at every boundary x honours, forgets, ignores": (
        FAULTS,
        "test_relay_killed_at_an_op_makes_no_second_effect_and_loses_nothing",
    ),
    "key life 10 min against an outage of 30": (
        FAULTS,
        "test_key_life_of_ten_minutes_against_an_outage_of_thirty",
    ),
    "COMMIT applied and connection cut": (
        FAULTS,
        "test_connection_cut_at_an_op_is_settled_by_asking_the_rows",
    ),
    "two relays, lease shorter than the send": (
        FAULTS,
        "test_two_relays_and_a_lease_shorter_than_the_send_keep_the_late_one_as_evidence",
    ),
    "same id with another body": (
        SENDING,
        "test_same_id_with_another_body_is_a_conflict_that_names_the_usual_cause",
    ),
    "ordering under parallel producers": (
        "outbox/test_ordering.py",
        "test_order_under_parallel_producers_is_the_order_of_commits",
    ),
    "ordering and a dead head": (
        "outbox/test_ordering.py",
        "test_dead_head_blocks_its_key_unless_it_is_told_to_skip",
    ),
    "database restored: the same ids on the wire": (
        SENDING,
        "test_database_restored_to_before_sends_the_same_ids",
    ),
    "many sent rows: claim unchanged, no scan": (
        "outbox/test_scale.py",
        "test_claim_after_many_sent_messages_reads_open_ones_by_their_index",
    ),
}

# The numbers of the list of effects -> the file whose test names it. Those of receivers are named
# in tests of the inbox and of the middleware.
NUMBERS = {
    "M01": FAULTS,
    "M02": FAULTS,
    "M03": SENDING,
    "M04": FAULTS,
    "M05": SENDING,
    "M06": FAULTS,
    "M07": SENDING,
    "M08": SENDING,
    "M11": "outbox/test_operators.py",
    "M12": "outbox/test_http.py",
    "M13": SENDING,
}


@pytest.mark.parametrize("promise", HOLDS)
def test_promise_has_its_test(promise: str) -> None:
    file, name = HOLDS[promise]
    text = (ROOT / file).read_text("utf-8")
    (found,) = re.findall(rf"^def {name}\(\s*(.*?)\) -> None:", text, re.MULTILINE | re.DOTALL)
    assert "desk" in found, "on the three databases"


@pytest.mark.parametrize("number", NUMBERS)
def test_number_of_the_list_is_named_by_a_test(number: str) -> None:
    assert number in (ROOT / NUMBERS[number]).read_text("utf-8")
