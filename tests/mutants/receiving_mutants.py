"""Each rule of the receiver's side, taken out; and the test that must notice."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

RECEIVE = "tests/inbox/test_receive.py::"
CALLER = "tests/inbox/test_caller.py::"
HTTP = "tests/http/test_middleware.py::"

RECEIVING_MUTANTS = [
    Mutant(
        name="other-body-is-a-duplicate",
        rule="An id with another body is parked, not acknowledged.",
        file="_core/inbox.py",
        old="        return Parked.CONFLICT\n",
        new="        return None\n",
        killer=RECEIVE + "test_same_id_with_another_body_is_parked_with_both_hashes[sqlite]",
    ),
    Mutant(
        name="message-below-the-horizon-is-new",
        rule="A message at or below the horizon is parked, never taken as new.",
        file="_sync/receiving.py",
        old="    return None if not rows or rows[0][0] is None else int(rows[0][0])\n",
        new="    return None\n",
        killer=RECEIVE
        + "test_message_older_than_the_horizon_is_parked_and_never_taken_as_new[sqlite]",
    ),
    Mutant(
        name="own-commit-taken-for-a-free-key",
        rule="A row that was met is not a row that was inserted, also if it is one's own.",
        file="_db/sql/inbox_postgresql.sql",
        old="RETURNING CASE WHEN COALESCE(last_us, 0) = 0 THEN {now} END,\n"
        "          set_config('lock_timeout', :handler_wait_ms, true)\n\n-- name: inbox_claim_in",
        new="RETURNING CASE WHEN receipt_id = :receipt_id THEN {now} END,\n"
        "          set_config('lock_timeout', :handler_wait_ms, true)\n\n-- name: inbox_claim_in",
        killer=RECEIVE
        + "test_commit_whose_answer_is_lost_is_settled_by_claiming_again[postgresql-raise]",
    ),
    Mutant(
        name="time-of-a-delivery-is-the-messages",
        rule="A time that differs between two deliveries is none: no prune may go by it.",
        file="_db/sql/inbox.sql",
        old="    sent_us = CASE WHEN i.sent_us = excluded.sent_us THEN i.sent_us END\n",
        new="    sent_us = i.sent_us\n",
        killer=RECEIVE
        + "test_message_whose_time_changes_between_deliveries_is_never_pruned[sqlite]",
    ),
    Mutant(
        name="released-for-ever",
        rule="A released message is taken once.",
        file="_db/sql/inbox.sql",
        old="SET state = 'taken', receipt_id",
        new="SET receipt_id",
        killer=RECEIVE + "test_message_that_is_released_is_handled_once[sqlite]",
    ),
    Mutant(
        name="expired-key-is-replayed",
        rule="A key whose answer has expired is refused.",
        file="_db/keys.py",
        old="        is_over = handled_us is not None and (body is None or"
        " expires_us <= session.clock_us())\n",
        new="        is_over = handled_us is not None and body is None\n",
        killer=HTTP + "test_m09_expired_key_is_refused_and_never_run_again[sqlite-wsgi]",
    ),
    Mutant(
        name="every-key-in-one-scope",
        rule="A key is its tenant's.",
        file="_db/keys.py",
        old='            "scope": asked.scope,\n',
        new='            "scope": asked.scope.partition("/")[0],\n',
        killer=HTTP + "test_m09_answer_of_one_user_is_never_given_to_another[sqlite-wsgi]",
    ),
    Mutant(
        name="failed-answer-is-kept",
        rule="What an application that failed has done is rolled back.",
        file="contrib/http.py",
        old="            raise NotKept(answer)\n",
        new="            pass\n",
        killer=HTTP
        + "test_answer_of_a_server_error_is_rolled_back_and_the_request_is_made_again[sqlite-wsgi]",
    ),
    Mutant(
        name="session-is-replayed",
        rule="A replay sets no cookie.",
        file="_core/idempotency.py",
        old='        "set-cookie", "date"',
        new='        "date"',
        killer=HTTP + "test_replay_leaves_out_what_belongs_to_the_first_answer_alone[sqlite-wsgi]",
    ),
    Mutant(
        name="path-is-no-part-of-a-request",
        rule="The same key on another path is another request.",
        file="_core/idempotency.py",
        old='        path.encode("utf-8", "surrogatepass"),\n',
        new="",
        killer=HTTP
        + "test_same_key_with_another_path_query_method_or_media_type_is_refused[sqlite-wsgi]",
    ),
]
