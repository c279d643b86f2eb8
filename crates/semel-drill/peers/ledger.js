// The business behind every peer on Node: payments in a file of JSON lines, one line for each effect.
//
// A line is on the disk before `pay` returns, and stays there whatever happens to the payment afterwards, so that the
// file tells how often an order was charged, through crashes too.

"use strict";

const fs = require("node:fs");
const { setTimeout: sleep } = require("node:timers/promises");

const WORK_MS = 30;
const WORK_MS_MAX = 5000;

class Refused extends Error {}

class Ledger {
  constructor(path = process.env.LEDGER) {
    this.chargesByOrder = new Map();
    this.payments = new Map();
    const lines = fs.existsSync(path) ? fs.readFileSync(path, "utf8").split("\n").filter(Boolean) : [];
    lines.forEach((line) => this.apply(JSON.parse(line)));
    this.file = fs.openSync(path, "a");
  }

  async pay(kind, body) {
    const { order, amount } = body ?? {};
    if (typeof order !== "string" || !Number.isInteger(amount)) {
      throw new Refused("an order is a string, an amount an integer");
    }
    // Half of the work before the effect, half after it, so that equal requests meet while one runs.
    const half = Math.min(body.work_ms ?? WORK_MS, WORK_MS_MAX) / 2;
    await sleep(half);
    const payment = { id: `${kind}_${this.payments.size + 1}`, order, amount };
    this.append({ paid: payment });
    await sleep(half);
    return payment;
  }

  payment(name) {
    return this.payments.get(name);
  }

  remove(name) {
    if (this.payments.get(name)) this.append({ deleted: name });
  }

  change(name, amount) {
    if (this.payments.get(name)) this.append({ changed: name, amount });
  }

  charges() {
    return { charges: Object.fromEntries(this.chargesByOrder) };
  }

  append(line) {
    fs.appendFileSync(this.file, JSON.stringify(line) + "\n");
    fs.fsyncSync(this.file);
    this.apply(line);
  }

  apply(line) {
    if (line.paid) {
      this.payments.set(line.paid.id, line.paid);
      this.chargesByOrder.set(line.paid.order, (this.chargesByOrder.get(line.paid.order) ?? 0) + 1);
    } else if (line.deleted) {
      this.payments.set(line.deleted, null);
    } else {
      this.payments.set(line.changed, { ...this.payments.get(line.changed), amount: line.amount });
    }
  }
}

module.exports = { Ledger, Refused };
