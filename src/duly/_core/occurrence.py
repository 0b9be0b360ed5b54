"""The identity of the work: job, nominal time, partition, correction, and its canonical text.

Decides which occurrences are equal, and the one spelling of each logical key. Must never let
anything else into the identity (the zone, the cron text, the payload, the host, the start
time), and must never accept a key text that it would not write itself (PROTOCOL 30).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime  # noqa: TC003 - the type of a field
from typing import Final, Self
from urllib.parse import quote, unquote

from duly._core.instants import (
    EPOCH,
    MICROSECOND,
    as_utc,
    format_instant,
    from_us,
    parse_instant,
)
from duly._core.wording import shown
from duly.errors import KeyInvalid, NominalTimeInvalid

__all__ = ["CORRECTION_MAX", "JOB_NAME", "PARTITION_MAX", "Occurrence", "check_partition"]

JOB_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")

# Code points. With the longest job name the key columns take at most 100 + 800 + 8 + 4 bytes
# of UTF-8, far below the 3,072 at which MariaDB's index ends, so no byte limit is needed.
PARTITION_MAX: Final = 200

CORRECTION_MAX: Final = 2**31 - 1

KEY: Final = re.compile(
    r"(?P<job>[^:#]*):(?P<instant>[0-9-]+T[0-9:.]+Z)(?::(?P<partition>[^:#]+))?"
    r"(?:#(?P<correction>[0-9]{1,10}))?"
)
KEY_SHAPE: Final = "job:2026-09-13T00:00:00Z, then :partition if any, then #2 for a correction"
SURROGATE: Final = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True, order=True, slots=True)
class Occurrence:
    """One time that a job's work is due; equal instants in any zones are one occurrence.

    Attributes:
        job: The job's name, `[a-z0-9][a-z0-9._-]{0,99}`.
        nominal_time: The instant the schedule says; given aware in any zone, kept in UTC.
        partition: Free text of at most 200 code points, compared code point by code point.
        correction: 1 for the ordinary effect, from 2 on for a deliberate further one.

    Raises:
        KeyInvalid: The job, the partition or the correction is out of bounds.
        NominalTimeInvalid: The nominal time is naive or outside the years 1 to 9999.
    """

    job: str
    nominal_time: datetime
    partition: str = ""
    correction: int = 1
    # Both are asked for many times in one attempt.
    _us: int = field(init=False, repr=False, compare=False)
    _key: str | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "job", _job(self.job))
        nominal_time = as_utc(self.nominal_time, name="nominal_time")
        object.__setattr__(self, "nominal_time", nominal_time)
        object.__setattr__(self, "partition", check_partition(self.partition))
        object.__setattr__(self, "correction", _correction(self.correction))
        object.__setattr__(self, "_us", (nominal_time - EPOCH) // MICROSECOND)

    @classmethod
    def from_us(cls, job: str, nominal_us: int, partition: str = "", correction: int = 1) -> Self:
        """The occurrence as it is stored, its nominal time in microseconds since 1970.

        Raises:
            KeyInvalid: The job, the partition or the correction is out of bounds.
            NominalTimeInvalid: *nominal_us* lies outside the years 1 to 9999.
        """
        return cls(job, from_us(nominal_us), partition, correction)

    @classmethod
    def parse(cls, key: str) -> Self:
        """The occurrence of a logical key; accepts exactly what `key` writes.

        Raises:
            KeyInvalid: The text is not the canonical key of any occurrence.
        """
        if not isinstance(key, str):
            raise KeyInvalid(f"a key is text, not {shown(key)}; write {KEY_SHAPE}")
        match = KEY.fullmatch(key)
        if match is None:
            raise KeyInvalid(f"{shown(key)} is not a key; write {KEY_SHAPE}")
        try:
            occurrence = cls(
                match["job"],
                parse_instant(match["instant"], name="the nominal time"),
                unquote(match["partition"] or "", errors="strict"),
                int(match["correction"] or 1),
            )
        except UnicodeDecodeError:
            raise KeyInvalid(
                f"{shown(key)} is not a key: its partition is not percent-encoded UTF-8; "
                f"write {KEY_SHAPE}"
            ) from None
        except (KeyInvalid, NominalTimeInvalid) as error:
            raise KeyInvalid(f"{shown(key)} is not a key: {error}") from None
        # One spelling, one key: a second spelling would look like a second occurrence.
        if occurrence.key != key:
            raise KeyInvalid(
                f"{shown(key)} is not canonical; write {shown(occurrence.key, limit=2_000)}"
            )
        return occurrence

    @property
    def key(self) -> str:
        """The logical key: the canonical text of this identity."""
        if self._key is not None:
            return self._key
        partition = f":{quote(self.partition, safe='')}" if self.partition else ""
        correction = f"#{self.correction}" if self.correction > 1 else ""
        key = f"{self.job}:{format_instant(self.nominal_time)}{partition}{correction}"
        object.__setattr__(self, "_key", key)
        return key

    @property
    def nominal_us(self) -> int:
        """The nominal time in microseconds since 1970-01-01T00:00:00Z, as it is stored."""
        return self._us

    def __str__(self) -> str:
        return self.key


def _job(job: object) -> str:
    if not isinstance(job, str) or JOB_NAME.fullmatch(job) is None:
        raise KeyInvalid(
            f"job name {shown(job)} is not allowed; use 1 to 100 of a-z, 0-9, '.', '_' and '-', "
            "the first a letter or digit"
        )
    return str.__str__(job)


def check_partition(partition: object) -> str:
    """The partition as plain text, if it can be one.

    Raises:
        KeyInvalid: It cannot; the message says why.
    """
    if not isinstance(partition, str):
        raise KeyInvalid(f"partition must be text, not {shown(partition)}; give it as a string")
    if len(partition) > PARTITION_MAX:
        raise KeyInvalid(
            f"partition {shown(partition)} is longer than {PARTITION_MAX} characters; "
            "shorten it, or use a hash of it"
        )
    if "\0" in partition:
        raise KeyInvalid(f"partition {shown(partition)} contains a NUL character; remove it")
    if SURROGATE.search(partition):
        raise KeyInvalid(
            f"partition {shown(partition)} contains half of a surrogate pair, which has no "
            "UTF-8 form; decode the text properly first"
        )
    return str.__str__(partition)


def _correction(correction: object) -> int:
    if (
        not isinstance(correction, int)
        or isinstance(correction, bool)
        or not 1 <= correction <= CORRECTION_MAX
    ):
        raise KeyInvalid(
            f"correction {shown(correction)} is not allowed; give an int from 1 "
            f"(the ordinary effect) to {CORRECTION_MAX}"
        )
    return int(correction)
