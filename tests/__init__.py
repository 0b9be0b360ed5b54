"""Tests of duly. Packages only where tests import from each other: `tests.servers`."""
