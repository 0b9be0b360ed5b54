"""Each rule about several keys, slots, what is expected and what is complete, taken out.

As `mutants.py`, whose rules are those of one attempt and of a prune.
"""

from __future__ import annotations

from tests.mutants.mutants import Mutant

COVER = "tests/races/test_cover.py::"
ENDED = "tests/races/test_cover_ended.py::"
TICKS = "tests/races/test_ticks.py::"
REGISTERING = "tests/races/test_registering.py::"
REVISION = "tests/core/test_revision.py::"
RENAMED = "tests/contract/test_renamed.py::"
UPGRADE = "tests/migration/test_upgrade.py::"

_CIRCLE = COVER + "test_covering_runs_of_two_ticks_wait_for_each_other_and_never_in_a_circle"
_LEFT = COVER + "test_covering_run_behind_a_manual_run_covers_what_is_left"
_CLAIMED_LATER = RENAMED + "test_claim_under_a_later_name_is_refused_and_changes_nothing"
_ONCE_LATER = RENAMED + "test_once_under_a_later_name_is_refused_and_changes_nothing"
_PRUNED = COVER + "test_period_that_was_run_and_pruned_after_the_plan_is_left_alone"
_DECIDED = REGISTERING + "test_revision_decided_before_a_tick_and_written_later_is_not_lost"
_BESIDE = REGISTERING + "test_revision_made_while_a_tick_runs_leaves_each_occurrence_one_effect"

_RUNS = "tests/contract/test_settled_runs.py::test_settled_runs_are_the_settled_rows_from_a_time_on"
_FREED = (
    "tests/contract/test_hold.py::"
    "test_occurrence_whose_held_command_failed_is_missing_although_a_tick_passed_it_by"
)
_THEN = (
    "        return (yield from then(request))\n"
    "    except (Contention, Lost) as fault:\n"
    "        if request.repeatable:\n"
    "            raise\n"
    "        yield Rollback()\n"
    "        return replace((yield from give_up(fault)), unrepeated=True)\n\n\n"
    "def _effect(request: Request) -> Ops:\n"
    "    handled: Returned | Raised = yield CallHandler()\n"
)

