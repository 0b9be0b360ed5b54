"""Django: jobs on its own connections, its management command, its migrations.

`app` is the project's App, made as the setting `DULY` says; jobs are defined on it in the
module `duly_jobs` of each installed app. `App` makes another, on another of `DATABASES`.
"""

from __future__ import annotations

from duly.errors import MissingExtra

try:
    import django as _django  # noqa: F401 - only whether it is there
except ModuleNotFoundError as error:
    raise MissingExtra(
        "Django is not installed: pip install 'duly[django]'", extra="django"
    ) from error

from duly.contrib.django.app import App, ProjectApp

app = ProjectApp()

__all__ = ["App", "app"]
