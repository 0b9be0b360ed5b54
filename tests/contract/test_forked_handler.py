"""A handler that forks: its connection stays the parent's."""

from __future__ import annotations

import os
import warnings
from typing import TYPE_CHECKING

import duly
from tests.contract.bank import OLD, UNITS

if TYPE_CHECKING:
    from tests.contract.bank import Bank


def test_child_that_a_handler_forked_cannot_use_the_run(bank: Bank) -> None:
    """Its statement would be sent on the parent's connection, into the parent's transaction."""
    app = bank.app()
    told, says = os.pipe()

    @app.job(bank.job)
    def forks(run: duly.Run) -> None:
        run.execute(bank.credit())
        child = os.fork()
        if child == 0:
            try:
                run.execute(bank.credit())
            except duly.UsageError as error:
                os.write(says, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads, from 3.12
        app.run(bank.job, OLD)
    os.close(says)
    with open(told, "rb") as said:
        assert b"is of the parent's process" in said.read()

    assert (bank.units, bank.outcomes) == (UNITS, ["applied"])
