"""duly as an installed app: its jobs are found, and its settings checked, when Django starts."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import checks
from django.utils.module_loading import autodiscover_modules

from duly.contrib.django.conf import options
from duly.errors import UsageError


class DulyConfig(AppConfig):
    """`duly.contrib.django` in INSTALLED_APPS."""

    name = "duly.contrib.django"
    label = "duly"
    verbose_name = "duly"

    def ready(self) -> None:
        """Import the module of jobs of each installed app, as the admin does with its own."""
        checks.register(_check_settings)
        try:
            module = options().jobs_module
        except UsageError:
            return  # the check says it, and so does the first use
        autodiscover_modules(module)


def _check_settings(**_asked: Any) -> list[Any]:
    """`manage.py check`: the setting DULY."""
    try:
        options()
    except UsageError as error:
        return [checks.Error(str(error), id="duly.E001")]
    return []
