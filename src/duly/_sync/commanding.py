"""A command as the work of an occurrence: its environment, its SQL, what is kept of it.

Decides what an exit status means for the occurrence. It must never commit, and never run the
command twice in one start.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
import time
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._core import commands, ops
from duly._core.payload import canonical
from duly._core.protocol import attempt
from duly._core.redact import redact
from duly._db.script import SCRIPT_BYTES_MAX, parse
from duly._sync import command
from duly._sync.scripts import check_names, members, perform
from duly.errors import CommandFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duly._core.occurrence import Occurrence
    from duly._db.connect import Database
    from duly._sync.run import Run

RETRY, HOLD = "retry", "hold"


class Commanding:
    """A handler whose work is a command.

    Args:
        after_crash: `retry`: complete it after the command; `hold`: take the key before.

    Attributes:
        duly_protocol: By which an attempt goes on; its work is beside the transaction.
        run: For which the command was started; None before.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        database: Database,
        *,
        after_crash: str,
        timeout_s: float | None = None,
        grace_s: float = 10.0,
    ) -> None:
        self.run: Run | None = None
        self._arguments = arguments
        self._database = database
        self._bounds = {"timeout_s": timeout_s, "grace_s": grace_s}
        self._folder: Path | None = None
        self._turn: int | None = None
        self._ran: ops.Ran | None = None
        self._ended: command.Ended | None = None
        if after_crash == HOLD:
            self.duly_protocol = commands.hold
        elif database.path is not None:
            self.duly_protocol = commands.outside
        else:
            self.duly_protocol = attempt

    def __call__(self, run: Run) -> dict[str, Any]:
        """Run the command if it has not run in this start, then apply the SQL that it wrote."""
        ran = self.ran(run)
        if ran.error is not None:
            raise ran.error
        assert self._ended is not None
        kept: dict[str, Any] = {"status": 0, **self._tails()}
        assert self._folder is not None
        with (self._folder / "out.sql").open("rb") as file:
            data = file.read(SCRIPT_BYTES_MAX + 1)
        if data.strip():
            dialect = self._database.dialect
            script = parse(data, dialect, where="$DULY_SQL_OUT")
            given = members(run.payload)
            check_names(script, given)
            kept["sql"] = perform(run, script, given, dialect=dialect)
        return kept

    def take_turn(self, occurrence: Occurrence, wait_s: float) -> None:
        """Lock this key's file beside the SQLite file, so that one start at a time runs it.

        Raises:
            Contention: Another start had it for all of the wait.
        """
        folder = Path(f"{self._database.path}-duly")
        folder.mkdir(exist_ok=True)
        name = sha256(occurrence.key.encode()).hexdigest()[:32]
        until = time.monotonic() + wait_s
        # Never unlinked: a waiter would lock a file that the next one cannot see.
        self._turn = os.open(folder / f"exec-{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
        while True:
            try:
                fcntl.flock(self._turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    raise ops.Contention(error) from error
                time.sleep(0.05)

    def ran(self, run: Run) -> ops.Ran:
        """How the command ended; it is run once."""
        if self._ran is None:
            self.run = run
            self._folder = Path(tempfile.mkdtemp(prefix="duly-exec-"))
            out = self._folder / "out.sql"
            out.touch(0o600)
            environment = {**os.environ, **environment_of(run), "DULY_SQL_OUT": str(out)}
            try:
                self._ended = command.run(self._arguments, environment, **self._bounds)  # type: ignore[arg-type]
            except (OSError, ValueError) as error:
                self._ran = ops.Ran(CommandFailed(f"the command could not be started: {error}"))
            else:
                self._ran = self._judged(self._ended)
        return self._ran

    def close(self) -> None:
        """Let go of the key's file and of what the command wrote."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._turn is not None:
            os.close(self._turn)

    def _judged(self, ended: command.Ended) -> ops.Ran:
        if ended.status == 0 and not ended.timed_out:
            return ops.Ran()
        if ended.timed_out:
            how = f"took longer than its --timeout of {self._bounds['timeout_s']:g} s and was ended"
        elif ended.status < 0:
            how = f"was killed by {signal.Signals(-ended.status).name}"
        else:
            how = f"ended with exit status {ended.status}"
        tails = self._tails()
        said = tails["stderr"] or tails["stdout"]
        last = f": {said.splitlines()[-1][:300]}" if said.strip() else ""
        reported = ended.status > 0 and not ended.timed_out
        error = CommandFailed(f"the command {how}{last}", status=ended.status, **tails)
        if said.strip():
            error.add_note(said)  # kept with the attempt, below its traceback
        return ops.Ran(error, reported)

    def _tails(self) -> dict[str, str]:
        assert self._ended is not None
        return {
            name: redact(tail, self._database.secrets) for name, tail in self._ended.tails.items()
        }


def environment_of(run: Run) -> dict[str, str]:
    """What the command is told of its occurrence."""
    found = {
        "DULY_KEY": run.key,
        "DULY_JOB": run.occurrence.job,
        "DULY_NOMINAL_TIME": run.nominal_time.isoformat().replace("+00:00", "Z"),
        "DULY_LOCAL_DATE": run.local_date.isoformat(),
        "DULY_PARTITION": run.partition,
        "DULY_ATTEMPT": str(run.attempt),
        "DULY_PAYLOAD": canonical(run.payload).text,
    }
    try:
        interval = run.interval
    except UsageError:
        return found  # no schedule, or nothing precedes it
    ends = {"DULY_INTERVAL_START": interval.start, "DULY_INTERVAL_END": interval.end}
    return found | {name: at.isoformat().replace("+00:00", "Z") for name, at in ends.items()}
