"""What every channel is written on: the message it gets, the answers it may give, and secrets.

A channel is any object with `send(message) -> Answer` and `close()`. It sends once, within
`message.timeout`, from several threads at once; it retries nothing, and where it does not know
whether the receiver has the message, it says `Answer.ambiguous`. Never import one channel from
another.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from duly._core.channel import Answer, Channel, Lookup, Message, answered
from duly._core.contract import Contract
from duly._core.states import Verdict
from duly._sync.telling import told, told_in

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "Answer",
    "Channel",
    "Contract",
    "Lookup",
    "Message",
    "Secret",
    "SecretInvalid",
    "SecretMissing",
    "TooLate",
    "Unsent",
    "Verdict",
    "answered",
    "ends_s",
    "left_s",
    "told",
    "told_in",
]


class Unsent(Exception):
    """Nothing of the message has left, and nothing will; a channel returns its `answer`."""

    kind = "not_sent"

    @property
    def answer(self) -> Answer:
        """What the send came to."""
        return Answer.not_sent(self.kind, str(self))


class SecretMissing(Unsent):
    """A secret cannot be read now."""

    kind = "secret_missing"


class SecretInvalid(Unsent):
    """A secret is nothing that can be sent."""

    kind = "secret_invalid"


class TooLate(Unsent):
    """The time for the send is over: its lease may be too, and another may be sending it."""

    kind = "too_late"


def ends_s(message: Message) -> float:
    """When a send of *message* has to be over, by `time.monotonic()`."""
    if message.ends_s is not None:
        return message.ends_s
    return time.monotonic() + message.timeout.total_seconds()


def left_s(ends: float) -> float:
    """How long a send may still take; asked right before the first word of its message.

    Raises:
        TooLate: Nothing of it may be said any more.
    """
    left = ends - time.monotonic()
    if left <= 0:
        raise TooLate(
            "its time was over before the first word of it was said, as after a secret that took"
            " long to read: it is sent again"
        )
    return left


@dataclass(frozen=True, slots=True)
class Secret:
    """A reference to a secret, read anew for each send; its value is never stored or shown.

    Nor is what a receiver says kept, where it quotes one that was read in the thread of a send.

    Attributes:
        name: What people may see of it.
        read: Gives the value.
    """

    name: str
    read: Callable[[], str] = field(repr=False)

    @classmethod
    def env(cls, name: str) -> Secret:
        """The environment variable *name*."""
        return cls(f"${name}", lambda: os.environ[name])

    @classmethod
    def file(cls, path: str | Path) -> Secret:
        """The content of a file, without the newline at its end."""
        return cls(str(path), lambda: Path(path).read_text("utf-8"))

    @classmethod
    def call(cls, name: str, read: Callable[[], str]) -> Secret:
        """What *read* returns, such as a vault's answer."""
        return cls(name, read)

    def value(self) -> str:
        """The secret, without line ends after it.

        Raises:
            SecretMissing: It cannot be read, or is empty.
            SecretInvalid: It is no string, or has a line break or a NUL within.
        """
        try:
            found: object = self.read()
        except Exception as error:
            raise SecretMissing(
                f"the secret {self.name} cannot be read ({type(error).__name__}): set it where the"
                " relay runs"
            ) from error
        if not isinstance(found, str):
            raise SecretInvalid(
                f"the secret {self.name} is {type(found).__name__}: let what reads it return str"
            )
        # As files and environments of containers end: no secret is meant to.
        found = found.rstrip("\r\n")
        if any(each in found for each in "\r\n\0"):
            raise SecretInvalid(
                f"the secret {self.name} has a line break or a NUL in it: mend it where the relay"
                " runs"
            )
        if not found:
            raise SecretMissing(f"the secret {self.name} is empty: set it where the relay runs")
        return told(found)
