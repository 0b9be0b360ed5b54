"""Each rule of pruning, taken out; and the test that must notice."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

AGAINST = "tests/races/test_prune_against_attempt.py::"
BOUNDS = "tests/races/test_prune_bounds.py::"

PRUNE_MUTANTS = [
    # ------------------------------------------------------------------ a prune and an attempt
    Mutant(
        name="horizon-read-without-the-guard",
        rule="An attempt that needs the horizon locks the guard first.",
        file="_core/protocol.py",
        old="    yield LockGuard()\n    horizon_us: int | None = yield ReadHorizon()\n",
        new="    horizon_us: int | None = yield ReadHorizon()\n",
        killer=AGAINST + "test_prune_held_between_two_statements_while_an_attempt_passes"
        "[postgresql-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="horizon-read-without-the-guard-by-a-caller",
        rule="MariaDB: a horizon that is not there yet cannot be locked; the guard can.",
        file="_core/protocol.py",
        old="    yield LockGuard()\n    horizon_us: int | None = yield ReadHorizon()\n",
        new="    horizon_us: int | None = yield ReadHorizon()\n",
        killer=AGAINST + "test_caller_held_between_two_statements_while_a_prune_passes"
        "[mariadb-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="horizon-read-before-the-guard",
        rule="The horizon is read in a statement after the guard was locked.",
        file="_core/protocol.py",
        old="    yield LockGuard()\n    horizon_us: int | None = yield ReadHorizon()\n",
        new="    horizon_us: int | None = yield ReadHorizon()\n    yield LockGuard()\n",
        killer=AGAINST + "test_prune_held_between_two_statements_while_an_attempt_passes"
        "[postgresql-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="guard-touched-by-no-prune",
        rule="A prune updates the guard row first.",
        file="_core/retention.py",
        old="            yield TouchGuard()\n",
        new="",
        killer=AGAINST + "test_prune_held_between_two_statements_while_an_attempt_passes"
        "[postgresql-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="guard-touched-by-no-prune-on-mariadb",
        rule="A prune updates the guard row first, so that an attempt meets it.",
        file="_core/retention.py",
        old="            yield TouchGuard()\n",
        new="",
        killer=AGAINST + "test_attempt_held_between_two_statements_while_a_prune_passes"
        "[mariadb-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="guard-without-for-share",
        rule="PostgreSQL: the guard is locked, not read.",
        file="_db/sql/postgresql.sql",
        old="WHERE g.id = 1\nFOR SHARE OF g\n",
        new="WHERE g.id = 1\n",
        killer=AGAINST
        + "test_caller_whose_snapshot_is_older_than_a_whole_prune[postgresql-never-pruned-"
        "REPEATABLE READ]",
    ),
    Mutant(
        name="guard-locked-for-key-share-only",
        rule="PostgreSQL: FOR SHARE, because FOR KEY SHARE does not meet an update.",
        file="_db/sql/postgresql.sql",
        old="FOR SHARE OF g\n",
        new="FOR KEY SHARE OF g\n",
        killer=AGAINST + "test_prune_held_between_two_statements_while_an_attempt_passes"
        "[postgresql-pruned-before-READ COMMITTED]",
    ),
    Mutant(
        name="guard-read-plainly-on-mariadb",
        rule="MariaDB: the guard is locked in share mode.",
        file="_db/sql/mariadb.sql",
        old="SELECT id FROM duly_guard WHERE id = 1 LOCK IN SHARE MODE\n",
        new="SELECT id FROM duly_guard WHERE id = 1\n",
        killer=AGAINST + "test_attempt_held_between_two_statements_while_a_prune_passes"
        "[mariadb-never-pruned-READ COMMITTED]",
    ),
    Mutant(
        name="horizon-read-plainly-on-mariadb",
        rule="MariaDB: the horizon is read by a locking read, past an older snapshot.",
        file="_db/sql/mariadb.sql",
        old="SELECT horizon_us FROM duly_job WHERE name = :job LOCK IN SHARE MODE\n",
        new="SELECT horizon_us FROM duly_job WHERE name = :job\n",
        killer=AGAINST + "test_caller_whose_snapshot_is_older_than_a_whole_prune"
        "[mariadb-never-pruned-REPEATABLE READ]",
    ),
    Mutant(
        name="absent-guard-tolerated",
        rule="Without its guard row a ledger is refused.",
        file="_db/sessions/base.py",
        old='        rows = self.run("lock_guard", self.bounds(wait))\n'
        "        if not rows:\n"
        "            raise guard_missing()\n",
        new='        self.run("lock_guard", self.bounds(wait))\n',
        killer=BOUNDS + "test_ledger_without_its_guard_row_is_refused[mariadb]",
    ),
    Mutant(
        name="age-by-the-host-clock-only",
        rule="The database's clock, read with the claim, says whether the guard is needed.",
        file="_core/protocol.py",
        old="    if not guarded and _is_old(request, claimed):\n",
        new="    if False:\n",
        killer=BOUNDS + "test_database_clock_finds_an_old_key_that_the_host_takes_for_young"
        "[postgresql-READ COMMITTED]",
    ),
    Mutant(
        name="age-by-the-host-clock-only-in-a-callers-transaction",
        rule="The same for duly.claim.",
        file="_core/protocol.py",
        old="    if claimed.inserted and not guarded and _is_old(request, claimed):\n",
        new="    if False:\n",
        killer=BOUNDS + "test_database_clock_finds_an_old_key_that_the_host_takes_for_young"
        "[mariadb-READ COMMITTED]",
    ),
    Mutant(
        name="age-computed-before-the-wait",
        rule="PostgreSQL: clock_timestamp(), because now() is the transaction's start.",
        file="_db/dialects.py",
        old="EXTRACT(EPOCH FROM clock_timestamp())",
        new="EXTRACT(EPOCH FROM now())",
        killer=BOUNDS
        + "test_attempt_that_grew_old_while_it_waited_takes_the_guard[postgresql-own]",
    ),
    Mutant(
        name="age-by-a-clock-that-a-session-can-set",
        rule="MariaDB: SYSDATE, because NOW obeys SET timestamp.",
        file="_db/dialects.py",
        old="UNIX_TIMESTAMP(SYSDATE(6))",
        new="UNIX_TIMESTAMP(NOW(6))",
        killer=BOUNDS + "test_caller_who_set_the_session_clock_back_does_not_revive_a_pruned_key"
        "[mariadb]",
    ),
    # ----------------------------------------------------------------------- how far it may go
    Mutant(
        name="floor-ignored",
        rule="No prune passes the floor.",
        file="_core/retention.py",
        old="    if bound_us > limit_us:\n",
        new="    if False:\n",
        killer=BOUNDS
        + "test_prune_past_the_floor_is_refused_whatever_the_flag[sqlite-1 day, 0:00:00-False]",
    ),
    Mutant(
        name="floor-passed-by-a-flag",
        rule="No flag passes the floor.",
        file="_core/retention.py",
        old="    if bound_us > limit_us:\n",
        new="    if bound_us > limit_us and not clock_is_right:\n",
        killer=BOUNDS
        + "test_prune_past_the_floor_is_refused_whatever_the_flag[sqlite-1 day, 0:00:00-True]",
    ),
    Mutant(
        name="clock-ahead-trusted",
        rule="A clock far past the newest record is not trusted.",
        file="_core/retention.py",
        old="    if facts.clock_us - facts.newest_us > FLOOR_US and not clock_is_right:\n",
        new="    if False:\n",
        killer=BOUNDS
        + "test_prune_by_a_clock_far_ahead_is_refused_until_a_person_vouches_for_it[sqlite]",
    ),
    Mutant(
        name="floor-by-the-clock-only",
        rule="The newest record bounds a prune as the clock does.",
        file="_core/retention.py",
        old="min(facts.clock_us, facts.newest_us)",
        new="facts.clock_us",
        killer=BOUNDS
        + "test_prune_by_a_clock_far_ahead_is_refused_until_a_person_vouches_for_it[sqlite]",
    ),
    Mutant(
        name="prune-passes-what-is-held",
        rule="No prune passes a torn or running occurrence.",
        file="_core/retention.py",
        old="        horizon_us = bound_us if held is None else held.nominal_us - 1\n",
        new="        horizon_us = bound_us\n",
        killer=BOUNDS + "test_prune_does_not_pass_a_torn_occurrence[sqlite]",
    ),
    Mutant(
        name="prune-passes-what-is-missing",
        rule="No prune passes a missing occurrence.",
        file="_sync/prune.py",
        old="        *_missing(session, op),\n",
        new="",
        killer="tests/contract/test_prune.py::test_prune_does_not_pass_a_missing_occurrence[sqlite]",
    ),
    Mutant(
        name="horizon-lowered",
        rule="A horizon is never lowered.",
        file="_db/sql/common.sql",
        old="\nWHERE j.horizon_us IS NULL OR j.horizon_us < excluded.horizon_us\n",
        new="\n",
        killer=BOUNDS + "test_prune_whose_horizon_was_raised_meanwhile_does_not_lower_it[sqlite]",
    ),
    Mutant(
        name="prune-at-repeatable-read",
        rule="MariaDB: a prune runs at READ COMMITTED, so that no gap lock meets today's claims.",
        file="_db/sessions/pymysql_driver.py",
        old='        self._plain("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")\n',
        new="",
        killer=BOUNDS + "test_claims_of_today_pass_a_prune_under_way[mariadb-after DeleteBatch]",
    ),
]
