"""A relay: it takes what is due, lets channels send it, and writes down what came of it.

A thread serves it, or a task of an event loop (`_db/waiting.py`); channels send in threads.

Decides when to look and how many sends are under way: never more are claimed than there are free
senders, and no transaction is open while one sends. What becomes of a message is decided in
`_core/sending.py`.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections import deque
from dataclasses import dataclass, replace
from queue import SimpleQueue
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from duly._core import delivery, ops
from duly._core.breaker import Breaker
from duly._core.channel import Answer
from duly._core.states import MessageState
from duly._db.waiting import Wake
from duly._sync import warned
from duly._sync.process import host_name
from duly._sync.relay_shell import RelayShell
from duly._sync.telling import carried, looked_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from duly._core.channel import Message
    from duly._core.destination import Destination
    from duly._db.connect import Database
    from duly._db.waiting import Stop

log = logging.getLogger("duly.relay")

FIRST_POLL_S: Final = 0.05
POLL_S: Final = 5.0
AWAY_S: Final = 10.0
DRAIN_TRIES: Final = 3
STOP_S: Final = 1.0
"""How long it takes at most to see that it is to stop."""


@dataclass(slots=True)
class Delivered:
    """What a relay did.

    Attributes:
        sent: Messages that their receivers have.
        again: Sends after which a message is tried again.
        uncertain: Messages that may have been sent; a person or a lookup decides.
        dead: Messages that are not sent any more.
        late: Sends whose end was written down when somebody else had decided.
    """

    sent: int = 0
    again: int = 0
    uncertain: int = 0
    dead: int = 0
    late: int = 0


@dataclass(frozen=True, slots=True)
class _Ended:
    """What a sender's thread hands back."""

    lane: _Lane
    under: delivery.Under


