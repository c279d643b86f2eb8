"""The business behind every Python peer: payments in a file of JSON lines, one line for each effect.

A line is on the disk before `pay` returns, and stays there whatever happens to the payment afterwards, so that the file
tells how often an order was charged, through crashes too.
"""

import json
import os
import threading

WORK_MS = 30
WORK_MS_MAX = 5_000


def half_of_the_work(body):
    """Seconds to work before the effect, and as long again after it, so that equal requests meet while one runs."""
    asked = body.get("work_ms") if isinstance(body, dict) else None
    return (min(asked, WORK_MS_MAX) if isinstance(asked, int) else WORK_MS) / 2000


class Refused(Exception):
    """The request cannot be carried out, and nothing was."""


class Ledger:
    def __init__(self, path=None):
        self._lock = threading.Lock()
        self._charges = {}
        self._payments = {}
        self._file = open(path or os.environ["LEDGER"], "a+", encoding="utf-8")
        self._file.seek(0)
        for line in self._file:
            self._apply(json.loads(line))

    def pay(self, kind, body):
        order, amount = (body.get("order"), body.get("amount")) if isinstance(body, dict) else (None, None)
        if not isinstance(order, str) or isinstance(amount, bool) or not isinstance(amount, int):
            raise Refused("an order is a string, an amount an integer")
        with self._lock:
            payment = {"id": f"{kind}_{len(self._payments) + 1}", "order": order, "amount": amount}
            self._append({"paid": payment})
        return payment

    def payment(self, name):
        return self._payments.get(name)

    def delete(self, name):
        with self._lock:
            if self._payments.get(name):
                self._append({"deleted": name})

    def change(self, name, amount):
        with self._lock:
            if self._payments.get(name):
                self._append({"changed": name, "amount": amount})

    def charges(self):
        return {"charges": dict(self._charges)}

    def _append(self, line):
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self._apply(line)

    def _apply(self, line):
        if "paid" in line:
            payment = line["paid"]
            self._payments[payment["id"]] = payment
            self._charges[payment["order"]] = self._charges.get(payment["order"], 0) + 1
        elif "deleted" in line:
            self._payments[line["deleted"]] = None
        else:
            payment = self._payments[line["changed"]]
            self._payments[line["changed"]] = {**payment, "amount": line["amount"]}
