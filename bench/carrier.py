"""One carrier, measured by the Python of its own environment; told and telling in JSON.

    .bench/procrastinate/bin/python bench/carrier.py CARRIER < told.json

Messages are enqueued in batches, each in the transaction of as many changes, and then delivered to
an HTTP receiver. What is measured is this process: its time, and its processor seconds.
"""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).parent))

from place import Place
from receiver import seen

if TYPE_CHECKING:
    from collections.abc import Callable


def measured(carrier: str, told: dict[str, Any]) -> dict[str, float]:
    """Messages a second, and processor milliseconds for each, both ways.

    Raises:
        AssertionError: A change or a message is missing, or one was sent twice.
    """
    module = import_module(f"carriers.{carrier}")
    place, url, batch = Place(**told["place"]), told["url"], told["batch"]
    module.prepare(place)
    its = module.Carrier(place, url, told["senders"])
    its.enqueue(batch)  # connects, imports, prepares
    its.deliver(batch)
    seen(url)
    before = units(place)
    batches = told["batches"]
    said = {
        **rate("enqueue", batches * batch, lambda: [its.enqueue(batch) for _ in range(batches)]),
        **rate("deliver", batches * batch, lambda: its.deliver(batches * batch)),
    }
    its.close()
    assert units(place) - before == batches * batch * 10
    assert seen(url) == (batches * batch, batches * batch)
    return said


def rate(what: str, messages: int, work: Callable[[], object]) -> dict[str, float]:
    cpu_s, began = time.process_time(), time.perf_counter()
    work()
    took_s, cpu_s = time.perf_counter() - began, time.process_time() - cpu_s
    return {f"{what}_rate": messages / took_s, f"{what}_cpu_ms": cpu_s / messages * 1e3}


def units(place: Place) -> int:
    ((found,),) = place.rows("SELECT sum(units) FROM account")
    return int(found)


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], json.load(sys.stdin))))
