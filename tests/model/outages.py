"""The server goes away and comes back, between two steps and in the midst of a tick.

For a server of the test's own alone. What holds after each step is as ever.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import duly
from tests.model.definitions import HOUR, hosts
from tests.model.machine import Machine

if TYPE_CHECKING:
    from collections.abc import Iterator

    from duly import testing
    from tests.model.world import World
    from tests.servers.server import Server

RESTARTS_MAX = 4
"""Of an example: a server that was killed takes seconds to look through its data."""
may_stop = precondition(lambda self: self.restarts < RESTARTS_MAX)

IN_A_TICK = "servers that went away under a tick"


class Outages(Machine):
    """And what a power cut does to the server."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        assert world.database.server is not None
        self.server: Server = world.database.server
        self.restarts = 0

    @may_stop
    @rule(abrupt=st.booleans())
    def server_is_restarted(self, abrupt: bool) -> None:
        self._stop(abrupt=abrupt)
        self.world.start(self.server)

    @may_stop
    @rule(
        host=hosts,
        op=st.sampled_from(["Begin", "Claim", "CallHandler", "Seal", "Commit", "Rollback"]),
        when=st.sampled_from(["before", "after"]),
        abrupt=st.booleans(),
        soon=st.booleans(),
        skip=st.integers(0, 1),
    )
    def server_is_restarted_under_a_tick(
        self, host: int, op: str, when: testing.When, abrupt: bool, soon: bool, skip: int
    ) -> None:
        """It is back before the tick asks it again, or only when the tick has given up."""
        self.time_passes(5 * HOUR)  # so that there is something to do
        one = self.world.hosts[host]
        plans = self._planned(one)
        began = time.monotonic()
        with (
            one.acting() as app,
            self._stopping(app, op, when, abrupt=abrupt, soon=soon, skip=skip),
            suppress(duly.DulyError),
        ):
            app.tick()
        for job, plan in plans.items():
            self._happened(job, plan, lasted=timedelta(seconds=time.monotonic() - began))

    @contextmanager
    def _stopping(
        self, app: duly.App, op: str, when: str, *, abrupt: bool, soon: bool, skip: int
    ) -> Iterator[None]:
        """Stop the server at an op of *app*; it runs again when the block is left."""
        chances = 0
        is_down = False

        def probe(moment: str, current: Any, _target: Any) -> None:
            nonlocal chances, is_down
            if type(current).__name__ != op or moment != when:
                return
            chances += 1
            if chances == skip + 1:
                self.world.counted[IN_A_TICK] += 1
                self._stop(abrupt=abrupt)
                is_down = not soon
                if soon:
                    self.world.start(self.server)

        app._probe = probe
        try:
            yield
        finally:
            app._probe = None
            if is_down:
                self.world.start(self.server)

    def _stop(self, *, abrupt: bool) -> None:
        self.restarts += 1
        self.world.stop(self.server, abrupt=abrupt)
