"""A Python function as the receiver.

Decides only what its ending means: it returned, it says that nothing was sent, or nobody knows.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from duly._core.channel import Answer, answered
from duly._core.job import is_awaited
from duly.errors import DestinationInvalid

if TYPE_CHECKING:
    from collections.abc import Callable

    from duly._core.channel import Message

__all__ = ["Call", "NotSent", "Refused"]


class NotSent(Exception):
    """Raised by a function that surely sent nothing: it is called again later."""


class Refused(Exception):
    """Raised by a function whose receiver said no, for good, and did nothing."""


class Call:
    """Calls a function with each message.

    Args:
        function: Gets the `Message`. It returned: sent. It raised `NotSent`: surely not sent.
            `Refused`: dead. Anything else may have happened after the effect: ambiguous.

    Raises:
        DestinationInvalid: It is a coroutine function.
    """

    def __init__(self, function: Callable[[Message], Any]) -> None:
        if is_awaited(function):
            raise DestinationInvalid(
                "a Call's function is called by a thread that awaits nothing, so a coroutine"
                " function would never run: write it as `def`, with asyncio.run() in it"
            )
        self._function = function

    def send(self, message: Message) -> Answer:
        """Call it once."""
        try:
            returned = self._function(message)
        except NotSent as error:
            return Answer.not_sent("not_sent", _said(error))
        except Refused as error:
            return Answer.refused("refused", _said(error), final=True)
        except Exception as error:
            return answered(error)
        if inspect.iscoroutine(returned):
            returned.close()  # not a step of it was done
            return Answer.not_sent("not_awaited", "the function returned a coroutine: call it")
        return returned if isinstance(returned, Answer) else Answer.sent("returned")

    def close(self) -> None:
        """Nothing is held."""


def _said(error: BaseException) -> str:
    return " ".join(str(error).split())
