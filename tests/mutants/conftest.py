"""The same bank as in the races."""

from __future__ import annotations

from tests.races.conftest import bank as bank  # noqa: PLC0414 - a fixture is re-exported
