"""`duly.aio.App.outbox`: what persons see of messages, and decide about them, for code that awaits.

Every method is the synchronous one, performed for a task; nothing is decided here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from duly._aio.awaiting import Awaiting, awaits
from duly._sync.outbox import Outbox as SyncOutbox

if TYPE_CHECKING:
    from duly._aio.loops import OneLoop


class Outbox(Awaiting):
    """The outbox of an App's database."""

    def __init__(self, sync: SyncOutbox, loop: OneLoop) -> None:
        self._sync, self._loop = sync, loop

    messages = awaits(SyncOutbox.messages)
    page = awaits(SyncOutbox.page)
    show = awaits(SyncOutbox.show)
    summary = awaits(SyncOutbox.summary)
    rehearse = awaits(SyncOutbox.rehearse)
    redrive = awaits(SyncOutbox.redrive)
    resend = awaits(SyncOutbox.resend)
    confirm = awaits(SyncOutbox.confirm)
    abandon = awaits(SyncOutbox.abandon)
    lookup = awaits(SyncOutbox.lookup)
