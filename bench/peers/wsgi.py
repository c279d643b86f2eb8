"""The payments service of `cargo xtask bench peers` on waitress: with Powertools for AWS Lambda (Python) on Redis where
REDIS_URL is set, without any where it is not.

Where VALIDATES is set, the settings are those that are drilled: crates/semel-drill/peers/powertools tells why the
payload is validated and the local cache is on. Otherwise they are the package's own.
"""

import json
import logging
import os
import threading
import warnings

from aws_lambda_powertools.utilities.idempotency import IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyInconsistentStateError,
    IdempotencyPersistenceLayerError,
    IdempotencyValidationError,
)
from aws_lambda_powertools.utilities.idempotency.persistence.cache import CachePersistenceLayer
from redis import Redis
from waitress import serve

# Writing is no part of what is measured.
logging.disable(logging.WARNING)
warnings.simplefilter("ignore")

URL = os.environ.get("REDIS_URL")
VALIDATION = {"payload_validation_jmespath": "body", "use_local_cache": True, "local_cache_max_items": 10_000}
THREADS = 64

REFUSALS = {
    IdempotencyAlreadyInProgressError: "409 Conflict",
    IdempotencyInconsistentStateError: "409 Conflict",
    IdempotencyPersistenceLayerError: "503 Service Unavailable",
    IdempotencyValidationError: "422 Unprocessable Entity",
}


class Effects:
    def __init__(self):
        self._lock = threading.Lock()
        self.count = 0

    def act(self):
        with self._lock:
            self.count += 1
            return self.count


EFFECTS = Effects()


def pay(*, intent):
    body = intent["body"]
    return {"id": f"pay_{EFFECTS.act()}", "order": body["order"], "amount": body["amount"]}


if URL:
    pay = idempotent_function(
        pay,
        data_keyword_argument="intent",
        persistence_store=CachePersistenceLayer(client=Redis.from_url(URL, decode_responses=True)),
        config=IdempotencyConfig(
            event_key_jmespath="[tenant, key]",
            expires_after_seconds=86_400,
            **(VALIDATION if os.environ.get("VALIDATES") else {}),
        ),
    )


def route(environ):
    if environ["PATH_INFO"] == "/effects":
        return "200 OK", {"effects": EFFECTS.count}
    body = json.loads(environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0)))
    tenant, key = environ.get("HTTP_AUTHORIZATION", ""), environ.get("HTTP_IDEMPOTENCY_KEY")
    if URL and not key:
        return "400 Bad Request", {"detail": "a key is needed"}
    return "201 Created", pay(intent={"tenant": tenant, "key": key, "body": body})


def app(environ, start_response):
    try:
        status, body = route(environ)
    except tuple(REFUSALS) as refusal:
        status, body = REFUSALS[type(refusal)], {"detail": str(refusal)}
    content = json.dumps(body, sort_keys=True).encode()
    start_response(status, [("content-type", "application/json"), ("content-length", str(len(content)))])
    return [content]


if __name__ == "__main__":
    serve(app, host="127.0.0.1", port=int(os.environ["PORT"]), threads=THREADS)
