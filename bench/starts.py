"""What a process costs that cron starts every minute: its processor seconds, by the kernel."""

from __future__ import annotations

import os
import sqlite3
import statistics
import subprocess
import sys
from contextlib import closing
from pathlib import Path

JOB = """
import duly
app = duly.App("sqlite:///{file}")
@app.job("credit")
def credit(run):
    run.execute("UPDATE account SET units = units + 10 WHERE id = 1")
"""
BY_HAND = """
import sys, time
import sqlalchemy
engine = sqlalchemy.create_engine("sqlite:///{file}")
with engine.begin() as connection:
    insert = sqlalchemy.text("INSERT INTO done VALUES (:name, :at) ON CONFLICT DO NOTHING")
    at = time.time_ns() // 1000
    if connection.execute(insert, dict(name=sys.argv[1], at=at)).rowcount:
        connection.execute(sqlalchemy.text("UPDATE account SET units = units + 10 WHERE id = 1"))
"""


def starts(folder: Path, rounds: int) -> dict[str, float]:
    """The median processor seconds of each command."""
    file = folder / "start.db"
    with closing(sqlite3.connect(file)) as raw:
        raw.execute("PRAGMA journal_mode = WAL")
        raw.execute("CREATE TABLE account (id INTEGER PRIMARY KEY, units INTEGER NOT NULL)")
        raw.execute("INSERT INTO account VALUES (1, 0)")
        raw.execute("CREATE TABLE done (name TEXT PRIMARY KEY, recorded_us INTEGER NOT NULL)")
        raw.commit()
    (folder / "job.py").write_text(JOB.format(file=file), encoding="utf-8")
    (folder / "by_hand.py").write_text(BY_HAND.format(file=file), encoding="utf-8")
    duly = str(Path(sys.executable).with_name("duly"))
    used: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        at = f"2026-01-01T00:{number:02}:00Z"
        commands = {
            "python -c pass": [sys.executable, "-c", "pass"],
            "duly --help": [duly, "--help"],
            "script by hand": [sys.executable, "by_hand.py", f"credit-{number}"],
            "duly run": [duly, "--app", "job:app", "run", "credit", "--at", at],
        }
        for name, command in commands.items():
            seconds = _cpu(command, folder)
            if number:  # the first compiles and makes the tables
                used.setdefault(name, []).append(seconds)
    return {name: statistics.median(each) for name, each in used.items()}


def _cpu(command: list[str], folder: Path) -> float:
    process = subprocess.Popen(
        command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert process.stderr is not None
    said = process.stderr.read()
    _pid, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode:
        raise RuntimeError(f"{command} ended with {process.returncode}: {said.decode()}")
    return usage.ru_utime + usage.ru_stime
