"""Payments behind a bridged gateway: the payment and its outcome are one transaction.

The gateway has claimed the intent and hands on the proof of it, the permit, in the header
`semel-permit`. `semel.complete` stores what a retry gets in the same transaction as the payment, so
that either both are there or neither is. A permit that has ended raises: whoever was overtaken
cannot commit.

    pip install psycopg
    psql "$DATABASE_URL" -f schema.sql
    semel serve --config semel.toml        # makes the schema `semel`
    python payments.py
    curl -d '{"amount": 5}' -H 'x-account: acme' -H 'idempotency-key: order-7' localhost:8080/payments
"""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from psycopg import errors

# The name in semel.toml. It names the space of the keys, together with the tenant.
OPERATION = "payments.create"

# Another transaction won: the same work again, in a new transaction, may well go through.
LOST_RACES = (errors.SerializationFailure, errors.DeadlockDetected, errors.LockNotAvailable)


class Declined(Exception):
    """The payment cannot be made. Raised inside the transaction, it takes everything back."""


def pay(db, account, permit, order):
    """Makes a payment and stores what a retry gets, and returns the body of the answer."""
    with db.transaction():
        row = db.execute(
            "INSERT INTO payment (account, amount) VALUES (%s, %s) RETURNING id",
            (account, order["amount"]),
        ).fetchone()
        if order["amount"] > 1_000:
            raise Declined("more than the account may pay at once")
        body = json.dumps({"id": row[0], "amount": order["amount"]}).encode()
        db.execute(
            "SELECT semel.complete(%s, %s, %s, 201, %s, %s, 'payment', %s)",
            (
                permit,
                account,
                OPERATION,
                json.dumps([["content-type", "application/json"]]),
                body,
                str(row[0]),
            ),
        )
    return body


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # callers that come at once must not be turned away


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        length = int(self.headers.get("content-length", 0))
        order = json.loads(self.rfile.read(length) or b"{}")
        account, permit = self.headers.get("x-account"), self.headers.get("semel-permit")
        if permit is None:
            return self.answer(403, b"only the gateway may call")
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as db:
            for _ in range(5):
                try:
                    return self.answer(201, pay(db, account, permit, order))
                except LOST_RACES:
                    continue
                except Declined as declined:
                    # Nothing is stored, so that the same key may be tried again.
                    return self.answer(422, str(declined).encode())
                except psycopg.Error as error:
                    # SM001, SM009: somebody else decides what becomes of this intent.
                    return self.answer(500, f"nothing was stored: {error.sqlstate}".encode())
        self.answer(503, b"the database is busy")

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Says nothing: a request's headers hold a permit, which never belongs in a log."""


if __name__ == "__main__":
    server = Server(("127.0.0.1", int(os.environ.get("PORT", "3000"))), Payments)
    print(f"payments listen on {server.server_port}", flush=True)
    server.serve_forever()
