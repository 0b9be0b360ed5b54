"""One send by a channel, so that nothing is kept of it that quotes a secret.

Decides which secrets a send has told: every `Secret` that is read while it lasts, the passwords
in URLs that a channel names, and those of the sends to the same destination before it, whose
connections it may use. It never stores one.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from duly._core.channel import Answer, answered
from duly._core.quotes import kept, quotes
from duly._core.redact import redact
from duly._core.wording import said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly._core.channel import Message
    from duly._core.destination import Destination

__all__ = ["carried", "listening", "looked_up", "told", "told_in"]

_LOCK: Final = threading.Lock()


def carried(to: Destination, message: Message) -> Answer:
    """What the channel answers, or an error that it did not explain; in either case no secret.

    Every send goes through here, so that no channel has to think of it.
    """
    with listening(to) as secrets:
        try:
            answer: Any = to.channel.send(message)
        except Exception as error:
            answer = answered(error)
        if not isinstance(answer, Answer):
            answer = Answer.ambiguous("no_answer", f"the channel returned {type(answer).__name__}")
        return _without(answer, secrets())


def looked_up(to: Destination, message: Message) -> tuple[bool | None, str | None]:
    """What the destination's lookup says of a message, and why it said nothing if it raised."""
    assert to.lookup is not None
    with listening(to) as secrets:
        try:
            return to.lookup(message), None
        except Exception as error:
            words = kept(redact(said(error)), secrets())
            return None, f"{type(error).__name__}: {words}" if words else type(error).__name__


@contextmanager
def listening(to: Destination) -> Iterator[Callable[[], list[str]]]:
    """While inside, every secret that this thread reads is noted; gives what says them.

    With them come the last ones of earlier sends: a connection that they opened may be in use.
    """
    mine: list[str] = []

    def all_of_them() -> list[str]:
        with _LOCK:
            to.told.extend(each for each in mine if each not in to.told)
            return [*mine, *to.told]

    token = _NOTED.set(mine)
    try:
        yield all_of_them
    finally:
        _NOTED.reset(token)
        all_of_them()


_NOTED: Final[ContextVar[list[str] | None]] = ContextVar("duly_secrets_told", default=None)


def told(secret: str) -> str:
    """Note that *secret* is told to a receiver now; returns it."""
    noted = _NOTED.get()
    if secret and noted is not None and secret not in noted:
        noted.append(secret)
    return secret


def told_in(url: str, *, is_token: bool = False) -> None:
    """Note the password in *url*; with *is_token* also what stands alone before its @."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    if secret := parts.password or (parts.username if is_token else None):
        told(unquote(secret))


def _without(answer: Answer, secrets: list[str]) -> Answer:
    remote_id = answer.remote_id
    return replace(
        answer,
        kind="not_kept" if quotes(answer.kind, secrets) else answer.kind,
        evidence=kept(redact(answer.evidence), secrets),
        remote_id=None if remote_id is not None and quotes(remote_id, secrets) else remote_id,
    )
