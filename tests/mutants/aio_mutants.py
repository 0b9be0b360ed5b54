"""The rules of code that awaits, each taken out; see `mutants.py`."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

CANCELLING = "tests/aio/test_cancelling.py::"
ONCE = "tests/aio/test_once.py::"
SESSION = "tests/aio/test_session.py::"
WORK = "tests/aio/test_work.py::"
CLAIM = "tests/aio/test_claim.py::"
HANDLERS = "tests/aio/test_handlers.py::"

AIO_MUTANTS = [
    Mutant(
        name="lent-connection-goes-back-to-its-pool",
        rule="A connection that is lent does not go back to the pool.",
        file="_db/sessions/sqlite_driver.py",
        old="        if self._is_lent:\n            # A task",
        new="        self._is_lent = False\n        if self._is_lent:\n            # A task",
        killer=CANCELLING
        + "test_task_that_is_cancelled_while_sqlite_lends_its_connection_breaks_no_later_one",
    ),
    Mutant(
        name="cancelled-in-the-midst-of-a-commit",
        rule="From the seal on a cancellation waits for the commit's answer.",
        file="_aio/turn.py",
        old="        self._is_pending = True\n        self._timer",
        new="        self._deliver()\n        return\n        self._timer",
        killer=CANCELLING
        + "test_commit_under_way_when_its_task_is_cancelled_is_settled_and_told[postgresql]",
    ),
    Mutant(
        name="cancelled-again-while-its-statement-is-stopped",
        rule="A second cancellation waits until the first one's statement has ended.",
        file="_aio/turn.py",
        old="        if early_s > 0:\n",
        new="        if False:\n",
        killer=WORK
        + "test_cancelled_worker_rolls_back_what_runs_and_leaves_no_statement[postgresql]",
    ),
    Mutant(
        name="backfill-cancelled-without-its-workers",
        rule="The attempts beside a cancelled call are cancelled with it.",
        file="_aio/turn.py",
        old="        for turn in tuple(self._beside):\n            turn.arrived()\n",
        new="",
        killer=WORK
        + "test_cancelled_backfill_rolls_back_what_runs_and_begins_no_more[postgresql-4]",
    ),
    Mutant(
        name="worker-that-leaves-its-tasks-behind",
        rule="A worker that ends by an error ends what it runs.",
        file="_sync/worker.py",
        old="                    self._abandon(error)\n",
        new="                    del error\n",
        killer=WORK
        + "test_cancelled_worker_rolls_back_what_runs_and_leaves_no_statement[postgresql]",
    ),
    Mutant(
        name="awaited-session-that-may-commit",
        rule="The session of a run that awaits refuses to be ended.",
        file="_aio/session.py",
        old="refusing(self._kind.sync_session_class)",
        new="self._kind.sync_session_class",
        killer=SESSION
        + "test_session_refuses_to_be_ended_and_nothing_of_its_work_lands[sqlite-commit]",
    ),
    Mutant(
        name="block-that-is-not-inside-of-its-handler",
        rule="On SQLite a block may not wait for itself.",
        file="_aio/once.py",
        old="            self._inside.__enter__()\n",
        new="",
        killer=ONCE
        + "test_other_transaction_on_the_same_sqlite_file_is_refused_inside_a_block[sqlite]",
    ),
    Mutant(
        name="block-whose-error-is-lost",
        rule="The error of a block rolls its attempt back.",
        file="_aio/once.py",
        old="            self._ended.set_result(error)\n",
        new="            self._ended.set_result(None)\n",
        killer=ONCE + "test_block_that_raises_keeps_nothing_and_its_error_comes_out[postgresql]",
    ),
    Mutant(
        name="claim-that-cannot-be-stopped-on-sqlite",
        rule="A claim that waits on SQLite stops waiting when it is cancelled.",
        file="_db/sessions/aiosqlite_driver.py",
        old="is_over = self.is_hurried or now_s",
        new="is_over = now_s",
        killer=CLAIM
        + "test_claim_that_is_cancelled_while_it_waits_leaves_a_usable_connection[sqlite]",
    ),
    Mutant(
        name="line-that-cannot-be-left",
        rule="Whoever stands in SQLite's line goes at once when cancelled.",
        file="_db/sessions/aiosqlite_driver.py",
        old="            place.hurry()\n",
        new="            pass\n",
        killer=ONCE + "test_rival_cancelled_while_it_waits_for_a_block_goes_at_once[sqlite]",
    ),
    Mutant(
        name="step-that-is-told-of-after-its-end",
        rule="Only the time between two awaits counts as blocking the loop.",
        file="_aio/blocking.py",
        old="                watchdog.stop(bound)\n",
        new="                pass\n",
        killer=HANDLERS + "test_handler_that_waits_for_long_is_not_told_of[sqlite]",
    ),
    Mutant(
        name="async-handler-that-nobody-awaits",
        rule="An App that does not await refuses an async handler.",
        file="_core/job.py",
        old="    if is_awaited(job.handler) or",
        new="    if",
        killer=HANDLERS + "test_async_handler_is_refused_by_an_app_that_does_not_await",
    ),
]
