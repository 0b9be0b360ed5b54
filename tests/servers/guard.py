"""Runs one server for its owner and never lets it outlive the owner.

    python -m tests.servers.guard DIRECTORY UID GID SIGNAL COMMAND...

Prints the server's pid. Standard input is a pipe whose other end the owner holds: its end of file
means that the owner is gone (also by SIGKILL), so the server is ended, by SIGNAL or by force, and
DIRECTORY removed. When the server ends first, the guard ends with it and leaves DIRECTORY as it is:
the owner may restart the server.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

from tests.servers.processes import Account, kill_whole

GRACE_SECONDS = 10


def main(directory: Path, account: Account, quick_signal: int, command: list[str]) -> None:
    with (directory / "server.log").open("ab") as log:
        server = subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            **account.popen_arguments(),
        )
    print(server.pid, flush=True)  # noqa: T201 - the owner reads it
    orphaned = threading.Event()
    threading.Thread(target=_leave_with, args=[server, orphaned], daemon=True).start()
    sys.stdin.buffer.read()
    orphaned.set()
    server.send_signal(quick_signal)
    try:
        server.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        kill_whole(server.pid)
    shutil.rmtree(directory, ignore_errors=True)


def _leave_with(server: subprocess.Popen[bytes], orphaned: threading.Event) -> None:
    server.wait()
    if not orphaned.is_set():  # else it was we who killed it, and the directory is ours to remove
        os._exit(0)


if __name__ == "__main__":
    uid, gid, number = (int(argument) for argument in sys.argv[2:5])
    main(Path(sys.argv[1]), Account(uid, gid), number, sys.argv[5:])
