"""SQLite by default; PostgreSQL where BANK_POSTGRESQL says `user:password@host:port/name`."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import unquote, urlsplit

HERE = Path(__file__).parent.parent
SECRET_KEY = "of-an-example"
INSTALLED_APPS = ["duly.contrib.django", "bank"]
USE_TZ = True
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("BANK_FILE", HERE / "bank.sqlite3"),
        # A file in tests too: a database in memory could not outlive a crash.
        "TEST": {"NAME": os.environ.get("BANK_FILE", str(HERE / "bank.sqlite3")) + ".test"},
    }
}
if "BANK_POSTGRESQL" in os.environ:
    where = urlsplit("//" + os.environ["BANK_POSTGRESQL"])
    DATABASES["default"] = {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": where.path[1:],
        "USER": unquote(where.username or ""),
        "PASSWORD": unquote(where.password or ""),
        "HOST": where.hostname or "",
        "PORT": str(where.port or ""),
    }

DULY = {"USING": "default", "NAME": "bank"}
