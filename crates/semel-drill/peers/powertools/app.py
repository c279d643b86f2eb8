"""Powertools for AWS Lambda (Python) around the functions of a small WSGI program, on Redis.

The key is made of the tenant, the operation and the key of the request, as the documentation advises, and the payload
is validated. The local cache is on because the Redis layer drops the hash that validation compares when it stores an
outcome: without it every replay is refused.
"""

import json
import os
import time

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer
from ledger import Ledger, Refused, half_of_the_work
from redis import Redis
from waitress import serve

LEDGER = Ledger()
REDIS = Redis.from_url(os.environ["REDIS_URL"], decode_responses=True)

REFUSALS = {
    IdempotencyAlreadyInProgressError: "409 Conflict",
    IdempotencyInconsistentStateError: "409 Conflict",
    IdempotencyPersistenceLayerError: "503 Service Unavailable",
    IdempotencyValidationError: "422 Unprocessable Entity",
    Refused: "400 Bad Request",
}


def once(function):
    # A layer remembers the function it was last used for: one for each, or threads mix them up.
    return idempotent_function(
        function,
        data_keyword_argument="intent",
        persistence_store=CachePersistenceLayer(client=REDIS),
        config=IdempotencyConfig(
            event_key_jmespath="[tenant, key]",
            payload_validation_jmespath="body",
            use_local_cache=True,
            local_cache_max_items=10_000,
            expires_after_seconds=int(os.environ.get("KEEP_SECONDS", "86400")),
        ),
    )


def create(kind, body):
    time.sleep(half_of_the_work(body))
    payment = LEDGER.pay(kind, body)
    time.sleep(half_of_the_work(body))
    return payment


@once
def pay(*, intent):
    return create("pay", intent["body"])


@once
def refund(*, intent):
    return create("ref", intent["body"])


def post(environ, function):
    body = json.loads(read(environ))
    key = environ.get("HTTP_IDEMPOTENCY_KEY")
    if not key or not key.strip():
        return "400 Bad Request", {"detail": "a key is needed"}
    tenant = environ.get("HTTP_AUTHORIZATION", "")
    return "201 Created", function(intent={"tenant": tenant, "key": key, "body": body})


def payment(environ, name):
    if environ["REQUEST_METHOD"] == "DELETE":
        LEDGER.delete(name)
        return "204 No Content", None
    if environ["REQUEST_METHOD"] == "PUT":
        LEDGER.change(name, json.loads(read(environ))["amount"])
        return "204 No Content", None
    found = LEDGER.payment(name)
    return ("200 OK", found) if found else ("404 Not Found", {"detail": "no such payment"})


def route(environ):
    method, where = environ["REQUEST_METHOD"], environ["PATH_INFO"]
    if (method, where) == ("POST", "/payments"):
        return post(environ, pay)
    if (method, where) == ("POST", "/refunds"):
        return post(environ, refund)
    if (method, where) == ("GET", "/ledger"):
        return "200 OK", LEDGER.charges()
    if where.startswith("/payments/"):
        return payment(environ, where.removeprefix("/payments/"))
    return "404 Not Found", {"detail": "no such page"}


def read(environ):
    return environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))


def app(environ, start_response):
    try:
        status, body = route(environ)
    except tuple(REFUSALS) as refusal:
        status, body = REFUSALS[type(refusal)], {"detail": str(refusal)}
    except ValueError as error:
        status, body = "400 Bad Request", {"detail": str(error)}
    # Sorted, as Powertools keeps its outcomes: a replay has the bytes of the first answer.
    content = b"" if body is None else json.dumps(body, sort_keys=True).encode()
    headers = [("content-length", str(len(content)))]
    start_response(status, headers + [("content-type", "application/json")] * bool(content))
    return [content]


if __name__ == "__main__":
    serve(app, host="127.0.0.1", port=int(os.environ["PORT"]), threads=64)
