"""What an occurrence costs beyond time: syncs, commits, round trips, processor.

Each is the difference of a long and a short run, so that what connecting costs is in none of them.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from wire import Wire
from worker import Workers

if TYPE_CHECKING:
    from place import Place


def costs(contender: str, place: Place, count: int, *, again: bool = False) -> dict[str, float]:
    """By name: client_s, and on a server server_s, syncs, commits, trips; else syncs if traced.

    Args:
        contender: Whose.
        place: Where; nobody else may be at work there.
        count: Occurrences of the long run.
        again: Refused duplicates instead.
    """
    few, many = count // 10, count
    if place.name == "sqlite":
        client_s = _by(contender, place, many, again=again)
        found = {"client_s": client_s}
        if shutil.which("strace") is not None:
            seen = [_file_syncs(contender, place, times, again=again) for times in (few, many)]
            found["syncs"] = (seen[1] - seen[0]) / (many - few)
        return found
    runs = []
    for times in (few, many):
        wire = Wire(place)
        began = place.counters()
        client_s = _by(contender, wire.place, times, again=again)
        ended = place.counters()
        wire.close()
        runs.append({key: ended[key] - began[key] for key in ended} | {"trips": wire.trips})
    short, long = runs
    return {
        "client_s": client_s,
        **{key: (long[key] - short[key]) / (many - few) for key in long},
    }


def _by(contender: str, place: Place, times: int, *, again: bool) -> float:
    crew = Workers(contender, place)
    cpu_s = crew.apply(times, again=again).cpu_s
    crew.close()
    return cpu_s


def _file_syncs(contender: str, place: Place, times: int, *, again: bool) -> int:
    """Fsync and fdatasync of a process, by strace."""
    with tempfile.NamedTemporaryFile() as log:
        command = ["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync,fdatasync"]
        command += ["-o", log.name, sys.executable, str(Path(__file__).with_name("worker.py"))]
        command += [contender, json.dumps(vars(place)), str(times), "AGAIN" if again else "NEW"]
        subprocess.run(command, check=True)
        return len(re.findall(rb"sync\(", log.read()))
