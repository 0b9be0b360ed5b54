"""Plays of a relay that dies by SIGKILL at one op."""

from __future__ import annotations

import os
import signal
from collections import Counter
from datetime import timedelta
from typing import Any

import duly
from duly.channels import Http

CONTRACTS = {
    "honours": duly.Contract.idempotency_key(key_life=timedelta(days=1)),
    "forgets": duly.Contract.idempotency_key(key_life=timedelta(days=1)),
    "ignores": duly.Contract(),
}


def relay(order: dict[str, Any]) -> None:
    """Deliver once, and die before or after the n-th op of a kind."""
    app = duly.App(order["url"], started_by="dying")
    settings: dict[str, Any] = {"contract": CONTRACTS[order["memory"]]}
    app.destination(order["to"], Http(order["peer"]), **settings)
    seen = Counter[tuple[str, str]]()

    def probe(when: str, op: Any, _shell: Any) -> None:
        name = type(op).__name__
        seen[name, when] += 1
        if (name, when, seen[name, when]) == (order["op"], order["when"], order["nth"]):
            os.kill(os.getpid(), signal.SIGKILL)

    app._probe = probe
    app.deliver(once=True)
