"""duly makes the effect of each scheduled occurrence happen exactly once.

The public names, loaded when first used: `duly run` is started every minute, and pays only
for what it needs. Nothing inside duly imports this module.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "App": "duly._sync.app",
    "BusinessDays": "duly.schedules.business",
    "Calendar": "duly.calendars",
    "Claim": "duly._sync.claim",
    "Contract": "duly._core.contract",
    "Cron": "duly.schedules.cron",
    "Dates": "duly.schedules.dates",
    "Disposition": "duly._core.states",
    "Every": "duly.schedules.every",
    "InboxReceipt": "duly._sync.receive",
    "Incoming": "duly._sync.incoming",
    "Interval": "duly._core.timing",
    "Occurrence": "duly._core.occurrence",
    "OnCalendar": "duly.schedules.on_calendar",
    "OnceRun": "duly._sync.once",
    "Outcome": "duly._core.states",
    "RRule": "duly.schedules.rrule",
    "Receipt": "duly._sync.receiving",
    "Result": "duly._sync.refusals",
    "Retry": "duly._core.policies",
    "Run": "duly._sync.run",
    "Start": "duly._core.start",
    "claim": "duly._sync.claim",
    "once": "duly._sync.once",
    "receive": "duly._sync.receive",
    "send": "duly._sync.caller_send",
}

if TYPE_CHECKING:
    from duly._core.contract import Contract as Contract
    from duly._core.occurrence import Occurrence as Occurrence
    from duly._core.policies import Retry as Retry
    from duly._core.start import Start as Start
    from duly._core.states import Disposition as Disposition
    from duly._core.states import Outcome as Outcome
    from duly._core.timing import Interval as Interval
    from duly._sync.app import App as App
    from duly._sync.caller_send import send as send
    from duly._sync.claim import Claim as Claim
    from duly._sync.claim import claim as claim
    from duly._sync.incoming import Incoming as Incoming
    from duly._sync.once import OnceRun as OnceRun
    from duly._sync.once import once as once
    from duly._sync.receive import InboxReceipt as InboxReceipt
    from duly._sync.receive import receive as receive
    from duly._sync.receiving import Receipt as Receipt
    from duly._sync.refusals import Result as Result
    from duly._sync.run import Run as Run
    from duly.calendars import Calendar as Calendar
    from duly.errors import *  # noqa: F403 - the tree is public as a whole
    from duly.schedules.business import BusinessDays as BusinessDays
    from duly.schedules.cron import Cron as Cron
    from duly.schedules.dates import Dates as Dates
    from duly.schedules.every import Every as Every
    from duly.schedules.on_calendar import OnCalendar as OnCalendar
    from duly.schedules.rrule import RRule as RRule


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    else:
        errors = import_module("duly.errors")
        if name not in errors.__all__:
            raise AttributeError(f"module 'duly' has no attribute {name!r}")
        value = getattr(errors, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *import_module("duly.errors").__all__})
