"""duly for code that awaits: the names of `duly`, where they differ.

`duly.aio.App`, whose handlers are `async def` and whose methods are awaited, and
`duly.aio.claim`, `duly.aio.receive` and `duly.aio.once` for asynchronous connections. All else is
`duly`'s.
"""

from __future__ import annotations

from duly._aio.app import App
from duly._aio.claim import Claim, claim
from duly._aio.once import OnceRun, once
from duly._aio.receive import InboxReceipt, receive
from duly._aio.run import Incoming, Run
from duly._aio.send import send
from duly._sync.refusals import Result

__all__ = [
    "App", "Claim", "InboxReceipt", "Incoming", "OnceRun", "Result", "Run", "claim", "once",
    "receive", "send",
]  # fmt: skip
