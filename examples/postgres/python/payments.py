"""Payments that happen once: key, payment and answer are committed together.

    python payments.py postgresql://user@host/database [port]

Needs psycopg 3, the schema that `semel migrate` makes, and the table of ../schema.sql.
"""

import json
import queue
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import psycopg
from psycopg.errors import DeadlockDetected, SerializationFailure
from psycopg.rows import dict_row
from psycopg.types.json import Jsonb

OPERATION = "payments.create"
CONNECTIONS = 8
ATTEMPTS = 5


def once(connection, tenant, key, content, work):
    """Runs `work` once for this key, and returns what it answered then: status, headers, body.

    `work(connection)` runs inside the transaction, perhaps several times before one commit counts:
    it changes rows of this database and calls nobody else. It returns status, headers, body and the
    pointer to what it made.
    """
    for _ in range(ATTEMPTS):
        try:
            with connection.transaction():  # BEGIN … COMMIT, or ROLLBACK if something is raised
                claim = connection.execute(
                    "SELECT * FROM semel.claim(%s, %s, %s, %s)", (tenant, OPERATION, key, content)
                ).fetchone()
                if claim["decision"] != "run":
                    raise psycopg.Rollback
                status, headers, body, (kind, identity) = work(connection)
                connection.execute(
                    "SELECT semel.complete(%s, %s, %s, %s, %s, %s, %s, %s)",
                    (claim["permit"], tenant, OPERATION, status, Jsonb(headers), body, kind, identity),
                )
            if claim["decision"] == "run":
                return status, headers, body
            return refused(claim)
        except (SerializationFailure, DeadlockDetected):
            continue  # another transaction was first: claim anew, in a new transaction
    return problem(503, "busy: retry with the same key", [["retry-after", "1"]])


def refused(claim):
    """Answers a request that must not run."""
    decision = claim["decision"]
    if decision == "replay":
        return claim["status"], claim["headers"] + [["idempotent-replayed", "true"]], claim["body"] or b""
    if decision == "in-progress":
        wait = [["retry-after", str(claim["retry_after"])]]
        return problem(409, "in progress: retry with the same key", wait)
    if decision == "mismatch":
        return problem(422, "the key was used for something else")
    return problem(409, f"{decision}: do not use a new key")


def problem(status, title, headers=()):
    body = json.dumps({"status": status, "title": title}).encode()
    return status, [["content-type", "application/problem+json"], *headers], body


def create_payment(connection, tenant, content):
    """The work itself: it knows nothing of keys."""
    cents = json.loads(content)["cents"]
    payment = connection.execute(
        "INSERT INTO payment (tenant, cents) VALUES (%s, %s) RETURNING id", (tenant, cents)
    ).fetchone()
    body = json.dumps({"id": payment["id"], "cents": cents}).encode()
    headers = [["content-type", "application/json"], ["location", f"/payments/{payment['id']}"]]
    return 201, headers, body, ("payment", str(payment["id"]))


class Server(ThreadingHTTPServer):
    request_queue_size = 128  # callers that come at once must not be turned away


class Payments(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    connections = queue.Queue()

    def do_POST(self):
        tenant = "acme"  # yours comes from the authenticated caller
        content = self.rfile.read(int(self.headers.get("content-length", 0)))
        key = self.headers.get("idempotency-key")
        if key is None:
            return self.answer(*problem(400, "idempotency-key is missing"))
        connection = self.connections.get()
        try:
            answer = once(
                connection, tenant, key, content, lambda c: create_payment(c, tenant, content)
            )
        except psycopg.OperationalError:
            # The commit may have gone through: the same key tells.
            answer = problem(503, "retry with the same key", [["retry-after", "1"]])
        except (ValueError, KeyError, TypeError, psycopg.DataError, psycopg.IntegrityError):
            answer = problem(400, "that is no payment")
        except psycopg.Error as error:
            # SM007: the key has a character that a key cannot have.
            answer = problem(400 if error.sqlstate == "SM007" else 500, "refused by the database")
        finally:
            self.connections.put(connect() if connection.closed else connection)
        self.answer(*answer)

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def connect():
    return psycopg.connect(sys.argv[1], autocommit=True, row_factory=dict_row)


def main():
    for _ in range(CONNECTIONS):
        Payments.connections.put(connect())
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8080
    server = Server(("127.0.0.1", port), Payments)
    print(f"listening on http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
