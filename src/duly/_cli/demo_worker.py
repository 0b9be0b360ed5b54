"""The process that `duly demo` kills: it makes its change, says so, and never commits.

Decides nothing. Its database comes in by stdin, because others can read a command line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import TYPE_CHECKING

from duly._sync.app import App

if TYPE_CHECKING:
    from duly._sync.run import Run

JOB = "monthly-interest"
PAYLOAD = {"units": 10}
CHANGE = "UPDATE duly_demo_balance SET units = units + :units WHERE id = 2"
WAIT_S = 60.0
"""Longer than the demo waits before the kill; an orphan ends by itself."""


def main() -> None:
    """Start the occurrence that stdin names and stay inside its handler."""
    told = json.loads(sys.stdin.readline())
    app = App(told["url"], schema=told["schema"], started_by="demo, to be killed", evidence_after=0)

    @app.job(JOB, schedule="0 0 1 * *", payload=PAYLOAD)
    def credit(run: Run) -> None:
        run.execute(CHANGE, run.payload)
        print("updated", flush=True)
        time.sleep(WAIT_S)
        raise SystemExit("nobody killed this worker")

    app.run(JOB, told["at"])


if __name__ == "__main__":
    main()
