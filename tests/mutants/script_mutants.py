"""Each rule of a SQL script as the effect, taken out; and the test that must notice."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

COMMAND = "tests/cli/test_sql.py::"
ENDING = "tests/script/test_ending.py::"
SPLITTING = "tests/script/test_splitting.py::"

SCRIPT_MUTANTS = [
    Mutant(
        name="script-may-end-the-transaction",
        rule="A script that ends the transaction is refused before anything of it runs.",
        file="_db/script.py",
        old="    if ends := ending(dialect, head):\n",
        new="    if ends := None:\n",
        killer=SPLITTING + "test_what_no_script_may_hold_is_refused_by_its_line",
    ),
    Mutant(
        name="executed-comment-hides",
        rule="What a comment holds that MariaDB executes is read as its server reads it.",
        file="_db/ending.py",
        old=r"        | /\*M?!(?:\d{5,6})? | \*/ ",
        new=r"        | \*/ ",
        killer=ENDING + "test_statement_that_ends_a_transaction_of_mariadb_is_known",
    ),
    Mutant(
        name="string-is-words",
        rule="No statement is refused for what a string holds.",
        file="_db/ending.py",
        old="""words.append("''" if data else """,
        new="""words.append(found[0] if data else """,
        killer=ENDING + "test_words_of_an_end_that_are_data_are_none",
    ),
    Mutant(
        name="body-is-split",
        rule="A semicolon between BEGIN and END of a body ends no statement.",
        file="_db/script.py",
        old="parentheses <= 0 and not blocks",
        new="parentheses <= 0",
        killer=SPLITTING + "test_a_script_is_split_as_the_databases_own_client_does",
    ),
    Mutant(
        name="pipe-holds-no-sql",
        rule="What is no file in the place of a command's SQL is not taken for an empty one.",
        file="_sync/commanding.py",
        old="            if not out.is_file():\n",
        new="            if not out.exists():\n",
        killer="tests/cli/test_exec.py::test_command_that_leaves_no_file_for_its_sql_is_told",
    ),
    Mutant(
        name="percent-is-a-parameter",
        rule="A percent sign of the script is none of the driver's.",
        file="_db/script.py",
        old='text.replace("%", "%%") if doubled else text',
        new="text",
        killer=COMMAND + "test_parameters_of_the_run_are_what_the_databases_own_clock_would_write"
        "[postgresql]",
    ),
    Mutant(
        name="contention-is-the-scripts",
        rule="A script whose transaction gave way to another is tried again as a whole.",
        file="_sync/scripts.py",
        old="        if kind in {ErrorKind.CONTENTION, ErrorKind.LOST}:\n",
        new="        if kind is ErrorKind.LOST:\n",
        killer=COMMAND + "test_a_script_that_gave_way_is_tried_again_as_a_whole[postgresql]",
    ),
    Mutant(
        name="repair-edits-the-job",
        rule="A start without --schedule is by the definition that the ledger holds.",
        file="_cli/job_options.py",
        old="        app.jobs[name] = found\n",
        new="        app.job(name)(handler)\n",
        killer=COMMAND + "test_without_a_schedule_a_job_is_as_the_ledger_has_it[sqlite]",
    ),
    Mutant(
        name="dry-run-commits",
        rule="A dry run is rolled back.",
        file="_sync/rehearsal.py",
        old="        return Rehearsed(run.key, None, value)\n",
        new="        session.commit(1.0)\n        return Rehearsed(run.key, None, value)\n",
        killer=COMMAND + "test_a_dry_run_shows_the_rows_and_leaves_nothing[sqlite]",
    ),
    Mutant(
        name="dry-run-without-the-commits-checks",
        rule="A dry run asks for what is deferred to the commit.",
        file="_sync/rehearsal.py",
        old="            session.check_deferred()\n",
        new="            pass\n",
        killer=COMMAND + "test_a_dry_run_asks_what_the_commit_would[postgresql]",
    ),
]
