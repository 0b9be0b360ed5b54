"""The machine, without which a number says little, and its disk while the numbers were taken."""

from __future__ import annotations

import os
import platform
import statistics
import tempfile
import time
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


DRIVERS = ("sqlalchemy", "psycopg", "pymysql", "aiosqlite", "asyncmy")


def facts(folder: str, versions_of: Sequence[str] = DRIVERS) -> list[str]:
    """The processor, the versions and the disk."""
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in versions_of)
    return [
        (
            f"Python {platform.python_version()}, {platform.system()} {platform.machine()}, "
            f"{_cpu()}, {os.cpu_count()} cores; load at the start {load()}"
        ),
        *([versions] if versions else []),
        (
            f"data on {_file_system(folder)}; servers of the bench's own, default durability, on"
            " the same cores as the clients"
        ),
    ]


def load() -> str:
    """How busy it is: the mean of runnable processes over 1, 5 and 15 minutes."""
    return ", ".join(f"{each:.1f}" for each in os.getloadavg())


def sync_ms(folder: str, times: int = 21) -> float:
    """How long an append and its fdatasync take now; the median, in milliseconds."""
    took = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for _ in range(times):
            began = time.perf_counter()
            file.write(b"x" * 512)
            file.flush()
            os.fdatasync(file.fileno())
            took.append(time.perf_counter() - began)
    return statistics.median(took) * 1e3


def _cpu() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def _file_system(folder: str) -> str:
    best = ("", "unknown")
    for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
        _device, point, kind, *_ = line.split()
        if folder.startswith(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]
