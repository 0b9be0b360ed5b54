"""`run.send`: messages that leave only if their attempt commits.

Decides where a message may be sent from. It never speaks to a receiver: a relay does, once the
transaction has committed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from duly._core.wording import shown
from duly.errors import NotInTransaction, UnknownDestination, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from duly._core.destination import Destination
    from duly._core.occurrence import Occurrence
    from duly._core.outbox import Staged
    from duly._sync.run import Lender

__all__ = ["Sender", "unknown_destination"]


class Sender:
    """What a run sends; kept in memory until the handler has returned."""

    occurrence: Occurrence
    _staged: Staged | None = None
    _lender: Lender
    _destinations: Mapping[str, Destination] | None = None

    def send(
        self,
        destination: str,
        body: Any,
        *,
        name: str | None = None,
        key: str | None = None,
        headers: Mapping[str, str] | None = None,
        not_before: datetime | None = None,
        expires_at: datetime | None = None,
        ordering_key: str | None = None,
    ) -> str:
        """Send a message to *destination* if, and only if, this attempt commits.

        It is stored with the effect, and taken back with it to a savepoint. A relay (`duly
        deliver`, `duly worker`) sends it afterwards, under one id however often. Nothing is
        awaited, in `duly.aio` neither.

        Args:
            destination: A registered one.
            body: JSON-ready, or bytes; at most 256 KiB. It must follow from the occurrence, its
                payload and its data.
            name: Which of this occurrence's messages to the destination it is; one may be
                without.
            key: The natural key of what it is about, in place of a name: an invoice's number.
            headers: For the receiver.
            not_before: It is not sent before.
            expires_at: It is not sent from then on.
            ordering_key: Messages of one key go one after the other, as they were committed.

        Returns:
            The message's id: 36 characters, the same on every retry.

        Raises:
            MessageInvalid: It cannot be sent as it is.
            UnknownDestination: No destination has that name.
            PayloadConflict: The same name or key was sent before with another content.
            NotInTransaction: The run is over, or a command that has no transaction.
        """
        # Imported here: most runs send nothing, and each start of a process would pay.
        from duly._core.outbox import Staged, freeze

        self._require_open()
        known = self._destinations
        if known is not None and destination not in known:
            raise unknown_destination(destination, known)
        draft = freeze(
            self.occurrence,
            destination,
            body,
            name=name,
            key=key,
            headers=headers,
            not_before=not_before,
            expires_at=expires_at,
            ordering_key=ordering_key,
        )
        if self._staged is None:
            self._staged = self._lender.staged = Staged()
        self._staged.add(draft)
        return str(draft.id)

    def _require_open(self) -> None:
        if cast("Lender | None", self._lender) is None:
            raise NotInTransaction(
                f"{self.occurrence.key}: a command has no transaction for a message to commit with:"
                " send from a handler"
            )
        try:
            self._lender.refuse_late()
        except UsageError as over:
            raise NotInTransaction(
                f"{self.occurrence.key}: the run is over, so nothing more can be sent with it: send"
                " before the handler returns"
            ) from over


def unknown_destination(name: object, known: Mapping[str, Any]) -> UnknownDestination:
    """No destination of that name is registered; the nearest ones are."""
    from difflib import get_close_matches

    near = get_close_matches(str(name), known, n=2, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else "register it first"
    return UnknownDestination(
        f"no destination is called {shown(name)}: {hint} (App.destination)", destination=str(name)
    )
