"""What an App knows of messages: its destinations, and the relay that serves them.

It wires; what becomes of a message is decided in `_core/sending.py`.
"""

from __future__ import annotations

from contextlib import contextmanager
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from duly._sync.claim import seconds
from duly._sync.messaging import unknown_destination
from duly._sync.overriding import Overriding
from duly.errors import DestinationInvalid, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from duly._core.channel import Channel, Lookup
    from duly._core.contract import Contract
    from duly._core.destination import Destination
    from duly._db.waiting import Stop
    from duly._sync.outbox import Outbox
    from duly._sync.relay import Delivered, Relay


class Delivering(Overriding):
    """The part of an App that sends messages."""

    @property
    def destinations(self) -> Mapping[str, Destination]:
        """The destinations that are registered, by name."""
        return self._attempts.destinations

    @property
    def outbox(self) -> Outbox:
        """What persons see of messages, and decide about them."""
        from duly._sync.outbox import Outbox

        return Outbox(self.database, self._attempts.destinations, self._readiness)

    def destination(
        self,
        name: str,
        channel: Channel,
        *,
        contract: Contract | None = None,
        retry_for: timedelta | None = None,
        outlives_key: bool = False,
        lookup: Lookup | None = None,
        concurrency: int = 8,
        timeout: timedelta | float = 30.0,
        lease: timedelta | float | None = None,
        backoff: tuple[timedelta, timedelta] | None = None,
        break_after: int = 5,
        skip_blocked: bool = False,
    ) -> Destination:
        """Register where handlers may send messages.

        Args:
            name: `[a-z0-9][a-z0-9._-]{0,99}`; part of each message's id, so it does not change.
            channel: Of `duly.channels`, or any object with `send(message)` and `close()`.
            contract: What the receiver promises about being sent the same message twice; by
                default what the channel says, or nothing: what may have been sent is held.
            retry_for: How long a message is tried; by default three days, or as long as the
                receiver knows its id.
            outlives_key: *retry_for* may be longer than that.
            lookup: Asks the receiver whether it has a message that is in doubt.
            concurrency: How many sends one relay has under way at once.
            timeout: How long one send may take, a timedelta or seconds.
            lease: How long a send belongs to its relay; by default twice *timeout* and 30 s.
            backoff: The first and the longest pause between two sends; 1 s and 30 min.
            break_after: After so many failures in a row the receiver is left alone for a while,
                at most a minute; 0 for never.
            skip_blocked: A message with an ordering key does not wait for an earlier one that is
                uncertain or dead.

        Raises:
            DestinationInvalid: Two of these contradict each other, or the name is taken.
        """
        from duly._core.destination import Destination

        given: dict[str, Any] = {}
        promised = contract or getattr(channel, "contract", None)
        if promised is not None:
            given["contract"] = promised
        if lease is not None:
            given["lease"] = timedelta(seconds=seconds(lease))
        if backoff is not None:
            given["backoff_min"], given["backoff_max"] = backoff
        made = Destination(
            name=name,
            channel=channel,
            retry_for=retry_for,
            outlives_key=outlives_key,
            lookup=lookup,
            concurrency=concurrency,
            timeout=timedelta(seconds=seconds(timeout)),
            break_after=break_after,
            skip_blocked=skip_blocked,
            **given,
        )
        if name in self._attempts.destinations:
            raise DestinationInvalid(
                f"the destination {name} is registered twice: choose a name each"
            )
        self._attempts.destinations[name] = made
        return made

    def deliver(
        self,
        *,
        once: bool = False,
        only: Sequence[str] = (),
        stop: Stop | None = None,
        poll: timedelta | float = 5.0,
    ) -> Delivered:
        """Send the messages that are due: a relay.

        Any number of relays may be at work at once. Each message is claimed, written ahead, sent
        with no transaction open, and finished under the claim's token. Channels send in threads,
        under `duly.aio` too.

        Args:
            once: Come back when nothing that is due now is left; else stay until *stop*.
            only: The names of the destinations to serve; all that are registered if empty.
            stop: An event of threads or of asyncio; ends it, after what is under way. So does a
                cancellation of `duly.aio`'s.
            poll: How often the outbox is looked at, at least, where nothing woke it.

        Raises:
            UnknownDestination, UsageError: Nothing is registered to send to.
            Busy, ConnectionLost, …: With *once*: the database could not be asked.
        """
        from threading import Event

        relay = self._relay(only, poll)
        self._readiness.ensure()
        halt = stop or Event()
        work = partial(self._asked if once else _served, relay, halt)
        return _beside(relay, work) if self.database.is_async else work()

    @contextmanager
    def _relaying(self) -> Iterator[None]:
        """While inside, a relay is at work beside whatever this thread, or task, does."""
        from threading import Event

        from duly._db.waiting import begin

        if not self._attempts.destinations:
            yield
            return
        relay = self._relay((), 5.0)
        strand = begin(relay.work, Event(), name="duly-relay")
        try:
            yield
        finally:
            relay.end()
            # It waits for what it has under way, and knows its own bound.
            strand.join()

    def _asked(self, relay: Relay, stop: Stop) -> Delivered:
        from duly._core import ops
        from duly._db.translate import public_error

        try:
            return relay.once(stop)
        except ops.Fault as fault:
            known = public_error(self.database.dialect, fault.cause, self.database.where)
            raise (known or fault.cause) from (fault.cause if known else fault.cause.__cause__)

    def _relay(self, only: Sequence[str], poll: timedelta | float) -> Relay:
        from duly._sync.relay import Relay

        known = self._attempts.destinations
        for name in only:
            if name not in known:
                raise unknown_destination(name, known)
        served = {name: known[name] for name in only} if only else known
        if not served:
            raise UsageError(
                "no destination is registered, so nothing can be delivered: App.destination(name,"
                " channel)"
            )
        poll_s = seconds(poll)
        if poll_s == 0:
            raise UsageError(
                "poll is 0, and would ask the database without a pause: give more than 0 seconds"
                " (a commit in this process wakes a relay at once)"
            )
        return Relay(self.database, served, poll_s=poll_s, probe=self._attempts.probe)


def _served(relay: Relay, stop: Stop) -> Delivered:
    return relay.work(stop)


def _beside(relay: Relay, work: Callable[[], Delivered]) -> Delivered:
    """What *work* returns, done by a task of its own.

    A cancellation of the caller's would end a claim between its commit and its sends, which would
    be in doubt for nothing. So it only lets *relay* start nothing more, and waits for its end.
    """
    from duly._db.waiting import Queue, begin

    ended: Queue[Delivered | BaseException] = Queue()

    def do() -> None:
        try:
            ended.put(work())
        except BaseException as error:
            ended.put(error)

    begin(do, name="duly-relay")
    try:
        found = ended.get()
    except BaseException:
        relay.end()
        ended.get()
        raise
    if isinstance(found, BaseException):
        raise found
    return found
