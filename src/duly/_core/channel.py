"""What a channel is given, and what it may answer: the whole interface of `duly.channels`.

Decides the words alone. A channel carries one message to one receiver, once; when it is sent
again, and what a doubt means, is decided elsewhere (`delivery.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from duly._core.states import Verdict

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, timedelta

    from duly._core.contract import Contract

__all__ = ["Answer", "Channel", "Lookup", "Message", "Verdict", "answered"]

EVIDENCE_MAX = 2_000
"""Characters of evidence that are kept of one send."""

ANSWER_MAX = 40
"""Characters of an answer's class."""


@dataclass(frozen=True, slots=True)
class Message:
    """One message, frozen when its occurrence committed; the same for every send of it.

    Attributes:
        id: 36 characters: the same for each send, whatever is restored or pruned in between.
        destination: The name under which the channel was registered.
        body: The bytes to send.
        content_type: Of the body; `application/json` where a JSON value was sent.
        headers: What the sender gave; no name or value holds a NUL, CR or LF.
        occurrence_key: The logical key of the occurrence that sent it.
        name: Which of the occurrence's messages it is; None if the unnamed one.
        key: The natural key that stands in the place of a name, or None.
        generation: 1; a person's *resend* is the next, with an id of its own.
        ordering_key: Messages of one key are sent one after the other; None for no order.
        created_at: When it was enqueued, by the database's clock.
        number: Which send of it this is; 1 for the first.
        started_at: When this send was started, by the database's clock.
        timeout: How long this send may take; a channel ends it by then.
        contract: What the receiver promises, by which its answers are read.
        ends_s: When this send has ended, by `time.monotonic()`; the relay fixes it when it writes
            down that the send starts. None: *timeout* after `send` is called.
    """

    id: str
    destination: str
    body: bytes
    content_type: str
    headers: Mapping[str, str]
    occurrence_key: str
    name: str | None
    key: str | None
    generation: int
    ordering_key: str | None
    created_at: datetime
    number: int
    started_at: datetime
    timeout: timedelta
    contract: Contract
    ends_s: float | None = None

    @property
    def json(self) -> Any:
        """The body as a JSON value.

        Raises:
            ValueError: The body is not JSON.
        """
        from json import loads

        return loads(self.body)


@dataclass(frozen=True, slots=True)
class Answer:
    """What one send came to.

    Attributes:
        verdict: Of four: sent, surely not sent, refused, ambiguous.
        kind: Its class, one stable word for rules and counts: `http_503`, `connect_failed`.
        evidence: What was seen, for people; bounded, and without secrets.
        final: With `refused`: another send would be refused too. With `ambiguous`: another send
            would be answered the same.
        conflict: With `refused`: the receiver knows the id with another content.
        retry_after: The receiver asks to be left alone for so long.
        remote_id: How the receiver calls it.
    """

    verdict: Verdict
    kind: str
    evidence: str = ""
    final: bool = False
    conflict: bool = False
    retry_after: timedelta | None = None
    remote_id: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "kind", plain(self.kind)[:ANSWER_MAX])
        object.__setattr__(self, "evidence", plain(self.evidence)[:EVIDENCE_MAX])
        if self.remote_id is not None:
            object.__setattr__(self, "remote_id", plain(self.remote_id)[:200])

    @classmethod
    def sent(
        cls, kind: str = "sent", evidence: str = "", *, remote_id: str | None = None
    ) -> Answer:
        """The receiver said that it has it."""
        return cls(Verdict.SENT, kind, evidence, remote_id=remote_id)

    @classmethod
    def not_sent(
        cls, kind: str, evidence: str = "", *, retry_after: timedelta | None = None
    ) -> Answer:
        """Surely nothing arrived: nothing left this host, or not what makes it count."""
        return cls(Verdict.NOT_SENT, kind, evidence, retry_after=retry_after)

    @classmethod
    def refused(
        cls,
        kind: str,
        evidence: str = "",
        *,
        final: bool,
        conflict: bool = False,
        retry_after: timedelta | None = None,
    ) -> Answer:
        """The receiver said no, and did nothing; *final* if it always will."""
        return cls(
            Verdict.REFUSED, kind, evidence, final=final, conflict=conflict, retry_after=retry_after
        )

    @classmethod
    def ambiguous(
        cls,
        kind: str,
        evidence: str = "",
        *,
        final: bool = False,
        retry_after: timedelta | None = None,
    ) -> Answer:
        """It may have arrived; *final* if another send would be answered the same."""
        return cls(Verdict.AMBIGUOUS, kind, evidence, final=final, retry_after=retry_after)


@runtime_checkable
class Channel(Protocol):
    """Carries messages to one kind of receiver; may be used by several threads at once.

    It retries nothing, keeps no message, and never guesses: what it does not know is ambiguous.
    """

    def send(self, message: Message) -> Answer:
        """Carry *message* once, within its timeout. What it raises counts as ambiguous."""
        ...

    def close(self) -> None:
        """Let go of connections; `send` may be called again afterwards."""
        ...


Lookup: TypeAlias = Callable[[Message], "bool | None"]
"""Asks the receiver for a message: True, it has it; False, surely not; None, it cannot say."""


def answered(error: BaseException) -> Answer:
    """What an error means that no channel explained: it may have arrived."""
    said = " ".join(str(error).split())
    return Answer.ambiguous(type(error).__name__, said)


def plain(text: str) -> str:
    """*text* as a text column can hold it."""
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
