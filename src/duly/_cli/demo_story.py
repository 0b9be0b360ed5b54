"""The steps of `duly demo`: what is done, and what must then be true.

Decides whether each promise held, by reading the business table and the ledger, never by
trusting a return value alone. It must never touch a table that it did not make.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import text

from duly._cli import demo_worker
from duly._core.states import Outcome
from duly.errors import DulyError, OperatorError, PayloadConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from duly._core.evidence import Attempt
    from duly._core.occurrence import Occurrence
    from duly._sync.app import App
    from duly._sync.run import Run

TABLE = "duly_demo_balance"
JOB = "daily-credit"
UNITS = 10
WORKERS = 8
PATIENCE_S = 20.0


@dataclass(frozen=True)
class Step:
    """One thing that was done.

    Attributes:
        title: What was done.
        found: What was there afterwards.
        kept: The promise held.
    """

    title: str
    found: str
    kept: bool


class PowerCut(Exception):
    """What goes wrong in the first attempt."""


class Story:
    """The demo on one database, its tables made here.

    Attributes:
        facts: What was found, by name; the last line of the demo.
        days: Two nominal times of the daily job, the older first.
    """

    def __init__(self, app: App) -> None:
        self.app = app
        self.facts: dict[str, Any] = {}
        self._fails = False
        app.job(JOB, schedule="0 0 * * *", payload={"units": UNITS})(self._credit)
        app.job(demo_worker.JOB, schedule="0 0 1 * *", payload=demo_worker.PAYLOAD)(_interest)
        newest = app.occurrence(JOB).nominal_time
        self.days = (newest - timedelta(days=1), newest)
        self._month = app.occurrence(demo_worker.JOB)

    def set_up(self) -> None:
        """Make the business table: two accounts, both at zero."""
        with self.app.database.engine.begin() as connection:
            connection.execute(
                text(f"CREATE TABLE {TABLE} (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
            )
            connection.execute(text(f"INSERT INTO {TABLE} (id, units) VALUES (1, 0), (2, 0)"))  # noqa: S608

    def clean_up(self) -> None:
        """Drop the business table."""
        with self.app.database.engine.begin() as connection:
            connection.execute(text(f"DROP TABLE {TABLE}"))

    def steps(self) -> Iterator[Step]:
        """Do the next thing, and look."""
        yield self._an_attempt_raises()
        yield self._eight_start_together()
        yield self._a_replay()
        yield self._another_day()
        yield self._a_worker_is_killed()
        yield self._the_retry()
        yield self._another_payload()

    # The steps

    def _an_attempt_raises(self) -> Step:
        self._fails = True
        try:
            said = _outcome(lambda: self.app.run(JOB, self.days[0]).outcome)
        finally:
            self._fails = False
        failed = [a for a in self._attempts(JOB) if a.outcome is Outcome.FAILED]
        left = self._units(1) != 0 or self._settled(self._day(0))
        kept = said == "PowerCut" and len(failed) == 1 and not left
        self.facts["rolled_back_attempt_left_no_state"] = kept
        return Step(
            "an attempt raises after its update",
            f"{'kept' if left else 'rolled back'}: {self._units(1)} units, key still free",
            kept,
        )

    def _eight_start_together(self) -> Step:
        ready = threading.Barrier(WORKERS)

        def start(_number: int) -> str:
            ready.wait(PATIENCE_S)
            return _outcome(lambda: self.app.run(JOB, self.days[0], wait=PATIENCE_S).outcome)

        with ThreadPoolExecutor(WORKERS) as pool:
            ended = list(pool.map(start, range(WORKERS)))
        applied, duplicates = ended.count("applied"), ended.count("duplicate")
        self.facts |= {"concurrent_applied": applied, "concurrent_duplicates": duplicates}
        odd = "".join(f", {word}" for word in ended if word not in {"applied", "duplicate"})
        return Step(
            f"{WORKERS} workers start {self.days[0]:%Y-%m-%d} together",
            f"{applied} applied, {duplicates} duplicates{odd}: {self._units(1)} units",
            (applied, duplicates, self._units(1)) == (1, WORKERS - 1, UNITS),
        )

    def _a_replay(self) -> Step:
        self.facts["replay_outcome"] = _outcome(lambda: self.app.run(JOB, self.days[0]).outcome)
        return Step(
            f"{self.days[0]:%Y-%m-%d} is started once more",
            f"{self.facts['replay_outcome']}: still {self._units(1)} units",
            self.facts["replay_outcome"] == "duplicate" and self._units(1) == UNITS,
        )

    def _another_day(self) -> Step:
        said = _outcome(lambda: self.app.run(JOB, self.days[1]).outcome)
        done = {a.occurrence.key for a in self._attempts(JOB) if a.outcome is Outcome.APPLIED}
        self.facts |= {
            "other_day_outcome": said,
            "final_units": self._units(1),
            "completed_logical_jobs": len(done),
        }
        return Step(
            f"{self.days[1]:%Y-%m-%d} is started",
            f"{said}: {self._units(1)} units, {len(done)} days completed",
            said == "applied" and self._units(1) == 2 * UNITS and len(done) == 2,
        )

    def _a_worker_is_killed(self) -> Step:
        seen = self._start_and_kill_worker()
        no_state = self._units(2) == 0 and not self._settled(self._month)
        abandoned = _within(
            PATIENCE_S,
            lambda: any(a.outcome is Outcome.ABANDONED for a in self._attempts(demo_worker.JOB)),
        )
        self.facts |= {
            "running_worker_seen": seen,
            "killed_worker_left_no_state": no_state,
            "abandoned_recorded": abandoned,
        }
        recorded = "recorded as abandoned" if abandoned else "no record of it"
        return Step(
            "kill -9 of a worker after its update",
            f"{self._units(2)} units, {recorded}",
            seen and no_state and abandoned,
        )

    def _the_retry(self) -> Step:
        month = self._month.nominal_time
        said = _outcome(lambda: self.app.run(demo_worker.JOB, month, wait=PATIENCE_S).outcome)
        self.facts["retry_applied"] = said == "applied" and self._units(2) == UNITS
        return Step(
            "its occurrence is started again",
            f"{said}: {self._units(2)} units",
            self.facts["retry_applied"],
        )

    def _another_payload(self) -> Step:
        before = self._units(2)
        month, other = self._month.nominal_time, {"units": 999}
        try:
            said = self.app.run(demo_worker.JOB, month, payload=other).outcome.value
        except PayloadConflict:
            said = "refused"
        kept = said == "refused" and self._units(2) == before
        self.facts["other_payload_refused"] = kept
        return Step("the same key with another payload", f"{said}: still {before} units", kept)

    # What they are made of

    def _credit(self, run: Run) -> None:
        run.execute(f"UPDATE {TABLE} SET units = units + :units WHERE id = 1", run.payload)  # noqa: S608
        if self._fails:
            raise PowerCut("the power is gone")
        time.sleep(0.05)  # so that the rivals have to wait for this transaction

    def _start_and_kill_worker(self) -> bool:
        """Returns whether the worker was seen to be under way while it lived."""
        url = self.app.database.engine.url.render_as_string(hide_password=False)
        told = {"url": url, "schema": self.app.database.explicit_schema, "at": _text(self._month)}
        command = [sys.executable, "-P", "-m", demo_worker.__name__]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with subprocess.Popen(  # noqa: S603 - our own module
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as worker:
            late = threading.Timer(PATIENCE_S, worker.kill)
            late.start()
            try:
                assert worker.stdin is not None
                assert worker.stdout is not None
                worker.stdin.write(json.dumps(told) + "\n")
                worker.stdin.flush()
                if worker.stdout.readline().strip() != "updated":
                    worker.kill()
                    assert worker.stderr is not None
                    last = worker.stderr.read().strip().splitlines()[-1:]
                    raise OperatorError(f"the demo's worker could not start: {''.join(last)}")
                return _within(
                    PATIENCE_S / 2, lambda: bool(self.app.history(demo_worker.JOB).running)
                )
            finally:
                late.cancel()
                worker.kill()

    def _day(self, index: int) -> Occurrence:
        return self.app.occurrence(JOB, self.days[index])

    def _units(self, account: int) -> int:
        with self.app.database.engine.begin() as connection:
            query = text(f"SELECT units FROM {TABLE} WHERE id = :id")  # noqa: S608
            return int(connection.execute(query, {"id": account}).scalar_one())

    def _settled(self, occurrence: Occurrence) -> bool:
        return self.app.explain(occurrence).settled is not None

    def _attempts(self, job: str) -> tuple[Attempt, ...]:
        return self.app.history(job).attempts


def _interest(run: Run) -> None:
    run.execute(demo_worker.CHANGE, run.payload)


def _outcome(start: Callable[[], Outcome]) -> str:
    """The outcome of a start, or the name of what it raised."""
    try:
        return start().value
    except DulyError as error:
        return error.code
    except PowerCut as error:
        return type(error).__name__


def _text(occurrence: Occurrence) -> str:
    return occurrence.nominal_time.isoformat()


def _within(seconds: float, true: Callable[[], bool]) -> bool:
    """Whether it became true in time."""
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
