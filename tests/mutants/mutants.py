"""Each rule of exactly-once, taken out; and the test that must notice.

A rule whose mutant no test kills is a rule that anybody may lose without knowing.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One rule taken out of the source.

    Attributes:
        name: For people and for pytest.
        rule: What the source does, in words.
        file: Below `src/duly`.
        old: Text that occurs exactly once in it.
        new: What stands there in the mutant.
        killer: The test that must fail.
    """

    name: str
    rule: str
    file: str
    old: str
    new: str
    killer: str


KILLERS = "tests/mutants/test_killers.py::"
ONE_KEY = "tests/races/test_one_key.py::"

MUTANTS = [
    # ------------------------------------------------------------ one transaction, claimed first
    Mutant(
        name="effect-on-another-connection",
        rule="The effect is made in the transaction that holds the key.",
        file="_sync/handling.py",
        old="            lease.fairy,\n",
        new="            database.engine.raw_connection(),\n",
        killer=KILLERS + "test_nothing_is_committed_while_the_handler_works[postgresql]",
    ),
    Mutant(
        name="no-payload-is-any-payload",
        rule="A payload of null is the same however its row holds it.",
        file="_core/payload.py",
        old="    return bytes(found) if any(found) else _NULL.fingerprint\n",
        new="    return bytes(found)\n",
        killer="tests/contract/test_outcomes.py::test_payload_of_null_takes_no_room_in_the_ledger"
        "_and_is_compared_as_any_other[sqlite-app-url]",
    ),
    Mutant(
        name="claim-in-a-transaction-of-its-own",
        rule="The claim is not committed before the effect.",
        file="_sync/shell.py",
        old="        if claimed.clock_us:\n",
        new="        session.raw.commit()\n        if claimed.clock_us:\n",
        killer=KILLERS + "test_failed_handler_leaves_neither_effect_nor_key[sqlite-None]",
    ),
    Mutant(
        name="commit-before-the-handler",
        rule="Nothing is committed before the handler has returned.",
        file="_core/protocol.py",
        old="    handled: Returned | Raised = yield CallHandler()\n",
        new="    yield Commit()\n    handled: Returned | Raised = yield CallHandler()\n",
        killer=KILLERS + "test_nothing_is_committed_while_the_handler_works[mariadb]",
    ),
    Mutant(
        name="failed-attempt-keeps-the-key",
        rule="A failed attempt is rolled back, its key with it.",
        file="_core/protocol.py",
        old="        yield Rollback()\n"
        "        return (yield from failed(handled.error, handled.origin, lost=handled.lost))\n",
        new="        yield Commit()\n"
        "        return (yield from failed(handled.error, handled.origin, lost=handled.lost))\n",
        killer=KILLERS + "test_failed_handler_leaves_neither_effect_nor_key[sqlite-None]",
    ),
    Mutant(
        name="select-then-insert",
        rule="The unique key decides, never a reading before the insert.",
        file="_db/sql/postgresql.sql",
        old="FROM bound\nON CONFLICT DO NOTHING\nRETURNING {now}",
        new="FROM bound\nWHERE NOT EXISTS (SELECT 1 FROM duly_occurrence AS o WHERE o.job = :job\n"
        "  AND o.nominal_us = :nominal_us AND o.partition_key = :partition_key\n"
        "  AND o.correction = :correction)\nRETURNING {now}",
        killer=KILLERS
        + "test_rival_of_an_attempt_under_way_is_a_duplicate_and_no_error[postgresql]",
    ),
    Mutant(
        name="insert-ignore",
        rule="MariaDB: a plain INSERT whose 1062 is the answer.",
        file="_db/sql/mariadb.sql",
        old="FOR\nINSERT INTO duly_occurrence\n"
        "    (job, nominal_us, partition_key, correction, disposition, fingerprint,",
        new="FOR\nINSERT IGNORE INTO duly_occurrence\n"
        "    (job, nominal_us, partition_key, correction, disposition, fingerprint,",
        killer=KILLERS + "test_rival_of_an_attempt_under_way_is_a_duplicate_and_no_error[mariadb]",
    ),
    Mutant(
        name="begin-deferred",
        rule="SQLite: a transaction begins as a writer.",
        file="_db/sessions/sqlite_driver.py",
        old='self.raw.execute("BEGIN IMMEDIATE")',
        new='self.raw.execute("BEGIN")',
        killer=KILLERS + "test_attempt_on_sqlite_has_the_write_lock_from_its_beginning[sqlite]",
    ),
    Mutant(
        name="autocommit-postgresql",
        rule="An autocommit connection is taken out of that mode for the attempt.",
        file="_db/sessions/psycopg_driver.py",
        old="            self.raw.autocommit = False\n",
        new="",
        killer=KILLERS + "test_failed_handler_leaves_neither_effect_nor_key[postgresql-AUTOCOMMIT]",
    ),
    Mutant(
        name="autocommit-mariadb",
        rule="An autocommit connection is taken out of that mode for the attempt.",
        file="_db/sessions/pymysql_driver.py",
        old="            self.raw.autocommit(False)\n",
        new="",
        killer=KILLERS + "test_failed_handler_leaves_neither_effect_nor_key[mariadb-AUTOCOMMIT]",
    ),
    # ------------------------------------------------------------------------ seal and commit
    Mutant(
        name="no-seal",
        rule="The seal is the last statement before COMMIT.",
        file="_core/protocol.py",
        old="        if not (yield Seal()):\n",
        new="        if False:\n",
        killer=KILLERS + "test_nothing_is_committed_while_the_handler_works[mariadb]",
    ),
    Mutant(
        name="seal-row-count-ignored",
        rule="The seal's row count must be 1.",
        file="_db/sessions/base.py",
        old='return self.change("seal", row) == 1\n',
        new='return self.change("seal", row) >= 0\n',
        killer=KILLERS + "test_key_deleted_by_the_handler_inside_its_transaction_is_torn[sqlite]",
    ),
    Mutant(
        name="seal-row-count-ignored-on-mariadb",
        rule="MariaDB: where the seal finds no claim, the COMMIT behind it is not done.",
        file="_db/sql/mariadb.sql",
        old="IF ROW_COUNT() <> 1 THEN\n",
        new="IF ROW_COUNT() > 1 THEN\n",
        killer=KILLERS + "test_key_deleted_by_the_handler_inside_its_transaction_is_torn[mariadb]",
    ),
    Mutant(
        name="seal-sent-with-commit-finds-nothing",
        rule="PostgreSQL: where the seal finds no claim, the server skips the COMMIT behind it.",
        file="_db/sql/postgresql.sql",
        old="SELECT CASE count(*) WHEN 1 THEN 1 ELSE CAST('the claim",
        new="SELECT CASE WHEN count(*) < 2 THEN 1 ELSE CAST('the claim",
        killer=KILLERS + "test_rollback_by_the_handler_and_further_work_is_torn[postgresql]",
    ),
    Mutant(
        name="commit-tag-swallowed",
        rule="PostgreSQL: COMMIT is asked, not trusted.",
        file="_db/sessions/psycopg_driver.py",
        old="        if status != TransactionStatus.INTRANS:\n            return False\n",
        new="        if status != TransactionStatus.INTRANS:\n"
        '            self._cursor.execute("COMMIT")\n            return True\n',
        killer=KILLERS + "test_commit_of_an_aborted_transaction_is_no_commit[postgresql]",
    ),
    Mutant(
        name="deferred-foreign-key-dropped",
        rule="PostgreSQL: no COMMIT lands a key without its sealed attempt.",
        file="_db/migrations/versions/0001_ledger.postgresql.sql",
        old=",\n    CONSTRAINT fk_duly_occurrence_sealed\n"
        "        FOREIGN KEY"
        " (job, nominal_us, partition_key, correction, attempt_id, disposition)\n"
        "        REFERENCES duly_attempt"
        " (job, nominal_us, partition_key, correction, id, outcome)\n"
        "        DEFERRABLE INITIALLY DEFERRED\n",
        new="\n",
        killer=KILLERS + "test_commit_by_the_handler_lands_nothing[postgresql]",
    ),
    Mutant(
        name="authorizer-off",
        rule="SQLite: while a handler works, the end of the transaction is denied.",
        file="_db/sessions/sqlite_driver.py",
        old="self.raw.set_authorizer(self._authorize)",
        new="self.raw.set_authorizer(None)",
        killer=KILLERS + "test_commit_by_the_handler_lands_nothing[sqlite]",
    ),
    Mutant(
        name="kept-end-not-asked-again",
        rule="SQLite: the authorizer is asked again of an end that the driver kept prepared.",
        file="_db/sessions/sqlite_driver.py",
        old='            self._may_keep_an_end |= action in _FORBIDDEN and what != "BEGIN"\n',
        new="            pass\n",
        killer="tests/contract/test_handler.py::"
        "test_end_that_was_prepared_before_is_denied[sqlite-url]",
    ),
    Mutant(
        name="sentinel-off",
        rule="MariaDB: a lost savepoint means that the handler ended the transaction.",
        file="_db/sessions/pymysql_driver.py",
        old="            statements.insert(0, _RELEASE_SENTINEL)\n",
        new="            pass\n",
        killer=KILLERS + "test_commit_inside_a_block_on_mariadb_is_torn[mariadb]",
    ),
    Mutant(
        name="torn-row-not-held",
        rule="What a handler may have left behind holds its key until a person looked.",
        file="_sync/shell.py",
        old="        session.hold_torn(row)\n",
        new="",
        killer=KILLERS + "test_rollback_by_the_handler_and_further_work_is_torn[mariadb]",
    ),
    Mutant(
        name="unsealed-key-is-a-duplicate",
        rule="An applied row without its attempt is torn.",
        file="_core/protocol.py",
        old="if standing.disposition is Disposition.APPLIED and not standing.sealed:",
        new="if False:",
        killer=KILLERS + "test_key_without_its_attempt_is_torn_and_no_duplicate[sqlite]",
    ),
    Mutant(
        name="unknown-commit-reported-failed",
        rule="An unknown COMMIT is settled before anything is said about it.",
        file="_core/protocol.py",
        old="        report = yield from settle_unknown(request)\n",
        new="        report = yield from failed(fault.cause, ErrorOrigin.DATABASE)\n",
        killer=KILLERS + "test_commit_whose_answer_is_lost_is_applied[sqlite]",
    ),
    Mutant(
        name="unknown-commit-settled-by-select",
        rule="An unknown COMMIT is settled by claiming again, which waits for one in flight.",
        file="_core/protocol.py",
        old="            claimed: Claimed = yield Claim()\n"
        "            standing: Standing | None = None if claimed.inserted else (yield Explain())\n"
        "            yield Rollback()\n"
        "            if claimed.inserted:\n",
        new="            standing: Standing | None = yield Explain()\n"
        "            yield Rollback()\n"
        "            if standing is None:\n",
        killer=KILLERS + "test_commit_still_in_flight_is_waited_for[postgresql]",
    ),
    Mutant(
        name="lost-commit-taken-for-done",
        rule="An unknown COMMIT whose key is free did not happen.",
        file="_core/protocol.py",
        old="            if claimed.inserted:\n                return None\n",
        new="            if claimed.inserted:\n                return Report(Outcome.APPLIED)\n",
        killer=KILLERS + "test_commit_that_never_arrived_is_made_again[sqlite]",
    ),
    # ------------------------------------------------------------------------- keys, payloads
    Mutant(
        name="fingerprint-not-compared",
        rule="The same key with another payload is a conflict.",
        file="_core/protocol.py",
        old="    if standing.fingerprint != request.fingerprint:\n",
        new="    if False:\n",
        killer=KILLERS + "test_another_payload_is_a_conflict[sqlite]",
    ),
    Mutant(
        name="case-insensitive-keys",
        rule="MariaDB: key columns compare by code point, without padding.",
        file="_db/migrations/versions/0001_ledger.mariadb.sql",
        old="    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;",
        new="    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_general_ci;",
        killer=KILLERS + "test_partitions_that_look_alike_are_four_keys[mariadb]",
    ),
    Mutant(
        name="padded-keys",
        rule="MariaDB: `a` and `a ` are two keys, in utf8mb4_bin they are one.",
        file="_db/migrations/versions/0001_ledger.mariadb.sql",
        old="    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_nopad_bin;",
        new="    CONSTRAINT ck_duly_occurrence_correction CHECK (correction >= 1)\n"
        ") ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin;",
        killer=KILLERS + "test_partitions_that_look_alike_are_four_keys[mariadb]",
    ),
    # ---------------------------------------------------------------------- processes, sweeps
    Mutant(
        name="fork-check-removed",
        rule="A forked child drops its parent's connections before first use.",
        file="_db/connect.py",
        old="        if os.getpid() != self._pid:\n",
        new="        if False:\n",
        killer=ONE_KEY
        + "test_process_that_forks_after_use_leaves_each_child_its_own_connection[postgresql]",
    ),
    Mutant(
        name="sweep-ignores-the-key",
        rule="A death is proved by the key, not by a heartbeat or a host's name.",
        file="_sync/sweep.py",
        old="if runs_here(marker.process) or not session.key_is_released(_occurrence(marker)):",
        new="if runs_here(marker.process):",
        killer=KILLERS + "test_sweep_beside_a_live_attempt_leaves_it_alone[postgresql]",
    ),
]
