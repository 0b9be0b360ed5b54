"""What must be shown to hold of effects beyond the database, line by line, and the tests that do.

Each line is a kill or a race on each database; `test_shown.py` sees that its tests exist.
"""

from __future__ import annotations

from typing import Final

RECEIVE = "tests/inbox/test_receive.py::"
CALLER = "tests/inbox/test_caller.py::"
HTTP = "tests/http/test_middleware.py::"
EXAMPLES = "tests/http/test_examples.py::"

SHOWN: Final[dict[str, tuple[str, ...]]] = {
    "50 starters, some rolling back: one effect": (
        RECEIVE + "test_fifty_deliveries_at_once_some_of_which_fail_make_one_effect",
    ),
    "a consumer killed at every boundary": (
        "tests/inbox/test_killed.py::test_consumer_killed_at_a_boundary_makes_one_effect",
    ),
    "COMMIT applied and connection cut": (
        RECEIVE + "test_commit_whose_answer_is_lost_is_settled_by_claiming_again",
        HTTP + "test_commit_whose_answer_was_lost_is_a_success_that_is_there",
    ),
    "same id with another body": (
        RECEIVE + "test_same_id_with_another_body_is_parked_with_both_hashes",
        CALLER + "test_other_body_is_parked_if_the_caller_commits",
    ),
    "same id to two consumers: both once": (
        RECEIVE + "test_same_id_to_two_consumers_is_handled_once_by_each",
    ),
    "20 equal concurrent HTTP requests: one effect, one 2xx, the rest 409 or the same replay": (
        HTTP + "test_twenty_equal_requests_at_once_make_one_effect",
        HTTP + "test_twenty_equal_requests_that_do_not_wait_make_one_effect",
        EXAMPLES + "test_example_pays_once_for_a_key",
    ),
    "commit fails after the handler succeeded: no 2xx seen": (
        HTTP + "test_m10_commit_that_fails_after_the_handler_shows_the_client_no_2xx",
        HTTP + "test_m10_commit_that_the_database_refuses_shows_the_client_no_2xx",
        EXAMPLES + "test_m10_example_shows_no_success_that_is_found_impossible_late",
    ),
    "other tenant, path, JSON key order, multipart boundary": (
        HTTP + "test_m09_answer_of_one_user_is_never_given_to_another",
        HTTP + "test_same_key_with_another_path_query_method_or_media_type_is_refused",
        HTTP + "test_json_in_another_key_order_is_the_same_request",
        HTTP + "test_multipart_with_another_boundary_is_the_same_request",
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
