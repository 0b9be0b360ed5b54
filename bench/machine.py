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
    said = [
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
    used = _used_by_others()
    said.append(f"others used {used:.0%} of the processor in the second before")
    if used > 0.1:
        said[-1] += ": the machine was busy, so ratios count, and rates do not"
    return said


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


def _used_by_others(seconds: float = 1.0) -> float:
    """The part of all cores that was at work while this process slept."""
    idle, total = _ticks()
    time.sleep(seconds)
    idle_after, total_after = _ticks()
    return 1 - (idle_after - idle) / max(1, total_after - total)


def _ticks() -> tuple[int, int]:
    """Idle (and waiting for a disk), and all, of all cores, in clock ticks."""
    fields = Path("/proc/stat").read_text(encoding="utf-8").splitlines()[0].split()[1:9]
    ticks = [int(field) for field in fields]
    return ticks[3] + ticks[4], sum(ticks)


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
