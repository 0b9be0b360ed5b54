"""The settings block `DULY`.

Decides its keys and their defaults; an unknown key or a wrong value is refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from difflib import get_close_matches
from typing import Any, Final

from duly.errors import UsageError

_KEYS: Final[dict[str, tuple[str, type | tuple[type, ...], str]]] = {
    "USING": ("using", str, "an alias of DATABASES"),
    "SCHEMA": ("schema", (str, type(None)), "the name of a schema, or None"),
    "ALLOW_UNTESTED": ("allow_untested", bool, "True or False"),
    "EVIDENCE_AFTER": ("evidence_after", (int, float, timedelta), "a timedelta or seconds"),
    "STARTED_BY": ("started_by", (str, type(None)), "words for people, or None"),
    "NAME": ("name", str, "words for people"),
    "LISTEN": ("listen", bool, "True or False"),
    "JOBS_MODULE": ("jobs_module", str, 'the name of a module of each app, such as "duly_jobs"'),
}


@dataclass(frozen=True, slots=True)
class Options:
    """What an App on one of Django's databases is made with; `App` says what each means.

    Attributes:
        jobs_module: The module of each installed app that is imported for its jobs.
    """

    using: str = "default"
    schema: str | None = None
    allow_untested: bool = False
    evidence_after: timedelta | float = 0.25
    started_by: str | None = None
    name: str = ""
    listen: bool = False
    jobs_module: str = "duly_jobs"


def options() -> Options:
    """What `settings.DULY` says.

    Raises:
        UsageError: It has an unknown key, or a value that its key does not take.
    """
    from django.conf import settings

    block: Any = getattr(settings, "DULY", {})
    if not isinstance(block, Mapping):
        raise UsageError(
            f"the setting DULY is a {type(block).__name__}: make it a dict, such as"
            ' DULY = {"USING": "default"}'
        )
    given: dict[str, Any] = {}
    for key, value in block.items():
        if key not in _KEYS:
            near = get_close_matches(str(key).upper(), _KEYS, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it takes {', '.join(_KEYS)}"
            raise UsageError(f"the setting DULY has no key {key!r}: {hint}")
        field, kinds, words = _KEYS[key]
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            raise UsageError(f"DULY[{key!r}] is {value!r}: give {words}")
        given[field] = value
    found = Options(**given)
    if not found.jobs_module.isidentifier():
        raise UsageError(f"DULY['JOBS_MODULE'] is {found.jobs_module!r}: give the name of a module")
    if found.using not in settings.DATABASES:
        names = ", ".join(map(repr, settings.DATABASES))
        raise UsageError(
            f"DULY['USING'] is {found.using!r}, which is no alias of DATABASES: choose of {names}"
        )
    return found
