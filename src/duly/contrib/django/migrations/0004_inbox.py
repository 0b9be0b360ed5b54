"""The receiver's side: the inbox, what is parked, and HTTP idempotency keys."""

from __future__ import annotations

from django.db import migrations

from duly.contrib.django.migrations import create, keep


class Migration(migrations.Migration):
    """Runs on connections of duly's own, so Django keeps no transaction open meanwhile."""

    atomic = False
    dependencies = [("duly", "0003_outbox")]
    operations = [migrations.RunPython(create, keep)]
