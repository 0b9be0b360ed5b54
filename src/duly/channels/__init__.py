"""Where messages can be sent: one file for each kind of receiver, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Answer": "duly.channels.base",
    "Call": "duly.channels.call",
    "Channel": "duly.channels.base",
    "CloudEvents": "duly.channels.http_forms",
    "Contract": "duly.channels.base",
    "Http": "duly.channels.http",
    "Message": "duly.channels.base",
    "NotSent": "duly.channels.call",
    "Refused": "duly.channels.call",
    "Secret": "duly.channels.base",
    "Verdict": "duly.channels.base",
}

if TYPE_CHECKING:
    from duly.channels.base import Answer as Answer
    from duly.channels.base import Channel as Channel
    from duly.channels.base import Contract as Contract
    from duly.channels.base import Message as Message
    from duly.channels.base import Secret as Secret
    from duly.channels.base import Verdict as Verdict
    from duly.channels.call import Call as Call
    from duly.channels.call import NotSent as NotSent
    from duly.channels.call import Refused as Refused
    from duly.channels.http import Http as Http
    from duly.channels.http_forms import CloudEvents as CloudEvents


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'duly.channels' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
