"""On PostgreSQL, full pages in the two indexes that grow with each occurrence."""

from __future__ import annotations

from django.db import migrations

from duly.contrib.django.migrations import create, keep


class Migration(migrations.Migration):
    """Runs on connections of duly's own, so Django keeps no transaction open meanwhile."""

    atomic = False
    dependencies = [("duly", "0004_inbox")]
    operations = [migrations.RunPython(create, keep)]
