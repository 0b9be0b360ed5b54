"""The ledger: occurrences, attempts, duplicates, markers, guard, horizons, audit."""

from __future__ import annotations

from django.db import migrations

from duly.contrib.django.migrations import create, keep


class Migration(migrations.Migration):
    """Runs on connections of duly's own, so Django keeps no transaction open meanwhile."""

    atomic = False
    initial = True
    dependencies: list[tuple[str, str]] = []
    operations = [migrations.RunPython(create, keep)]
