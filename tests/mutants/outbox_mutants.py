"""Each rule of messages, taken out; and the test that must notice."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

CORE = "tests/core/test_sending.py::"
SENDING = "tests/outbox/test_sending.py::"
FAULTS = "tests/outbox/test_faults.py::"
ACCEPTED = (
    FAULTS + "test_m04_peer_accepted_and_the_finish_failed_is_a_doubt_with_its_evidence[sqlite]"
)
LINE = "tests/outbox/test_line.py::"
LATE = "tests/contract/test_claim_send.py::"
LATER = LATE + "test_send_in_a_later_transaction_is_refused"

OUTBOX_MUTANTS = [
    Mutant(
        name="send-in-any-transaction-postgresql",
        rule="A message is of the transaction that claimed its occurrence.",
        file="_db/sql/postgresql.sql",
        old="  AND pg_current_xact_id_if_assigned()::text = :transaction\n",
        new="",
        killer=LATER + "[postgresql-claim-driver]",
    ),
    Mutant(
        name="send-in-any-transaction-sqlite",
        rule="What others see of SQLite's file is committed.",
        file="_db/sessions/sqlite_driver.py",
        old="        return not self._is_committed(key)\n",
        new="        return True\n",
        killer=LATER + "[sqlite-claim-driver]",
    ),
    Mutant(
        name="send-in-any-transaction-mariadb",
        rule="Nothing is kept of a transaction after its end.",
        file="_db/sessions/claimed.py",
        old="        if not is_in_transaction(driver) or _commits(sql):\n",
        new="        if False:\n",
        killer=LATER + "[mariadb-claim-driver]",
    ),
    Mutant(
        name="send-after-commit-and-chain",
        rule="A transaction that is open is not always the one that was.",
        file="_db/sessions/claimed.py",
        old="        if not is_in_transaction(driver) or _commits(sql):\n",
        new="        if not is_in_transaction(driver):\n",
        killer=LATE
        + "test_send_after_an_end_that_only_the_server_was_told_of_is_refused"
        + "[mariadb-COMMIT AND CHAIN]",
    ),
    Mutant(
        name="send-for-a-claim-that-was-taken-back",
        rule="A claim that a savepoint took back is not in the transaction.",
        file="_db/sessions/pymysql_driver.py",
        old='        return claim is not None and bool(self.run("confirm", claim))\n',
        new="        return claim is not None\n",
        killer=LATE
        + "test_send_after_its_claim_was_taken_back_to_a_savepoint_is_refused"
        + "[mariadb-claim-driver]",
    ),
    Mutant(
        name="stop-of-a-statement-goes-through-the-hook-of-the-stopped",
        rule="What is kept of a claim is its connection's own.",
        file="_db/sessions/asyncmy_driver.py",
        old='    hooks = {*ENDS, "query", HOOK}\n',
        new='    hooks = {*ENDS, "query"}\n',
        killer="tests/aio/test_claim.py::"
        "test_claim_that_waits_beside_another_in_its_transaction_can_be_cancelled[mariadb]",
    ),
    Mutant(
        name="message-outlives-its-savepoint",
        rule="What is taken back to a savepoint takes its messages with it.",
        file="_sync/run.py",
        old="            self.staged.follow(statement)\n",
        new="            pass\n",
        killer=SENDING + "test_message_of_work_that_a_savepoint_took_back_is_never_sent",
    ),
    Mutant(
        name="message-is-sent-although-nothing-was-promised",
        rule="What may have arrived is sent again only by contract.",
        file="_core/sending.py",
        old="    return to.safe_for is not None and clock_us < doubt_us + to.safe_for // _US\n",
        new="    return to.safe_for is None or clock_us < doubt_us + to.safe_for // _US\n",
        killer=CORE + "test_verdict_and_contract_decide_the_state",
    ),
    Mutant(
        name="key-lives-for-ever",
        rule="No send is started after the receiver's memory of the id.",
        file="_core/sending.py",
        old="    return to.safe_for is not None and clock_us < doubt_us + to.safe_for // _US\n",
        new="    return to.safe_for is not None\n",
        killer=CORE + "test_no_send_is_started_after_the_receivers_memory",
    ),
    Mutant(
        name="key-life-counts-from-the-last-send",
        rule="The receiver's memory counts from the first send in doubt.",
        file="_core/sending.py",
        old="            doubt_us = row.tried_us if doubt_us is None else doubt_us\n"
        "            assert doubt_us is not None\n",
        new="            doubt_us = row.tried_us\n            assert doubt_us is not None\n",
        killer=FAULTS + "test_m02_key_life_of_ten_minutes_against_an_outage_of_thirty[sqlite]",
    ),
    Mutant(
        name="lease-that-ran-out-is-no-doubt",
        rule="A start that was written down, and not its end, is a doubt.",
        file="_core/sending.py",
        old="        doubt_us = row.tried_us if doubt_us is None else doubt_us\n"
        "        if row.started - row.finished",
        new="        if row.started - row.finished",
        killer=CORE + "test_lease_that_ran_out_is_a_doubt",
    ),
    Mutant(
        name="poison-is-tried-for-ever",
        rule="Three starts without an end are enough.",
        file="_core/sending.py",
        old="POISON: Final = 3\n",
        new="POISON: Final = 3_000\n",
        killer=CORE + "test_lease_that_ran_out_is_a_doubt",
    ),
    Mutant(
        name="final-no-forgets-the-doubt-before-it",
        rule="A later refusal says nothing about an earlier send.",
        file="_core/sending.py",
        old="            return _given_up(kind, said, to, doubt_us, clock_us)\n"
        "        case Verdict.AMBIGUOUS:",
        new="            return Move(MessageState.DEAD, kind, said, None, None)\n"
        "        case Verdict.AMBIGUOUS:",
        killer=CORE + "test_final_refusal_is_dead_and_with_a_doubt_before_it_uncertain",
    ),
    Mutant(
        name="age-gives-up-what-was-never-tried",
        rule="No age removes what was never tried.",
        file="_core/sending.py",
        old="    if row.started and clock_us >= row.since_us",
        new="    if clock_us >= row.since_us",
        killer=CORE + "test_deadline_gives_up_what_was_tried_and_never_what_was_not",
    ),
    Mutant(
        name="pause-sleeps-past-the-key",
        rule="A pause ends before the receiver's memory does.",
        file="_core/sending.py",
        old="    due_us = min(clock_us + pause_us, *_ends(row, to, doubt_us))\n",
        new="    due_us = clock_us + pause_us\n",
        killer=CORE + "test_pause_never_sleeps_past_the_end_of_the_receivers_memory",
    ),
    Mutant(
        name="stored-answer-is-asked-for-again",
        rule="An answer that the receiver keeps for the key is not asked for again.",
        file="_core/sending.py",
        old="            if answer.final or not _may_repeat(",
        new="            if not _may_repeat(",
        killer=CORE + "test_stored_answer_is_not_asked_for_again",
    ),
    Mutant(
        name="retries-may-outlive-the-key",
        rule="A retry that outlives the receiver's memory is refused at registration.",
        file="_core/destination.py",
        old="self.tried_for > safe_for and not self.outlives_key:\n",
        new="False:\n",
        killer=CORE + "test_settings_that_contradict_each_other_are_refused",
    ),
    Mutant(
        name="breaker-never-opens",
        rule="A receiver that fails is left alone.",
        file="_core/breaker.py",
        old="        return 0 if now_s < self.until_s else min(1, free)\n",
        new="        return free\n",
        killer=CORE + "test_breaker_opens_after_failures_in_a_row_and_lets_one_through",
    ),
    Mutant(
        name="id-without-lengths",
        rule="The parts of an id are length-prefixed.",
        file="_core/outbox.py",
        old='        digest.update(len(data).to_bytes(4, "big") + data)\n    raw',
        new="        digest.update(data)\n    raw",
        killer=CORE + "test_id_is_a_uuid_of_version_8_and_never_changes",
    ),
    Mutant(
        name="id-without-the-name",
        rule="Two messages of one occurrence are told apart by their names.",
        file="_core/outbox.py",
        old='    kind, value = ("key", key) if key is not None else ("name", name or "")\n',
        new='    kind, value = ("key", key) if key is not None else ("name", "")\n',
        killer=CORE + "test_ids_of_different_messages_differ_whatever_the_parts_look_like",
    ),
    Mutant(
        name="two-unnamed-messages",
        rule="An order of calls is not an identity.",
        file="_core/outbox.py",
        old="        if before is not None and draft.name is None and draft.key is None:\n",
        new="        if False:\n",
        killer=SENDING + "test_two_unnamed_messages_to_one_destination_are_refused[sqlite]",
    ),
    Mutant(
        name="headers-with-line-breaks",
        rule="No header can inject another.",
        file="_core/outbox.py",
        old="        if not isinstance(value, str) or _CONTROL.search(value)",
        new="        if not isinstance(value, str)",
        killer=SENDING + "test_message_that_cannot_be_sent_is_refused_where_it_is_sent",
    ),
    Mutant(
        name="conflict-is-passed-over",
        rule="The same id with another content is refused.",
        file="_db/messages.py",
        old="        if found and bytes(found[0][0]) != draft.fingerprint:\n",
        new="        if False:\n",
        killer=SENDING
        + "test_same_id_with_another_body_is_a_conflict_that_names_the_usual_cause[sqlite]",
    ),
    Mutant(
        name="message-committed-apart",
        rule="Messages are inserted in the transaction of their attempt.",
        file="_sync/handling.py",
        old="        enqueue(self._session, staged.in_order())\n",
        new="        with self._database.session() as other:\n"
        "            other.begin(1.0)\n"
        "            enqueue(other, staged.in_order())\n"
        "            other.commit(1.0)\n",
        killer=SENDING + "test_message_whose_attempt_cannot_commit_is_not_there[postgresql]",
    ),
    Mutant(
        name="write-ahead-is-left-out",
        rule="A start is written down and committed before the send.",
        file="_db/messages.py",
        old='    session.change_each("write_ahead", starts)\n',
        new="",
        killer=FAULTS
        + "test_m04_peer_accepted_and_the_finish_failed_is_a_doubt_with_its_evidence[sqlite]",
    ),
    Mutant(
        name="sent-before-the-write-ahead-is-committed",
        rule="Nothing is sent before its write-ahead was committed.",
        file="_core/delivery.py",
        old="        if not (yield Commit()):\n            return Taken(clock_us, (), 0)\n",
        new="        yield Rollback()\n",
        killer=FAULTS
        + "test_m04_peer_accepted_and_the_finish_failed_is_a_doubt_with_its_evidence[sqlite]",
    ),
    Mutant(
        name="finish-without-its-token",
        rule="Nobody's finish overwrites another's.",
        file="_db/sql/outbox.sql",
        old="WHERE id = :id AND token = :token AND state IN ('sending', 'uncertain')"
        " AND started = :number\n",
        new="WHERE id = :id\n",
        killer=FAULTS
        + "test_two_relays_and_a_lease_shorter_than_the_send_keep_the_late_one_as_evidence[sqlite]",
    ),
    Mutant(
        name="order-without-its-head",
        rule="Of an order only the first open message is taken.",
        file="_db/sql/outbox.sql",
        old="      AND e.open_seq < o.open_seq\n      AND (:skip = 0",
        new="      AND e.open_seq < o.open_seq AND 1 = 0\n      AND (:skip = 0",
        killer="tests/outbox/test_ordering.py::"
        "test_dead_head_blocks_its_key_unless_it_is_told_to_skip[sqlite-False]",
    ),
    Mutant(
        name="prune-passes-undelivered-messages",
        rule="A prune stops short of a message that is not delivered.",
        file="_sync/prune.py",
        old="        *_undelivered(session, op),\n",
        new="",
        killer=SENDING + "test_m07_old_message_is_sent_and_no_prune_passes_one_that_is_not[sqlite]",
    ),
    Mutant(
        name="rehearsal-is-kept",
        rule="What is only rehearsed is rolled back.",
        file="_sync/deciding.py",
        old="                if is_kept:\n",
        new="                if True:\n",
        killer="tests/outbox/test_operators.py::"
        "test_rehearsal_of_a_decision_says_what_it_meets_and_decides_nothing[sqlite-redrive]",
    ),
    Mutant(
        name="limit-cuts-in-silence",
        rule="A list that is cut says so.",
        file="_sync/outbox.py",
        old="len(rows) > limit\n",
        new="False\n",
        killer="tests/outbox/test_operators.py::test_page_says_whether_there_are_more[sqlite]",
    ),
    Mutant(
        name="cancellation-falls-between-claim-and-sends",
        rule="A cancelled relay starts nothing more, and ends what is under way.",
        file="_sync/delivering.py",
        old="        return _beside(relay, work) if self.database.is_async else work()\n",
        new="        return work()\n",
        killer="tests/outbox/test_aio.py::"
        "test_cancellation_during_a_claim_still_sends_what_was_claimed[sqlite]",
    ),
    Mutant(
        name="line-that-is-made-anew-looks-at-nothing",
        rule="What was committed while nobody listened is looked for when somebody does again.",
        file="_db/line.py",
        old="            self._call()  # of what was committed meanwhile nobody hears any more\n",
        new="",
        killer=LINE + "test_line_that_was_cut_is_made_anew_and_loses_no_message[listener]",
    ),
    Mutant(
        name="line-that-went-stale-tells-nobody",
        rule="A notice that met a connection of before a restart goes out on a new one.",
        file="_db/line.py",
        old="                    wire = _Wire(self._database)\n"
        "                    wire.execute(TELL)\n",
        new="                    raise\n",
        killer=LINE + "test_line_that_was_cut_is_made_anew_and_loses_no_message[teller]",
    ),
    Mutant(
        name="process-that-ends-forgets-to-tell",
        rule="A process that ends at once has told of what it committed.",
        file="_db/line.py",
        old="atexit.register(self.close)",
        new="pass",
        killer=LINE + "test_process_that_ends_at_once_has_told[sync]",
    ),
    Mutant(
        name="once-wakes-nobody",
        rule="A message that `duly.once` commits wakes the relay of its process.",
        file="_sync/once.py",
        old="        report = yield from driven\n"
        "        place.database.attempt_ended(applied=report.outcome is Outcome.APPLIED)\n",
        new="        report = yield from driven\n",
        killer=SENDING
        + "test_commit_of_a_message_rings_for_the_relays_of_the_process[sqlite-block]",
    ),
    Mutant(
        name="worker-under-aio-is-no-relay",
        rule="A worker delivers under `duly.aio` too.",
        file="_sync/delivering.py",
        old="        if not self._attempts.destinations:\n",
        new="        if not self._attempts.destinations or self.database.is_async:\n",
        killer="tests/outbox/test_aio.py::test_worker_of_an_async_app_is_a_relay_too[sqlite]",
    ),
]
