"""Where messages can be sent: one file for each kind of receiver, loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

_HOMES = {
    "Amqp": "duly.channels.amqp",
    "Answer": "duly.channels.base",
    "Call": "duly.channels.call",
    "CeleryTask": "duly.channels.celery",
    "Channel": "duly.channels.base",
    "CloudEvents": "duly.channels.http_forms",
    "Contract": "duly.channels.base",
    "Http": "duly.channels.http",
    "Message": "duly.channels.base",
    "Nats": "duly.channels.nats",
    "NotSent": "duly.channels.call",
    "Refused": "duly.channels.call",
    "RedisStream": "duly.channels.redis",
    "Secret": "duly.channels.base",
    "Smtp": "duly.channels.smtp",
    "Verdict": "duly.channels.base",
}

if TYPE_CHECKING:
    from duly.channels.amqp import Amqp as Amqp
    from duly.channels.base import Answer as Answer
    from duly.channels.base import Channel as Channel
    from duly.channels.base import Contract as Contract
    from duly.channels.base import Message as Message
    from duly.channels.base import Secret as Secret
    from duly.channels.base import Verdict as Verdict
    from duly.channels.call import Call as Call
    from duly.channels.call import NotSent as NotSent
    from duly.channels.call import Refused as Refused
    from duly.channels.celery import CeleryTask as CeleryTask
    from duly.channels.http import Http as Http
    from duly.channels.http_forms import CloudEvents as CloudEvents
    from duly.channels.nats import Nats as Nats
    from duly.channels.redis import RedisStream as RedisStream
    from duly.channels.smtp import Smtp as Smtp


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'duly.channels' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
