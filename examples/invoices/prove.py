"""Bills 1,000 accounts while everything is killed at random for a minute, then counts.

    python examples/invoices/prove.py                 # a minute; --seconds, --accounts, --seed

Two workers, two relays, the payment provider, the mail server and the database are killed with
SIGKILL, one after another, and started again. Then the killing stops, the rest is done, and the
proof is read from the three sides: invoices in our database, payments at the provider, mails at
the mail server. Run it from a checkout, after `make test` has installed PostgreSQL; it starts
a server of its own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1]))

from tests.servers.postgresql import PostgresServer  # noqa: E402 - after the path to it

REST_SECONDS = 600
BUSINESS = """
CREATE TABLE account (id TEXT PRIMARY KEY, active BOOLEAN NOT NULL);
CREATE TABLE invoice (
    id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account (id), month TEXT NOT NULL, amount INTEGER NOT NULL
);
"""


@dataclass
class Process:
    """One program of the scene, which can be killed and comes back."""

    name: str
    command: list[str]
    folder: Path
    environment: dict[str, str]
    running: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log.txt").open("ab") as log:
            self.running = subprocess.Popen(
                [sys.executable, *self.command],
                cwd=HERE,
                env={**os.environ, **self.environment},
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        if self.running is not None:
            self.running.kill()
            self.running.wait()

    def stop(self) -> None:
        if self.running is not None:
            self.running.send_signal(signal.SIGTERM)
            try:
                self.running.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()


@dataclass
class Scene:
    """All programs, and what each of the three sides holds.

    Attributes:
        kills: How often each program was killed.
    """

    folder: Path
    server: PostgresServer
    url: str
    environment: dict[str, str]
    processes: list[Process]
    kills: Counter[str] = field(default_factory=Counter)

    def duly(self, *arguments: str) -> Any:
        """What a command of duly's prints as JSON."""
        done = subprocess.run(
            [sys.executable, "-m", "duly", "--app", "billing:app", "--json", *arguments],
            cwd=HERE,
            env={**os.environ, **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"duly {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    def ask(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of our database."""
        with closing(self.server.connect(self.server.database_of(self.url))) as connection:
            rows: list[tuple[Any, ...]] = connection.execute(sql).fetchall()
            return rows

    def kill_one(self, draw: random.Random) -> None:
        """Kills one program, or the database, and starts it again at once."""
        victim = draw.choice([*self.processes, None])
        if victim is None:
            self.kills["database"] += 1
            self.server.kill()
            self.server.start()
            return
        self.kills[victim.name] += 1
        victim.kill()
        victim.start()

    def left(self) -> tuple[int, int]:
        """Invoices that are not written, and messages whose fate is not yet known."""
        ((accounts,),) = self.ask("SELECT COUNT(*) FROM account WHERE active")
        ((invoices,),) = self.ask("SELECT COUNT(*) FROM invoice")
        ((open_messages,),) = self.ask(
            "SELECT COUNT(*) FROM duly_outbox WHERE state IN ('pending', 'sending')"
        )
        return accounts - invoices, open_messages


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--accounts", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=None)
    options = parser.parse_args()
    seed = random.randrange(2**31) if options.seed is None else options.seed
    draw = random.Random(seed)
    with ExitStack() as stack:
        scene = _set(stack, options.accounts)
        print(f"{options.accounts} accounts; kills for {options.seconds:g} s (--seed {seed})")
        for each in scene.processes:
            each.start()
            stack.callback(each.kill)
        ends = time.monotonic() + options.seconds
        while time.monotonic() < ends:
            time.sleep(draw.uniform(0.2, 1.5))
            scene.kill_one(draw)
        for each in scene.processes:  # whatever was just killed
            if each.running is None or each.running.poll() is not None:
                each.start()
        _rest(scene)
        for each in reversed(scene.processes):
            each.stop()
        return _prove(scene, options.accounts)


def _set(stack: ExitStack, accounts: int) -> Scene:
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="invoices-")))
    server = PostgresServer.create()
    stack.callback(server.close)
    url = server.create_database()
    payments, mail = _free_port(), _free_port()
    environment = {
        "BILLING_DATABASE": url,
        "BILLING_PAYMENTS": f"http://127.0.0.1:{payments}/payments",
        "BILLING_MAIL_PORT": str(mail),
    }
    duly = ["-m", "duly", "--app", "billing:app"]
    programs = {
        "payment provider": ["provider.py", str(payments), str(folder / "provider.db")],
        "mail server": ["mail_server.py", str(mail), str(folder / "mails.txt")],
        "worker 1": [*duly, "worker", "--poll", "1"],
        "worker 2": [*duly, "worker", "--poll", "1"],
        "relay 1": [*duly, "deliver"],
        "relay 2": [*duly, "deliver"],
    }
    processes = [Process(name, command, folder, environment) for name, command in programs.items()]
    scene = Scene(folder, server, url, environment, processes)
    with closing(server.connect(server.database_of(url))) as connection:
        connection.execute(BUSINESS)
        connection.execute(
            "INSERT INTO account SELECT 'a-' || number, true FROM generate_series(1, %s) AS number",
            [accounts],
        )
        connection.commit()
    scene.duly("init")
    return scene


