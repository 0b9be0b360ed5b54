"""Rules that only some cells need, each taken out; see `mutants.py`."""

from __future__ import annotations

from tests.mutants.mutants import Mutant

CELL_MUTANTS = [
    Mutant(
        name="session-that-hid-an-error",
        rule="What a hidden error of the session's undid is not completed.",
        file="_db/orm.py",
        old="        if not self._root.is_active:\n",
        new="        if False:\n",
        killer="tests/aio/test_session.py::"
        "test_error_of_the_session_that_is_hidden_keeps_nothing[sqlite]",
    ),
    Mutant(
        name="session-whose-transaction-was-ended",
        rule="A handler that ended the session's transaction has failed.",
        file="_db/orm.py",
        old="        if self._session.get_transaction() is not self._root:\n",
        new="        if False:\n",
        killer="tests/aio/test_session.py::"
        "test_transaction_of_the_session_that_was_ended_keeps_nothing[sqlite]",
    ),
    Mutant(
        name="block-that-never-asked",
        rule="A block that comes to its end without asking has failed, also on its first start.",
        file="_sync/once.py",
        old="    run.require_asked()\n    run.value = loaded",
        new="    run.value = loaded",
        killer="tests/contract/test_once.py::"
        "test_block_that_neither_asks_nor_writes_is_refused_at_its_end[sqlite]",
    ),
    Mutant(
        name="durable-block-inside-a-handler",
        rule="Django sees duly's transaction as an atomic block around the handler.",
        file="_db/sessions/django_wrapper.py",
        old="wrapper.atomic_blocks = [Atomic(wrapper.alias, savepoint=True, durable=True)]",
        new="wrapper.atomic_blocks = []",
        killer="tests/contract/test_django_handler.py::"
        "test_durable_block_inside_a_handler_is_refused[sqlite-django]",
    ),
    Mutant(
        name="close-that-waits-for-a-thread-that-ended",
        rule="Nobody waits for the thread of an aiosqlite connection that was given up.",
        file="_db/sessions/aiosqlite_driver.py",
        old="raw, driver._connection = driver._connection, None",
        new="raw = driver._connection",
        killer="tests/faults/test_handler.py::"
        "test_task_that_closes_a_cut_connection_waits_for_nobody",
    ),
]
