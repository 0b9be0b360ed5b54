"""One table: an account and its units."""

from __future__ import annotations

from django.db import models


class Account(models.Model):
    owner = models.CharField(max_length=100)
    units = models.IntegerField(default=0)
