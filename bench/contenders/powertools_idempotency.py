"""Powertools for AWS Lambda: an idempotent function, its records in Redis."""

from __future__ import annotations

import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import redis
from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.redis import (
    RedisCachePersistenceLayer,
)

if TYPE_CHECKING:
    from place import Place

NAME = "Powertools idempotency"
HAS_KEY = True
PATIENCE_S = 5
warnings.simplefilter("ignore")


class Invocation:
    """A Lambda context: how long until the invocation would be ended, and its record be void."""

    def get_remaining_time_in_millis(self) -> int:
        return 200


def connect(place: Place) -> Any:
    business = place.connect()
    applied: set[str] = set()
    config = IdempotencyConfig(lambda_context=Invocation())
    store = RedisCachePersistenceLayer(client=redis.Redis.from_url(os.environ["BENCH_REDIS"]))

    @idempotent_function(data_keyword_argument="name", config=config, persistence_store=store)
    def credit(*, name: str, number: int) -> None:
        update = "UPDATE account SET units = units + 10 WHERE id = %s"
        business.execute(update, (number % 1000,))
        business.commit()
        applied.add(name)

    return business, credit, applied


def once(worker: Any, name: str, number: int) -> bool:
    _business, credit, applied = worker
    applied.clear()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            credit(name=name, number=number)
        except IdempotencyAlreadyInProgressError:
            if time.monotonic() > deadline:
                return False
            time.sleep(0.01)
        else:
            return name in applied


def close(worker: Any) -> None:
    worker[0].close()
