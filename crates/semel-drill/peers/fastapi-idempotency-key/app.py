"""fastapi-idempotency-key as its documentation shows it, on SQLite.

On its Redis backend no replay ever works in this version: the stored answer loses its fingerprint, and every retry is
refused as a mismatch.
"""

import os

import shop
from fastapi_idempotency_key import IdempotencyMiddleware, SQLiteBackend
from starlette.middleware import Middleware

settings = {
    "backend": SQLiteBackend(database_path=os.environ["LEDGER"] + ".keys.db"),
    "header_name": "Idempotency-Key",
    # Else an empty key protects nothing.
    "required": True,
    "enforce_methods": ("POST", "PATCH"),
    "default_ttl": int(os.environ.get("KEEP_SECONDS", "86400")),
}

if __name__ == "__main__":
    shop.serve(shop.app(middleware=[Middleware(IdempotencyMiddleware, **settings)]))
