"""Payments over HTTP with Django: each Idempotency-Key pays once, through Django's own connection.

DULY_DATABASE_URL=sqlite:////path/to/shop.db, served by any WSGI server as with_django:application
"""

import json
import os
from typing import Any

import django
from django.conf import settings

settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.sqlite3",
            "NAME": os.environ["DULY_DATABASE_URL"].removeprefix("sqlite:///"),
        }
    },
    ALLOWED_HOSTS=["*"],
    ROOT_URLCONF=__name__,
    INSTALLED_APPS=["duly.contrib.django"],
    USE_TZ=True,
    SECRET_KEY="of no site",  # noqa: S106
)
django.setup()

from django.core.wsgi import get_wsgi_application  # noqa: E402
from django.db import connection  # noqa: E402
from django.http import HttpRequest, JsonResponse  # noqa: E402
from django.urls import path  # noqa: E402

from duly.contrib.django import app  # noqa: E402
from duly.contrib.wsgi import IdempotencyMiddleware  # noqa: E402

TOKENS = {"token-of-ann": "ann", "token-of-bob": "bob"}


def tenant(environ: dict[str, Any]) -> str | None:
    """Whose key it is: somebody who has proved it."""
    return TOKENS.get(environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer "))


def pay(request: HttpRequest) -> JsonResponse:
    amount = json.loads(request.body)["amount"]
    with connection.cursor() as cursor:
        cursor.execute("INSERT INTO payment (amount) VALUES (%s)", [amount])
    return JsonResponse({"paid": amount}, status=201)


urlpatterns = [path("payments", pay), path("refunds", pay)]
application = IdempotencyMiddleware(get_wsgi_application(), app, scope=tenant)
