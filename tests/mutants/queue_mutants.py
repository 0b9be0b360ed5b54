"""The rules of the line of writers on a SQLite file, each taken out; see `mutants.py`."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

LINE = "tests/races/test_write_queue.py::"
FILE = "_db/write_queue.py"

QUEUE_MUTANTS = [
    Mutant(
        name="last-come-first-served",
        rule="Threads are served in the order in which they came.",
        file=FILE,
        old="line.behind.popleft()",
        new="line.behind.pop()",
        killer=LINE + "test_threads_of_a_process_are_served_in_the_order_in_which_they_came",
    ),
    Mutant(
        name="one-lock-for-the-line",
        rule="The one who waits next is known, and nobody takes the turn before it.",
        file=FILE,
        old="        if not (following.lock_if_free() and now.lock_if_free()):\n",
        new="        if not now.lock_if_free():\n",
        killer=LINE + "test_a_process_whose_spell_is_over_does_not_pass_the_one_that_waits",
    ),
    Mutant(
        name="spell-without-an-end",
        rule="A process comes back before the one who waits only while its spell lasts.",
        file=FILE,
        old="time.monotonic() < self._line.spell_ends_s and ",
        new="",
        killer=LINE
        + "test_a_process_passes_the_one_that_waits_while_its_spell_lasts_and_no_longer",
    ),
    Mutant(
        name="spell-as-a-reservation",
        rule="Whoever is next takes a turn that is free, whoever may come back.",
        file=FILE,
        old="        while not now.lock_if_free():\n",
        new="        while True:\n",
        killer=LINE + "test_a_process_that_waits_takes_a_turn_that_is_free_whoever_may_come_back",
    ),
    Mutant(
        name="begin-before-the-line",
        rule="A transaction stands in the line before it begins.",
        file="_db/sessions/sqlite_driver.py",
        old="                self._place.enter(wait / 2)\n            self._begin_immediate()\n",
        new="                self._begin_immediate()\n"
        "                self._place.enter(wait / 2)\n",
        killer=LINE + "test_attempts_wait_in_the_line_and_a_callers_claim_does_not",
    ),
    Mutant(
        name="line-without-a-bound",
        rule="Nobody waits for a turn without a bound.",
        file=FILE,
        old="answer.wait(seconds)",
        new="answer.wait()",
        killer=LINE + "test_a_turn_that_is_never_given_up_bars_nobody",
    ),
    Mutant(
        name="cancelled-and-still-in-line",
        rule="Whoever is told to hurry waits in the line no longer.",
        file=FILE,
        old="                self._called.release()\n        if (turn",
        new="        if (turn",
        killer=LINE + "test_a_waiter_that_is_told_to_hurry_goes_on_and_leaves_nothing_behind",
    ),
    Mutant(
        name="no-line-no-attempt",
        rule="Where the lock files cannot be made, there is no line, and attempts go on.",
        file=FILE,
        old="        with suppress(OSError):\n            self._files = self._kept",
        new="        with suppress():\n            self._files = self._kept",
        killer=LINE + "test_without_a_place_for_the_lock_files_attempts_are_made_all_the_same",
    ),
    Mutant(
        name="turn-kept-after-giving-up",
        rule="A turn that comes after its waiter gave up is passed on.",
        file=FILE,
        old="        if not self._given_up:\n",
        new="        if True:\n",
        killer=LINE + "test_a_waiter_that_gives_up_leaves_nothing_behind",
    ),
    Mutant(
        name="turn-inherited-by-a-child",
        rule="A forked child closes the lock files of its parent.",
        file=FILE,
        old="    for file in list(_files):\n        file.close()\n",
        new="",
        killer=LINE + "test_a_forked_child_does_not_keep_the_turn_of_its_dead_parent",
    ),
    Mutant(
        name="decision-inside-a-handler",
        rule="A second transaction from inside a handler is refused, not waited for.",
        file="_sync/deciding.py",
        old="    nesting.refuse(database.path)\n",
        new="",
        killer=LINE + "test_a_second_transaction_from_inside_a_handler_is_refused_at_once",
    ),
    Mutant(
        name="closed-is-an-error-of-its-own",
        rule="A SQLite connection that was closed is lost, so the attempt is made again.",
        file="_db/sessions/sqlite_driver.py",
        old="            if not self.is_closed():\n",
        new="            if True:\n",
        killer="tests/faults/test_attempt.py::test_fault_at_any_op_leaves_one_effect_or_none"
        "[sqlite-applied-4-before-Commit-cut]",
    ),
    Mutant(
        name="end-taken-before-it-is-there",
        rule="A signal that is raised as an end arrives loses no end.",
        file="_sync/crew.py",
        old="        while self._told not in self._ends:\n"
        "            self._bell.get()\n"
        "        found = self._ends[self._told]\n"
        "        self._told += 1\n",
        new="        self._told += 1\n"
        "        while self._told - 1 not in self._ends:\n"
        "            self._bell.get()\n"
        "        found = self._ends[self._told - 1]\n",
        killer="tests/races/test_crew.py::test_signal_just_as_an_end_arrives_loses_none"
        "_and_waits_for_nobody_who_left",
    ),
]
