"""A command as the work of an occurrence: its environment, its SQL, what is kept of it.

Decides what an exit status means for the occurrence. It must never commit, and never run the
command twice in one start.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duly._core import commands, ops
from duly._core.payload import canonical
from duly._core.protocol import attempt
from duly._core.redact import redact
from duly._db.script import SCRIPT_BYTES_MAX, check_backslashes, parse
from duly._sync import command
from duly._sync.scripts import check_names, members, perform
from duly._sync.turns import Turn, Turns
from duly.errors import CommandFailed, ScriptInvalid, UsageError

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
        self._turn: Turn | None = None
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
        data = self._written()
        if data.strip():
            dialect = self._database.dialect
            script = parse(data, dialect, where="$DULY_SQL_OUT")
            given = members(run.payload)
            check_names(script, given, step="let the command write its value in its place")
            check_backslashes(script, dialect, lambda query: run.execute(query).scalar())
            kept["sql"] = perform(run, script, given, dialect=dialect)
        return kept

    def take_turn(self, occurrence: Occurrence, wait_s: float) -> None:
        """Lock this key's file beside the SQLite file, so that one start at a time runs it.

        Raises:
            Contention: Another start had it for all of the wait.
            AccessDenied: The file cannot be made or written.
        """
        turns = Turns(Path(f"{self._database.path}-duly"))
        until = time.monotonic() + wait_s
        while (turn := turns.take(occurrence.key)) is None:
            if time.monotonic() >= until:
                raise ops.Contention(TimeoutError("another start runs its command"))
            time.sleep(0.05)
        self._turn = turn

    def ran(self, run: Run) -> ops.Ran:
        """How the command ended; it is run once."""
        if self._ran is None:
            self.run = run
            try:
                environment = {**os.environ, **environment_of(run), "DULY_SQL_OUT": self._out()}
                self._ended = command.run(self._arguments, environment, **self._bounds)  # type: ignore[arg-type]
            except (command.NotStarted, OSError) as error:
                self._ran = ops.Ran(CommandFailed(f"the command could not be started: {error}"))
            else:
                self._ran = self._judged(self._ended)
        return self._ran

    def _out(self) -> str:
        """A file of its own for the SQL that the command may write."""
        self._folder = Path(tempfile.mkdtemp(prefix="duly-exec-"))
        out = self._folder / "out.sql"
        out.touch(0o600)
        return str(out)

    def _written(self) -> bytes:
        """The SQL that the command wrote, no more of it than shows that it is too much."""
        assert self._folder is not None
        out = self._folder / "out.sql"
        try:
            # A pipe or a device would read as empty, and its SQL be lost as if there was none.
            if not out.is_file():
                raise FileNotFoundError(errno.ENOENT, "there is no regular file any more")
            # What a child of the command puts there now must not be waited for without end.
            descriptor = os.open(out, os.O_RDONLY | os.O_NONBLOCK)
            with open(descriptor, "rb") as file:
                return file.read(SCRIPT_BYTES_MAX + 1) or b""
        except OSError as error:
            raise ScriptInvalid(
                f"$DULY_SQL_OUT cannot be read ({error.strerror}): the command removed or replaced"
                " it; let it write to the file that is there, or leave it empty"
            ) from error

    def close(self) -> None:
        """Let go of the key's file and of what the command wrote."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        if self._turn is not None:
            self._turn.give_back()

    def _judged(self, ended: command.Ended) -> ops.Ran:
        if ended.status == 0 and not ended.timed_out:
            return ops.Ran()
        if ended.timed_out:
            how = f"took longer than its --timeout of {self._bounds['timeout_s']:g} s and was ended"
        elif ended.status < 0:
            how = f"was killed by {_name(-ended.status)}"
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


def _name(number: int) -> str:
    """What a person calls a signal; those of real time have no names."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


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
