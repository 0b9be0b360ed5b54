"""Who this process is, so that another can tell whether it is still there.

A host's name is not its identity: two containers may share one. Machine, boot and pid
namespace are (PROTOCOL 20); a pid is reused, its start time is not.
"""

from __future__ import annotations

import getpass
import os
import socket
import time
import uuid
from functools import cache
from pathlib import Path

from duly._core.wording import UNSAYABLE


@cache
def host_name() -> str:
    """This host's name, for people."""
    return socket.gethostname()[:200]


@cache
def user_name() -> str:
    """Who runs this process, for people; the environment may say it in what is no text."""
    try:
        return UNSAYABLE.sub("?", getpass.getuser())[:80]
    except (OSError, KeyError):
        return f"uid {os.getuid()}"


@cache
def host_identity() -> str:
    """Machine id, boot id and pid namespace: equal only where a pid means the same process."""
    try:
        namespace = str(os.readlink("/proc/self/ns/pid"))
    except OSError:
        namespace = "-"
    machine = _text("/etc/machine-id") or f"{uuid.getnode():x}"
    return f"{machine}/{_text('/proc/sys/kernel/random/boot_id') or '-'}/{namespace}"


def process_identity() -> str:
    """This process as stored with a marker: host identity, pid, start time."""
    return _identity(os.getpid())


@cache
def _identity(pid: int) -> str:
    return f"{host_identity()}/{pid}/{_started(pid) or '-'}"


def runs_here(identity: str) -> bool:
    """Whether the process of *identity* is known to run on this host now.

    False also means that it cannot be known from here; the key decides then.
    """
    _host, pid, started = identity.rsplit("/", 2)
    return is_of_this_host(identity) and pid.isdigit() and _started(int(pid)) == started


def is_of_this_host(identity: str) -> bool:
    """Whether `runs_here` can tell of the process of *identity* also that it does not."""
    return identity.rsplit("/", 2)[0] == host_identity()


def new_attempt_id() -> uuid.UUID:
    """A UUIDv7 (RFC 9562, 5.7): ordered by the millisecond it was made in."""
    value = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10), "big")
    value = value & ~(0xF << 76) | (0x7 << 76)
    return uuid.UUID(int=value & ~(0x3 << 62) | (0x2 << 62))


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text("ascii").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _started(pid: int) -> str | None:
    """Clock ticks after boot at which *pid* started (proc(5), field 22)."""
    stat = _text(f"/proc/{pid}/stat")
    return None if stat is None else stat.rsplit(")", 1)[1].split()[19]
