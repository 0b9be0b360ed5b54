"""duly for code that awaits: the names of `duly`, where they differ.

`duly.aio.App`, whose handlers are `async def` and whose methods are awaited, and
`duly.aio.claim` and `duly.aio.once` for asynchronous connections. All else is `duly`'s.
"""

from __future__ import annotations

from duly._aio.app import App
from duly._aio.claim import Claim, claim
from duly._aio.once import OnceRun, once
from duly._aio.run import Run
from duly._aio.send import send
from duly._sync.refusals import Result

__all__ = ["App", "Claim", "OnceRun", "Result", "Run", "claim", "once", "send"]