def _rest(scene: Scene) -> None:
    """Waits until nothing is left to do; what is dead is sent again, as the runbook says."""
    deadline = time.monotonic() + REST_SECONDS
    while True:
        invoices, messages = scene.left()
        dead = scene.ask("SELECT COUNT(*) FROM duly_outbox WHERE state = 'dead'")[0][0]
        if dead:
            print(f"an operator sends {dead} dead messages again")
            scene.duly("outbox", "redrive", "--state", "dead", "--reason", "its relays were killed")
        elif invoices == messages == 0:
            return
        if time.monotonic() > deadline:
            print(f"still open after {REST_SECONDS} s: {invoices} invoices, {messages} messages")
            return
        time.sleep(0.5)


def _prove(scene: Scene, accounts: int) -> int:
    print("killed:", ", ".join(f"{name} {count} x" for name, count in scene.kills.most_common()))
    invoices = Counter(each for (each,) in scene.ask("SELECT account_id FROM invoice"))
    with closing(sqlite3.connect(scene.folder / "provider.db")) as connection:
        payments = Counter(row[0] for row in connection.execute("SELECT account FROM payment"))
        again = connection.execute("SELECT COALESCE(SUM(duplicates), 0) FROM duly_inbox").fetchone()
    mails = Counter((scene.folder / "mails.txt").read_text().splitlines())
    fates = {
        str(message): state
        for message, state in scene.ask(
            "SELECT id, state FROM duly_outbox WHERE destination = 'mail'"
        )
    }
    arrived = {line.split("@")[0].removeprefix("<") for line in mails}
    uncertain = {each for each, state in fates.items() if state == "uncertain"}
    lost = {each for each, state in fates.items() if state == "sent"} - arrived
    doubles = sum(mails.values()) - len(mails)
    checks = {
        f"{len(invoices)} invoices, each once": _once(invoices, accounts),
        f"{len(payments)} payments at the provider, each once"
        f" ({again[0]} requests came again and were answered)": _once(payments, accounts),
        f"{len(arrived - uncertain)} mails and {len(uncertain)} uncertain"
        f" ({len(uncertain & arrived)} of which had arrived), {doubles} twice": (
            len(fates) == accounts
            and len((arrived & fates.keys()) | uncertain) == accounts
            and doubles == 0
        ),
        f"{len(lost)} mails said to be sent that never came": not lost,
    }
    for said, holds in checks.items():
        print("ok  " if holds else "FAIL", said)
    if uncertain:
        named = scene.duly("outbox", "list", "--state", "uncertain", "--limit", "3")
        print("uncertain, for a person:", json.dumps(named)[:300])
    holds = all(checks.values())
    print("nothing lost, nothing twice" if holds else "the promise does not hold")
    return 0 if holds else 1


def _once(found: Counter[str], accounts: int) -> bool:
    return len(found) == accounts and set(found.values()) == {1}


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
