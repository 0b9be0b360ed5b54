"""What others cost and hold for the same work: `make bench-peers`; writes bench/PEERS.md.

    python bench/peers.py                    # all
    python bench/peers.py --small huey       # one, in seconds, and no file is written

Each peer is installed from PyPI into a virtual environment of its own under `.bench/`, and measured
there on a PostgreSQL server of this program's own. What cannot be installed is named.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(ROOT), str(HERE)]

import machine  # noqa: E402 - after the path to them
import peers_report  # noqa: E402
from place import Place  # noqa: E402

from tests.servers.postgresql import PostgresServer  # noqa: E402
from tests.servers.program import UnavailableError  # noqa: E402
from tests.servers.redis import RedisServer  # noqa: E402

DRIVER = "psycopg[binary]==3.3.9"


class Peer(NamedTuple):
    """One that is measured.

    Attributes:
        contender: Its file in contenders/.
        wants: What pip installs, the peer first; none for what this Python has.
        settings: How it is set up, in words.
        python: The least version it runs on.
    """

    contender: str
    wants: tuple[str, ...]
    settings: str
    python: tuple[int, int] = (3, 11)


PEERS = {
    "by hand": Peer(
        "by_hand", (DRIVER,), "BEGIN, INSERT key, UPDATE, COMMIT: what they are beside"
    ),
    "no key": Peer("bare", (), "UPDATE, COMMIT: the control that must double"),
    "dbos": Peer(
        "dbos_workflow",
        ("dbos==3.4.0",),
        "workflow id = key; the change in a transaction of its SQLAlchemy datasource (SERIALIZABLE,"
        " its default); system tables in the same database",
    ),
    "procrastinate": Peer(
        "procrastinate_job",
        ("procrastinate==3.10.0",),
        "queueing lock = key; 100 deferred, then worked off by a worker in the process; stalled"
        " jobs retried at the start, as its documentation tells",
    ),
    "pgqueuer": Peer(
        "pgqueuer_job",
        ("pgqueuer==1.6.0",),
        "dedupe key = key; 100 enqueued, then awaited from a worker in the process; a job without a"
        " heartbeat for 2 s is taken again, looked for every 0.5 s",
    ),
    "oban": Peer(
        "oban_job",
        ("oban==0.7.0",),
        "no key (its open version has no unique jobs); 100 enqueued, then awaited from a queue in"
        " the process; an executing job is rescued after 2 s",
        (3, 12),
    ),
    "apscheduler": Peer(
        "apscheduler_job",
        ("apscheduler==3.11.3", "sqlalchemy"),
        "job id = key, due now, SQLAlchemy job store; 100 added, then awaited; many processes share"
        " the store, which its documentation advises against: a scheduler then ends with an error",
    ),
    "powertools": Peer(
        "powertools_idempotency",
        ("aws-lambda-powertools==3.37.0", "redis", "boto3"),
        "idempotent function, records in Redis (synced at each write); a record in progress is void"
        " after 200 ms",
    ),
    "huey": Peer(
        "huey_task",
        ("huey==3.5.4",),
        "SQLite storage with fsync; `put_if_empty` of the key, then the change; queue and consumer"
        " in the process",
    ),
}
PLACES = ("alone", "many", "costs", "race", "fate")


def installed(name: str, peer: Peer, folder: Path) -> Path:
    """The Python of a virtual environment that has the peer.

    Raises:
        UnavailableError: It cannot be installed here.
    """
    if not peer.wants:
        return Path(sys.executable)
    base = _python(peer.python)
    python = folder / name.replace(" ", "-") / "bin" / "python"
    stamp = python.parents[1] / "installed.json"
    wants = [*peer.wants, DRIVER]
    if not stamp.exists() or json.loads(stamp.read_text("utf-8")) != wants:
        command = [base, "-m", "venv", "--clear", str(python.parents[1])]
        subprocess.run(command, check=True)
        command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = subprocess.run([*command, *wants], capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnavailableError(f"pip cannot install it: {done.stderr.strip().splitlines()[-1]}")
        stamp.write_text(json.dumps(wants), encoding="utf-8")
    return python


def _python(least: tuple[int, int]) -> str:
    """A Python that is new enough: this one, or one that the PATH has."""
    if sys.version_info >= least:
        return sys.executable
    for minor in range(14, least[1] - 1, -1):
        found = shutil.which(f"python3.{minor}")
        works = [str(found), "-c", "import ensurepip, sqlite3, ssl"]
        if found and subprocess.run(works, capture_output=True, check=False).returncode == 0:
            return found
    raise UnavailableError(f"its releases need Python {least[0]}.{least[1]}, and none is here")


def measured(python: Path, peer: Peer, server: Any, env: dict[str, str], small: bool) -> Any:
    """What bench/peer.py says of it.

    Raises:
        UnavailableError: It could not be measured at all.
    """
    pid = int((server.directory / "data/postmaster.pid").read_text().split()[0])
    places = {}
    for name in PLACES:
        place = Place("postgresql", server.create_database(), pid)
        place.prepare()
        places[name] = vars(place)
    done = subprocess.run(
        [str(python), str(HERE / "peer.py"), peer.contender],
        input=json.dumps({"places": places, "small": small}),
        env=os.environ | env,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        raise UnavailableError(f"its measuring ended with {done.returncode}")
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description="What peers cost and hold for the same work.")
    parser.add_argument("peers", nargs="*", metavar="peer", help=", ".join(PEERS))
    parser.add_argument("--small", action="store_true", help="seconds each, and no file is written")
    wanted = parser.parse_args()
    if odd := set(wanted.peers) - set(PEERS):
        parser.error(f"no such peer: {', '.join(sorted(odd))}")
    began = time.monotonic()
    about = machine.facts(tempfile.gettempdir(), ())
    found: dict[str, Any] = {}
    absent: dict[str, str] = {}
    syncs_ms = []
    with ExitStack() as stack:
        server = PostgresServer.create()
        stack.callback(server.close)
        env = {
            "BENCH_FOLDER": stack.enter_context(tempfile.TemporaryDirectory(prefix="duly-bench-"))
        }
        try:
            redis = RedisServer.create()
            stack.callback(redis.close)
            env["BENCH_REDIS"] = redis.url
        except UnavailableError as error:
            absent["powertools"] = str(error)
        for name in wanted.peers or PEERS:
            if name in absent:
                continue
            start = time.monotonic()
            try:
                python = installed(name, PEERS[name], ROOT / ".bench")
                syncs_ms.append(machine.sync_ms(str(server.directory)))
                found[name] = measured(python, PEERS[name], server, env, wanted.small)
            except UnavailableError as error:
                absent[name] = str(error)
            print(f"{name}: {time.monotonic() - start:.0f} s", file=sys.stderr, flush=True)
    about.append(
        f"load at the end {machine.load()}; an append and its sync took {min(syncs_ms):.2f} to"
        f" {max(syncs_ms):.2f} ms beside it; the run took {time.monotonic() - began:.0f} s"
    )
    text = peers_report.written(PEERS, found, absent, about)
    print(text)
    if not wanted.small:
        (HERE / "PEERS.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
