"""The jobs of this app; duly imports this module when Django starts."""

from __future__ import annotations

from django.db.models import F

import duly
from bank.models import Account
from duly.contrib.django import app


@app.job("daily-credit", schedule="0 0 * * *", payload={"units": 10})
def daily_credit(run: duly.Run) -> int:
    return Account.objects.update(units=F("units") + run.payload["units"])
