"""Each rule of a way in (commands, Django, claims, blocks, sessions), taken out; and its test."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

EXEC = "tests/cli/test_exec.py::"
SQL = "tests/cli/test_sql.py::"
TURNS = "tests/cli/test_turns.py::"
HOLD = "tests/contract/test_hold.py::"
HANDLER = "tests/contract/test_django_handler.py::"
DJANGO = "tests/contract/test_django_claim.py::"
CONNECTIONS = "tests/contract/test_django_connections.py::"
ONCE = "tests/contract/test_once.py::"
KILLED = EXEC + "test_killed_command_is_held_and_never_run_again[sqlite]"

WAY_MUTANTS = [
    # ------------------------------------------------------------------------------- commands
    Mutant(
        name="command-starts-before-the-key-is-held",
        rule="With hold the key is committed as held before the command starts.",
        file="_core/commands.py",
        old="        if (yield Commit()):\n            return _FREE\n",
        new="        if (yield Rollback()) is None:\n            return _FREE\n",
        killer=KILLED,
    ),
    Mutant(
        name="killed-command-has-told-its-end",
        rule="A command that was killed has not said what it had done by then.",
        file="_sync/commanding.py",
        old="        reported = ended.status > 0 and not ended.timed_out\n",
        new="        reported = True\n",
        killer=KILLED,
    ),
    Mutant(
        name="end-of-a-held-command-is-not-recorded",
        rule="The attempt of a held command is written when its end is known.",
        file="_core/commands.py",
        old="        yield from evidence(Record(Outcome.TORN, cause or error, report.origin))\n",
        new="",
        killer=KILLED,
    ),
    Mutant(
        name="held-attempt-of-another-host-is-dead",
        rule="Only its own host can tell that the process of a held command died.",
        file="_sync/sweep.py",
        old="        if _is_held(session, marker) and not is_of_this_host(marker.process):\n",
        new="        if False:\n",
        killer=HOLD + "test_command_that_runs_on_another_host_is_not_taken_for_dead[postgresql]",
    ),
    Mutant(
        name="lock-of-a-removed-file-is-a-turn",
        rule="A lock counts only on the file that is still under its name.",
        file="_sync/turns.py",
        old="            if _is_named(descriptor, path):\n",
        new="            if True:\n",
        killer=TURNS + "test_file_that_is_removed_between_opening_and_locking_is_not_taken",
    ),
    # -------------------------------------------------------------------------------- scripts
    Mutant(
        name="backslash-is-what-it-is-by-default",
        rule="A backslash is refused where the session reads it otherwise.",
        file="_db/script.py",
        old="    if line is None or rules.reads_backslashes is None",
        new="    if True",
        killer=SQL + "test_a_backslash_that_the_session_reads_otherwise_is_refused"
        "[mariadb-no-backslash-escapes]",
    ),
    Mutant(
        name="dry-run-makes-the-tables",
        rule="A dry run makes no tables.",
        file="_sync/rehearsal.py",
        old="        app._readiness.ensure(only_read=True)",
        new="        app._readiness.ensure()",
        killer=SQL + "test_a_dry_run_in_a_file_without_dulys_tables_makes_none",
    ),
    # --------------------------------------------------------------------------------- Django
    Mutant(
        name="job-starts-inside-atomic",
        rule="No attempt runs where an outer atomic block would hold its commit back.",
        file="contrib/django/database.py",
        old="    if wrapper.in_atomic_block:\n",
        new="    if False:\n",
        killer=HANDLER + "test_start_inside_atomic_is_refused[postgresql-django]",
    ),
    Mutant(
        name="mark-for-rollback-is-not-looked-at",
        rule="What Django has marked for rollback is not committed.",
        file="_db/sessions/django_wrapper.py",
        old="        if self._marked or self.wrapper.needs_rollback:\n",
        new="        if False:\n",
        killer=HANDLER + "test_rollback_that_django_asks_for_is_a_failure[sqlite-django]",
    ),
    Mutant(
        name="callback-after-a-rollback",
        rule="What waits for the commit does not run where there was none.",
        file="contrib/django/database.py",
        old="        for callback in callbacks if applied else ():\n",
        new="        for callback in callbacks:\n",
        killer=HANDLER + "test_callback_of_on_commit_does_not_run_after_a_rollback[sqlite-django]",
    ),
    Mutant(
        name="handler-commits-through-django",
        rule="A handler cannot end the transaction through Django's connection.",
        file="_db/sessions/django_wrapper.py",
        old="        refuse_ends(wrapper, _ENDS)\n",
        new="",
        killer=HANDLER + "test_refusal_that_the_handler_swallows_ends_nothing[sqlite-django-close]",
    ),
    Mutant(
        name="claim-in-djangos-autocommit",
        rule="In autocommit a claim would commit apart from the change.",
        file="_db/sessions/django_wrapper.py",
        old="        if not wrapper.in_atomic_block and wrapper.get_autocommit():\n",
        new="        if False:\n",
        killer=DJANGO + "test_claim_outside_atomic_is_refused[sqlite]",
    ),
    Mutant(
        name="child-uses-its-parents-django-connection",
        rule="A forked child leaves the connection of its parent alone.",
        file="contrib/django/database.py",
        old="        _leave_to_the_parent(wrapper)\n",
        new="",
        killer=CONNECTIONS
        + "test_child_of_a_fork_takes_a_connection_of_its_own_and_leaves_the_parents_alone"
        "[postgresql-django]",
    ),
    # ------------------------------------------------------------------ claims, blocks, sessions
    Mutant(
        name="claim-after-changes-of-the-session",
        rule="A session's earlier changes would be committed with a duplicate too.",
        file="_sync/callers.py",
        old="            _refuse_changes(connection)\n",
        new="",
        killer="tests/contract/test_claim_session.py::"
        "test_claim_after_a_change_that_is_not_flushed_is_refused[sqlite]",
    ),
    Mutant(
        name="block-is-run-again",
        rule="The block of a with cannot be called again after contention.",
        file="_core/protocol.py",
        old="        if request.repeatable:\n",
        new="        if True:\n",
        killer=ONCE + "test_contention_in_a_block_is_busy_with_nothing_applied[postgresql]",
    ),
    Mutant(
        name="block-need-not-ask",
        rule="A block that does not ask whether it is the first changes nothing.",
        file="_sync/once.py",
        old="        if not self._was_asked:\n",
        new="        if False:\n",
        killer=ONCE + "test_block_that_does_not_ask_changes_nothing_on_its_first_start[sqlite]",
    ),
    Mutant(
        name="session-is-not-flushed",
        rule="What the session of a run holds is flushed before the seal.",
        file="_db/orm.py",
        old="        self._root.commit()\n",
        new="",
        killer="tests/contract/test_sqlmodel.py::"
        "test_models_in_the_session_of_a_run_are_flushed_and_committed_with_the_key[sqlite]",
    ),
]
