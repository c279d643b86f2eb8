"""asgi-idempotency-header as its documentation shows it, on Redis."""

import os

import shop
from idempotency_header_middleware import IdempotencyHeaderMiddleware
from idempotency_header_middleware.backends import RedisBackend
from redis.asyncio import Redis
from starlette.middleware import Middleware

backend = RedisBackend(
    redis=Redis.from_url(os.environ["REDIS_URL"]),
    expiry=int(os.environ.get("KEEP_SECONDS", "86400")),
)

if __name__ == "__main__":
    shop.serve(shop.app(middleware=[Middleware(IdempotencyHeaderMiddleware, backend=backend)]))