CATCH_UP_MUTANTS = [
    # --------------------------------------------------------------------------- several keys
    Mutant(
        name="cover-after-the-handler",
        rule="What a run covers is claimed before its handler, who is told of it.",
        file="_core/protocol.py",
        old="            yield Cover(horizon_us)\n" + _THEN,
        new="            pass\n" + _THEN + "    yield Cover(None)\n",
        killer=_LEFT + "[postgresql-applies]",
    ),
    Mutant(
        name="cover-oldest-first-on-postgresql",
        rule="Several keys are claimed from the newest to the oldest.",
        file="_db/sql/postgresql.sql",
        old="ORDER BY CAST(each.value AS BIGINT) DESC\n"
        "ON CONFLICT DO NOTHING\nRETURNING nominal_us",
        new="ORDER BY CAST(each.value AS BIGINT)\nON CONFLICT DO NOTHING\nRETURNING nominal_us",
        killer=_CIRCLE + "[postgresql]",
    ),
    Mutant(
        name="cover-oldest-first-on-mariadb",
        rule="Several keys are claimed from the newest to the oldest.",
        file="_db/sql/mariadb.sql",
        old="ORDER BY each_time.value DESC\n"
        "ON DUPLICATE KEY UPDATE duly_occurrence.job = duly_occurrence.job\n\n-- name: covered",
        new="ORDER BY each_time.value\n"
        "ON DUPLICATE KEY UPDATE duly_occurrence.job = duly_occurrence.job\n\n-- name: covered",
        killer=_CIRCLE + "[mariadb]",
    ),
    Mutant(
        name="cover-claimed-before-the-newest",
        rule="The newest is claimed first, by the run that covers the others.",
        file="_core/protocol.py",
        old="    claimed: Claimed = yield Claim(request.slots, by_key=request.by_key)\n",
        new="    if request.cover:\n"
        "        yield Cover(horizon_us)\n"
        "    claimed: Claimed = yield Claim(request.slots, by_key=request.by_key)\n",
        killer=_CIRCLE + "[postgresql]",
    ),
    Mutant(
        name="cover-without-on-conflict",
        rule="A period that was run by hand meanwhile is left out, and is no error.",
        file="_db/sql/postgresql.sql",
        old="DESC\nON CONFLICT DO NOTHING\nRETURNING nominal_us",
        new="DESC\nRETURNING nominal_us",
        killer=_LEFT + "[postgresql-applies]",
    ),
    Mutant(
        name="held-keys-counted-as-covered",
        rule="`covers` is what became ours.",
        file="_db/sessions/base.py",
        old='            ours += [int(row[0]) for row in self.run("cover", params)]\n',
        new='            self.run("cover", params)\n            ours += batch\n',
        killer=_LEFT + "[postgresql-applies]",
    ),
    Mutant(
        name="held-keys-counted-as-covered-on-mariadb",
        rule="`covers` is what became ours.",
        file="_db/sessions/pymysql_driver.py",
        old='        return [int(row[0]) for row in self.run("covered", claim)]\n',
        new="        return list(nominal_times)\n",
        killer=_LEFT + "[mariadb-applies]",
    ),
    Mutant(
        name="held-keys-counted-as-skipped-on-mariadb",
        rule="What a tick says that it skipped is what it settled.",
        file="_db/sessions/pymysql_driver.py",
        old="sum(int(row[0]) == clock_us for row in rows)",
        new="len(rows)",
        killer=COVER + "test_two_ticks_that_skip_the_same_settle_each_once[mariadb]",
    ),
    Mutant(
        name="cover-ignores-the-horizon",
        rule="A period that was run and pruned after the plan is not covered.",
        file="_core/protocol.py",
        old="            yield Cover(horizon_us)\n",
        new="            yield Cover()\n",
        killer=_PRUNED + "[sqlite-reconcile-old]",
    ),
    Mutant(
        name="age-of-the-newest-only",
        rule="The oldest that a run covers says whether the guard is needed.",
        file="_core/protocol.py",
        old="    oldest_us = request.cover[-1] if request.cover else "
        "request.occurrence.nominal_us\n",
        new="    oldest_us = request.occurrence.nominal_us\n",
        killer=_PRUNED + "[postgresql-reconcile-young]",
    ),
    Mutant(
        name="skip-ignores-the-horizon",
        rule="No row says `skipped` of what was applied and pruned.",
        file="_sync/ticking.py",
        old="[us for us in reversed(nominal_times) if horizon_us is None or us > horizon_us]",
        new="[us for us in reversed(nominal_times)]",
        killer=_PRUNED + "[sqlite-skip-old]",
    ),
    Mutant(
        name="skip-stops-the-tick-where-it-must-wait",
        rule="A long late run of what is too old holds up nothing else.",
        file="_sync/ticking.py",
        old='            log.info("skip_put_off", extra={"job": known.job, "error": str(error)})\n'
        "            return 0\n",
        new="            raise\n",
        killer=COVER
        + "test_tick_is_not_held_up_by_a_long_late_run_of_what_it_would_skip[postgresql]",
    ),
    Mutant(
        name="covered-rows-of-a-torn-run-not-torn",
        rule="MariaDB: what an implicit commit landed as superseded is torn with its run.",
        file="_db/sessions/pymysql_driver.py",
        old='        self.change("tear_covered", params)\n',
        new="",
        killer=ENDED + "test_ddl_of_a_covering_run_tears_what_it_covered[mariadb]",
    ),
    Mutant(
        name="covered-rows-of-a-dead-torn-run-not-torn",
        rule="The same where nobody lived to hold the key.",
        file="_db/sessions/pymysql_driver.py",
        old='        self.change("tear_unsealed", key_params(occurrence))\n',
        new="",
        killer=ENDED
        + "test_covering_run_that_died_after_its_ddl_is_torn_with_what_it_covered[mariadb]",
    ),
    # ---------------------------------------------------------------------------------- names
    Mutant(
        name="later-name-claimed",
        rule="A key that was free is not claimed under a later name of its job.",
        file="_core/protocol.py",
        old="    if claimed.first_name is not None:\n",
        new="    if False:\n",
        killer=_CLAIMED_LATER + "[sqlite-claim-driver]",
    ),
    Mutant(
        name="later-name-not-asked-of-once",
        rule="A block's key is taken as it is, so the database is asked how its job is called.",
        file="_sync/once.py",
        old="            by_key=True,\n",
        new="",
        killer=_ONCE_LATER + "[postgresql-young-_in_a_block]",
    ),
    Mutant(
        name="names-of-jobs-locked-by-a-claim",
        rule="A claim locks no row of jobs, whose registrations and ticks would wait for it.",
        file="_db/sql/status.sql",
        old="WHERE shown_name = :shown_name\nORDER BY name\nLIMIT 1\n",
        new="WHERE shown_name = :shown_name\nORDER BY name\nLIMIT 1\nLOCK IN SHARE MODE\n",
        killer=RENAMED
        + "test_open_claim_holds_up_neither_a_registration_nor_a_tick[mariadb-claim]",
    ),
    # ---------------------------------------------------------------------------------- slots
    Mutant(
        name="slot-not-taken",
        rule="Who starts a job by tick holds one of its slots until the end.",
        file="_core/protocol.py",
        old="    claimed: Claimed = yield Claim(request.slots, by_key=request.by_key)\n",
        new="    claimed: Claimed = yield Claim()\n",
        killer=TICKS + "test_as_many_ticks_run_at_once_as_may_and_no_more[postgresql]",
    ),
    Mutant(
        name="slot-not-locked",
        rule="A slot is a row's lock, not the row.",
        file="_db/sql/postgresql.sql",
        old="    LIMIT 1\n    FOR NO KEY UPDATE SKIP LOCKED\n",
        new="    LIMIT 1\n",
        killer=TICKS + "test_as_many_ticks_run_at_once_as_may_and_no_more[postgresql]",
    ),
    Mutant(
        name="slots-locked-as-a-range",
        rule="MariaDB: a range of slots locks the gap beside it too.",
        file="_db/sql/mariadb.sql",
        old="        WHERE job = :job AND slot = next_slot\n",
        new="        WHERE job = :job AND slot <= :slots LIMIT 1\n",
        killer=TICKS + "test_job_is_registered_beside_handlers_that_hold_slots_of_others[mariadb]",
    ),
    # ------------------------------------------------------------------------ what is settled
    Mutant(
        name="block-counted-whatever-is-in-it",
        rule="SQLite: as many rows as steps are a full block only if each is at a step.",
        file="_db/sql/sqlite.sql",
        old=" AND MAX((each.nominal_us - block.since_us) % :step_us) = 0",
        new="",
        killer=_RUNS + "[sqlite-one off the schedule for one that is not there-20000]",
    ),
    Mutant(
        name="block-ends-where-the-next-begins",
        rule="SQLite: a full block holds the first row of the next too, or it ends a run.",
        file="_db/sql/sqlite.sql",
        old="SELECT COUNT(*) = 33",
        new="SELECT COUNT(*) >= 32",
        killer=_RUNS + "[sqlite-as many as one block-20000]",
    ),
    # --------------------------------------------------------------- what is complete, expected
    Mutant(
        name="complete-although-something-waits",
        rule="A job is complete up to a time where nothing expected by then is missing.",
        file="_sync/ticking.py",
        old="        if settled != sum(plan.missing for plan in done.parts.values()):\n",
        new="        if False:\n",
        killer=TICKS + "test_failed_occurrence_behind_newer_ones_stays_missing[sqlite]",
    ),
    Mutant(
        name="complete-by-a-revision-that-is-not-in-force",
        rule="Only the latest revision says what is complete.",
        file="_db/sql/catch_up.sql",
        old="  AND NOT EXISTS (\n"
        "    SELECT 1 FROM duly_job_revision AS r WHERE r.job = :job AND r.revision > :revision)\n",
        new="",
        killer=_DECIDED + "[postgresql-before the mark]",
    ),
    Mutant(
        name="revision-written-beside-a-mark",
        rule="A revision and a mark take the job's row first, one after the other.",
        file="_db/expectation.py",
        old="    session.lock_job(revision.job, 10.0)\n",
        new="",
        killer=_DECIDED + "[postgresql-during the mark]",
    ),
    Mutant(
        name="complete-stays-with-a-new-revision",
        rule="What a new revision expects is looked at, whatever was found complete before.",
        file="_db/expectation.py",
        old='    session.change("mark_complete" if revision.number == 1 '
        'else "unmark_complete", before)\n',
        new='    if revision.number == 1:\n        session.change("mark_complete", before)\n',
        killer=_DECIDED + "[postgresql-after the mark]",
    ),
    Mutant(
        name="expected-by-the-latest-revision-alone",
        rule="What an earlier revision expected stays expected.",
        file="_sync/registry.py",
        old="Expected(spans(self.revisions), self.pauses, horizon=horizon)",
        new="Expected(spans(self.revisions[-1:]), self.pauses, horizon=horizon)",
        killer=_BESIDE + "[sqlite]",
    ),
    Mutant(
        name="stale-definition-accepted",
        rule="A definition that equals an earlier revision does not bring it back by itself.",
        file="_core/revision.py",
        old="    if not earlier:\n",
        new="    if True:\n",
        killer=_BESIDE + "[sqlite]",
    ),
    Mutant(
        name="older-zone-data-accepted",
        rule="A host with older zone data that disagrees is refused.",
        file="_core/revision.py",
        old="    if zone_version > known.zone_version:\n",
        new="    if True:\n",
        killer=REVISION + "test_older_zone_data_is_refused_for_a_zone_that_the_job_had_before",
    ),
    Mutant(
        name="second-revision-of-one-number-fails",
        rule="Who loses the race for a revision's number decides again.",
        file="_sync/registry.py",
        old="if kind is not ErrorKind.DUPLICATE_KEY and not is_lost_race:",
        new="if True:",
        killer=REGISTERING + "test_different_definitions_make_a_revision_each[postgresql-edit]",
    ),
    # -------------------------------------------------------------------------------- upgrades
    Mutant(
        name="upgrade-that-cannot-be-run-again",
        rule="MariaDB commits each statement of an upgrade, so each can be run again.",
        file="_db/migrations/versions/0002_expectation.mariadb.sql",
        old="ALTER TABLE duly_job ADD COLUMN IF NOT EXISTS shown_name VARCHAR(100);",
        new="ALTER TABLE duly_job ADD COLUMN shown_name VARCHAR(100);",
        killer=UPGRADE + "test_upgrade_that_failed_half_way_is_completed_by_the_next[mariadb-1]",
    ),
    Mutant(
        name="pause-counted-as-complete",
        rule="A pause that is caught up is looked at, whatever was found complete.",
        file="_sync/pausing.py",
        old='session.change("unmark_complete", {"job": job, "complete_us": paused_us - 1})',
        new="pass",
        killer="tests/contract/test_pause.py::"
        "test_pause_that_is_caught_up_is_looked_at_behind_what_was_found_complete[sqlite]",
    ),
    Mutant(
        name="earlier-schedule-forgotten",
        rule="A hole that an earlier revision left is found, whatever the new one expects.",
        file="_sync/ticking.py",
        old="    if row.revision > 1 and row.complete_us < row.effective_us:\n",
        new="    if False:\n",
        killer="tests/contract/test_edits.py::"
        "test_missing_of_an_earlier_schedule_is_run_whatever_the_new_one_expects[sqlite]",
    ),
    Mutant(
        name="refused-start-leaves-a-revision",
        rule="A start that is refused for its own sake changes nothing that is expected.",
        file="_sync/starting.py",
        old="named(job, self._registry.believed(job))",
        new="named(job, self._registry.known(job))",
        killer="tests/contract/test_starts.py::"
        "test_start_that_is_refused_for_its_own_sake_leaves_no_revision"
        "[sqlite-junk-NominalTimeInvalid]",
    ),
    Mutant(
        name="released-without-reopening",
        rule="A held key that is freed is a hole again, whatever was found complete.",
        file="_sync/work.py",
        old='            session.change("reopen", {"job": job,',
        new='            dict({"job": job,',
        killer=_FREED + "[sqlite-after the mark]",
    ),
    Mutant(
        name="marked-over-what-was-freed",
        rule="A mark counts only if nothing was freed since the plan.",
        file="_db/sql/catch_up.sql",
        old="  AND COALESCE(complete_us, :never_us) = :known_us\n",
        new="",
        killer=_FREED + "[sqlite-before the mark]",
    ),
    Mutant(
        name="whole-runs-beside-its-parts",
        rule="The key of the whole is settled where the set of its partitions is fixed.",
        file="_sync/partitioning.py",
        old="not session.settle(whole, [nominal_us], wait=left, disposition=how, reason=IN_PARTS)",
        new="not (whole and how)",
        killer="tests/contract/test_partitions.py::"
        "test_plan_of_the_whole_makes_no_effect_beside_the_parts[sqlite-False]",
    ),
    Mutant(
        name="whole-that-was-made-is-fanned-out",
        rule="What was settled as a whole while its set was fixed has no parts.",
        file="_sync/partitioning.py",
        old="            raise _MadeWhole\n",
        new="            pass\n",
        killer="tests/contract/test_partitions.py::"
        "test_whole_that_is_under_way_is_not_fanned_out[postgresql]",
    ),
    Mutant(
        name="stopped-claim-keeps-its-attempt",
        rule="A claim that the server stopped leaves nothing for the caller to commit.",
        file="_db/sessions/pymysql_driver.py",
        old="            if code == _LOCK_WAIT or code in self.dialect.stopped:\n",
        new="            if code == _LOCK_WAIT:\n",
        killer="tests/contract/test_claim_driver_errors.py::"
        "test_claim_that_is_stopped_while_it_waits_says_to_try_again[mariadb-False]",
    ),
]