class _Lane:
    """One destination: its senders, and what the relay knows of it."""

    def __init__(self, to: Destination, ended: Callable[[_Ended], None]) -> None:
        self.to = to
        self.in_flight = 0
        self.breaker = Breaker()
        self.look_s = 0.0
        self.poll_s = FIRST_POLL_S
        self._ended = ended
        self._jobs: SimpleQueue[tuple[delivery.Under, Message] | None] = SimpleQueue()
        self._threads = 0

    def free(self, now_s: float) -> int:
        """How many sends may be started now."""
        if self.breaker.pauses and self.in_flight:
            return 0
        return self.breaker.allows(now_s, self.to.concurrency - self.in_flight)

    def send(self, under: delivery.Under, message: Message) -> None:
        """Let a sender have it."""
        self.in_flight += 1
        if self._threads < min(self.in_flight, self.to.concurrency):
            self._threads += 1
            # A daemon: a channel that does not come back must not keep the process.
            threading.Thread(
                target=self._serve, name=f"duly-send-{self.to.name}", daemon=True
            ).start()
        self._jobs.put((under, message))

    def close(self) -> None:
        """Let the senders end when they are done."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            under, message = job
            self._ended(_Ended(self, self._done(under, message)))

    def _done(self, under: delivery.Under, message: Message) -> delivery.Under:
        spread = random.random()
        if under.is_lookup:
            found, failure = looked_up(self.to, message)
            if failure is not None:
                log.info("lookup_failed", extra={"message_id": message.id, "error": failure})
            return replace(under, found=found, spread=spread)
        if message.ends_s is not None and time.monotonic() >= message.ends_s:
            said = "the relay was stopped before the send began; it is sent again"
            return replace(under, answer=Answer.not_sent("too_late", said), spread=spread)
        answer = carried(self.to, message)
        return replace(under, answer=answer, spread=spread)


class Relay:
    """Sends what is due to some destinations, from one strand that speaks to the database."""

    def __init__(
        self,
        database: Database,
        destinations: Mapping[str, Destination],
        *,
        poll_s: float = POLL_S,
        probe: Callable[..., None] | None = None,
    ) -> None:
        self._database = database
        self._shell = RelayShell(database, f"{host_name()}:{os.getpid()}", probe)
        self._ended: deque[_Ended] = deque()
        self._wake = Wake()
        self._poll_s = max(FIRST_POLL_S, poll_s)
        self._lanes = [_Lane(to, self._hand_back) for to in destinations.values()]
        self._heard = False
        self._failures = 0
        self._away_until_s = 0.0
        self._is_ended = False
        self.delivered = Delivered()

    def once(self, stop: Stop) -> Delivered:
        """Send what is due now, and come back when nothing of it is under way.

        Args:
            stop: Nothing more is started once it is set.

        Raises:
            DulyError, Fault: The database could not be asked.
        """
        try:
            quiet = False
            while not quiet or self._in_flight() or self._ended:
                self._finish()
                is_over = self._is_ended or stop.is_set()
                filled = [] if is_over else [self._fill(lane) for lane in self._lanes]
                quiet = not any(filled)
                if self._in_flight() and not self._ended:
                    self._wake.wait(1.0)
            return self.delivered
        except BaseException:
            # What is under way with others is theirs no less: it would be in doubt for nothing.
            self._drain()
            raise
        finally:
            self._close()

    def work(self, stop: Stop) -> Delivered:
        """Send what falls due, until *stop*; then wait for what is under way, and write it down."""
        try:
            with self._database.heard(self.hear):
                while not (self._is_ended or stop.is_set()):
                    self._round()
            return self.delivered
        finally:
            try:
                self._drain()
            finally:
                self._close()

    def end(self) -> None:
        """Let it start nothing more, as if *stop* were set; from any thread."""
        self._is_ended = True
        self._wake.set()

    def hear(self) -> None:
        """Messages were committed, so look now; from any thread."""
        self._heard = True
        self._wake.set()

    def _hand_back(self, ended: _Ended) -> None:
        self._ended.append(ended)
        self._wake.set()

    # Rounds

    def _round(self) -> None:
        now_s = time.monotonic()
        if now_s >= self._away_until_s:
            try:
                self._finish()
                self._look()
                if self._failures:
                    log.warning("database_back", extra={"error": "the outbox answers again"})
                self._failures = 0
            except Exception as error:
                self._is_away(error)
        self._wake.wait(min(STOP_S, self._sleep_s()))

    def _look(self) -> None:
        heard, self._heard = self._heard, False
        for lane in self._lanes:
            if heard:
                lane.look_s, lane.poll_s = 0.0, FIRST_POLL_S
            now_s = time.monotonic()
            if now_s < lane.look_s or not lane.free(now_s):
                continue
            if self._fill(lane):
                lane.look_s, lane.poll_s = 0.0, FIRST_POLL_S
            elif lane.free(now_s):
                self._look_later(lane, now_s)

    def _look_later(self, lane: _Lane, now_s: float) -> None:
        """Nothing could be taken: look when the next is due, or ever more seldom."""
        due_us, clock_us = self._shell.next_due(lane.to.name)
        pause_s = lane.poll_s
        if due_us is not None and due_us > clock_us:
            pause_s = min(pause_s, (due_us - clock_us) / 1e6)
        lane.look_s = now_s + pause_s
        lane.poll_s = min(2 * lane.poll_s, self._poll_s)

    def _fill(self, lane: _Lane) -> bool:
        """Take as many as there are free senders; False if nothing was due."""
        limit = lane.free(time.monotonic())
        if not limit:
            return False
        token = uuid4()
        taken = self._shell.drive(delivery.take(lane.to, limit, token), token)
        for under in taken.under:
            stored = self._shell.taken.pop(under.row.id)
            message = stored.message(under.row.started, taken.clock_us, lane.to)
            # From the instant from which the lease counts: what a send does first takes its time.
            ends_s = self._shell.clock_s + lane.to.timeout.total_seconds()
            message = replace(message, ends_s=ends_s)
            lane.send(under, message)
        self._shell.taken.clear()
        return bool(taken.seen)

    def _finish(self) -> None:
        """Write down every send that has ended; it is kept until that has landed."""
        while self._ended:
            batch = [self._ended[index] for index in range(min(len(self._ended), 500))]
            states = self._shell.drive(delivery.finish([each.under for each in batch]))
            for each, state in zip(batch, states, strict=True):
                self._ended.popleft()
                self._count(each, state)

    def _count(self, ended: _Ended, state: MessageState | None) -> None:
        lane, under = ended.lane, ended.under
        lane.in_flight -= 1
        lane.look_s = 0.0
        if under.answer is not None:
            lane.breaker = lane.breaker.seen(under.answer, lane.to, time.monotonic())
        match state:
            case None:
                self.delivered.late += 1
                log.warning("late_answer", extra=warned.late_answer(under.row.id, lane.to.name))
            case MessageState.SENT:
                self.delivered.sent += 1
            case MessageState.UNCERTAIN:
                self.delivered.uncertain += 1
            case MessageState.DEAD:
                self.delivered.dead += 1
            case _:
                self.delivered.again += 1

    # Waiting

    def _sleep_s(self) -> float:
        now_s = time.monotonic()
        if self._failures:
            return max(0.001, self._away_until_s - now_s)
        if self._ended:
            return 0.0
        times = [lane.look_s for lane in self._lanes if lane.free(now_s)]
        times += [lane.breaker.until_s for lane in self._lanes if lane.breaker.until_s > now_s]
        return max(0.0, min([now_s + self._poll_s, *times]) - now_s)

    def _in_flight(self) -> int:
        return sum(lane.in_flight for lane in self._lanes)

    def _is_away(self, error: Exception) -> None:
        cause = error.cause if isinstance(error, ops.Fault) else error
        if self._failures == 0:
            log.warning("database_away", extra={"error": str(cause)})
        self._failures += 1
        self._away_until_s = time.monotonic() + min(AWAY_S, 0.25 * 2.0 ** min(self._failures, 10))

    def _drain(self) -> None:
        """Start nothing more; write down what was started, within its time."""
        longest_s = max((lane.to.timeout.total_seconds() for lane in self._lanes), default=0.0)
        until_s, failures = time.monotonic() + longest_s + 1.0, 0
        while (self._in_flight() or self._ended) and time.monotonic() < until_s:
            try:
                self._finish()
                failures = 0
            except Exception as error:
                failures += 1
                if failures == DRAIN_TRIES:
                    cause = error.cause if isinstance(error, ops.Fault) else error
                    log.warning("answers_lost", extra=warned.answers_lost(len(self._ended), cause))
                    return  # their leases end, and leave the doubt that there is
            if self._in_flight():
                self._wake.wait(min(1.0, max(0.001, until_s - time.monotonic())))

    def _close(self) -> None:
        for lane in self._lanes:
            lane.close()
        self._shell.close()
