"""`duly deliver`: a relay of its own process.

Decides what a signal means: what is under way is waited for and written down.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from duly._cli import exits, output, words
from duly._cli.settings import Settings, options

if TYPE_CHECKING:
    from collections.abc import Iterator


@click.command()
@click.option("--once", is_flag=True, help="Come back when nothing is left that is due now.")
@click.option(
    "--destination",
    "destinations",
    metavar="NAME",
    multiple=True,
    help="Serve this one; may be repeated.  [default: all]",
)
@click.option(
    "--poll",
    type=words.seconds,
    metavar="SECONDS",
    default="5",
    show_default=True,
    help="How often the outbox is looked at, at least.",
)
@options()
@click.pass_obj
def deliver(settings: Settings, *, once: bool, destinations: tuple[str, ...], poll: float) -> int:
    """Send the messages that are due, until SIGTERM or Ctrl-C.

    Any number of hosts may do it at once, beside `duly worker`. A signal lets what is under way
    end; a second one does not wait, and leaves it in doubt.
    """
    from duly._cli.app_loading import load

    app = load(settings, code_for="deliver")
    with _stopping() as stop:
        done = app.deliver(once=once, only=destinations, stop=stop, poll=poll)
    if settings.json:
        output.say_json(asdict(done))
    else:
        output.say(", ".join(f"{count} {name}" for name, count in asdict(done).items()))
    return exits.OK


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that the first signal sets; the next one does what it did before."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def arrived(number: int, _frame: object) -> None:
        signal.signal(number, before[number])
        stop.set()

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) not in {signal.SIG_IGN, None}:
                before[number] = signal.signal(number, arrived)
    try:
        yield stop
    finally:
        for heard, action in before.items():
            signal.signal(heard, action)
