"""What must be shown to hold of effects beyond the database, line by line, and the tests that do.

Each line is a kill or a race on each database; `tidy/test_shown.py` sees that its tests are run on
each.
"""

from __future__ import annotations

from typing import Final

RECEIVE = "tests/inbox/test_receive.py::"
CALLER = "tests/inbox/test_caller.py::"
HTTP = "tests/http/test_middleware.py::"
KILLED = "tests/inbox/test_killed.py::"
PRUNED = "tests/inbox/test_prune_against_receive.py::"
EXAMPLES = "tests/http/test_examples.py::"
SENDING = "tests/outbox/test_sending.py::"
FAULTS = "tests/outbox/test_faults.py::"
ORDERING = "tests/outbox/test_ordering.py::"
OPERATORS = "tests/outbox/test_operators.py::"
SCALE = "tests/outbox/test_scale.py::"
REQUESTS = "tests/outbox/test_http.py::"

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "50 starters, some rolling back: one effect": (
        SENDING + "test_fifty_starters_some_rolling_back_send_one_message",
        RECEIVE + "test_fifty_deliveries_at_once_some_of_which_fail_make_one_effect",
    ),
    "kill at every boundary of sending x a provider that honours, forgets or ignores keys": (
        FAULTS + "test_relay_killed_at_an_op_makes_no_second_effect_and_loses_nothing",
    ),
    "a consumer killed at every boundary": (
        KILLED + "test_consumer_killed_at_a_boundary_makes_one_effect",
    ),
    "a prune of the inbox, and a person's release, killed between any two ops": (
        KILLED + "test_prune_of_the_inbox_killed_between_two_ops_leaves_whole_batches",
        KILLED + "test_release_killed_at_a_place_is_whole_or_was_never_made",
    ),
    "a prune of the inbox against a late delivery, in every order": (
        PRUNED + "test_delivery_held_between_two_statements_while_a_prune_passes",
        PRUNED + "test_prune_held_between_two_statements_while_a_delivery_passes",
    ),
    "key life 10 min against an outage of 30: no send after the life, then uncertain": (
        FAULTS + "test_m02_key_life_of_ten_minutes_against_an_outage_of_thirty",
    ),
    "a server killed at every boundary of a request under an idempotency key": (
        "tests/http/test_killed.py::test_server_killed_at_a_boundary_of_a_request_makes_one_effect",
    ),
    "COMMIT applied and connection cut": (
        FAULTS + "test_connection_cut_at_an_op_is_settled_by_asking_the_rows",
        RECEIVE + "test_commit_whose_answer_is_lost_is_settled_by_claiming_again",
        HTTP + "test_commit_whose_answer_was_lost_is_a_success_that_is_there",
    ),
    "two relays, lease shorter than the send: one sent, the late one kept as evidence": (
        FAULTS + "test_two_relays_and_a_lease_shorter_than_the_send_keep_the_late_one_as_evidence",
    ),
    "same id with another body": (
        SENDING + "test_same_id_with_another_body_is_a_conflict_that_names_the_usual_cause",
        RECEIVE + "test_same_id_with_another_body_is_parked_with_both_hashes",
        CALLER + "test_other_body_is_parked_if_the_caller_commits",
    ),
    "same id to two consumers: both once": (
        RECEIVE + "test_same_id_to_two_consumers_is_handled_once_by_each",
    ),
    "ordering under parallel producers and a dead head": (
        ORDERING + "test_order_under_parallel_producers_is_the_order_of_commits",
        ORDERING + "test_dead_head_blocks_its_key_unless_it_is_told_to_skip",
    ),
    "20 equal concurrent HTTP requests: one effect, one 2xx, the rest 409 or the same replay": (
        HTTP + "test_twenty_equal_requests_at_once_make_one_effect",
        HTTP + "test_twenty_equal_requests_that_do_not_wait_make_one_effect",
        EXAMPLES + "test_example_pays_once_for_a_key",
    ),
    "commit fails after the handler succeeded: no 2xx seen": (
        HTTP + "test_m10_commit_that_fails_after_the_handler_shows_the_client_no_2xx",
        HTTP + "test_m10_commit_that_the_database_refuses_shows_the_client_no_2xx",
        HTTP + "test_m10_connection_cut_before_the_commit_shows_a_success_only_if_it_is_there",
        EXAMPLES + "test_m10_example_shows_no_success_that_is_found_impossible_late",
    ),
    "other tenant, path, JSON key order, multipart boundary": (
        HTTP + "test_m09_answer_of_one_user_is_never_given_to_another",
        HTTP + "test_same_key_with_another_path_query_method_or_media_type_is_refused",
        HTTP + "test_json_in_another_key_order_is_the_same_request",
        HTTP + "test_multipart_with_another_boundary_is_the_same_request",
    ),
    "database restored to an hour ago: the same ids on the wire": (
        SENDING + "test_m01_database_restored_to_before_sends_the_same_ids",
    ),
    "a million sent rows: claim speed unchanged, no sequential scan": (
        SCALE + "test_claim_after_many_sent_messages_reads_open_ones_by_their_index",
    ),
    "older than the inbox horizon: parked, never taken as new": (
        RECEIVE + "test_message_older_than_the_horizon_is_parked_and_never_taken_as_new",
        CALLER + "test_message_below_the_horizon_is_parked_in_a_callers_transaction",
    ),
    "expired but remembered: refused, never re-run (M09)": (
        HTTP + "test_m09_expired_key_is_refused_and_never_run_again",
        HTTP + "test_m09_tombstone_of_a_key_outlives_its_answer",
    ),
    "resend after the broker's window: the inbox refuses it (M14)": (
        RECEIVE + "test_m14_message_redelivered_after_the_senders_window_is_refused_by_the_inbox",
    ),
}

NUMBERS: Final[dict[str, tuple[str, ...]]] = {
    "M01": (
        SENDING + "test_m01_database_restored_to_before_sends_the_same_ids",
        FAULTS + "test_m02_key_life_of_ten_minutes_against_an_outage_of_thirty",
    ),
    "M02": (FAULTS + "test_m02_key_life_of_ten_minutes_against_an_outage_of_thirty",),
    "M03": (SENDING + "test_m03_four_relays_send_each_of_many_messages_once",),
    "M04": (FAULTS + "test_m04_peer_accepted_and_the_finish_failed_is_a_doubt_with_its_evidence",),
    "M05": (SENDING + "test_m05_relay_claims_no_more_than_it_has_senders",),
    "M06": (FAULTS + "test_m06_outage_of_half_an_hour_uses_no_message_up",),
    "M07": (SENDING + "test_m07_old_message_is_sent_and_no_prune_passes_one_that_is_not",),
    "M08": (SENDING + "test_m08_messages_that_parallel_producers_commit_are_all_sent",),
    "M09": (
        HTTP + "test_m09_answer_of_one_user_is_never_given_to_another",
        HTTP + "test_m09_expired_key_is_refused_and_never_run_again",
    ),
    "M10": (HTTP + "test_m10_commit_that_fails_after_the_handler_shows_the_client_no_2xx",),
    "M11": (OPERATORS + "test_m11_redrive_sends_again_under_the_same_id",),
    "M12": (REQUESTS + "test_m12_key_on_the_wire_is_the_messages_own_on_every_send",),
    "M13": (SENDING + "test_m13_equal_bodies_under_two_names_are_two_messages",),
    "M14": (
        RECEIVE + "test_m14_message_redelivered_after_the_senders_window_is_refused_by_the_inbox",
    ),
}
"""What went wrong elsewhere, by the number of its case: the tests of the right answer."""
