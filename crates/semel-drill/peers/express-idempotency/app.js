// express-idempotency as its documentation shows it, on Redis by the adapter of the same authors.

"use strict";

const express = require("express");
const { getSharedIdempotencyService, idempotency } = require("express-idempotency");
const RedisAdapter = require("express-idempotency-redis-adapter").default;
const { Ledger, Refused } = require("../ledger.js");

const ledger = new Ledger();
const adapter = new RedisAdapter({
  connectionConfig: { url: process.env.REDIS_URL },
  ttl: Number(process.env.KEEP_SECONDS ?? 86400),
});

const app = express();
app.use(express.json());
app.post("*", idempotency({ dataAdapter: adapter }));

const pay = (kind) => async (request, response, next) => {
  // The middleware calls the handler for a replay too; it has been answered then.
  if (getSharedIdempotencyService().isHit(request)) return;
  try {
    const payment = await ledger.pay(kind, request.body);
    response.status(201).send(payment);
  } catch (error) {
    next(error);
  }
};
app.post("/payments", pay("pay"));
app.post("/refunds", pay("ref"));
app.get("/payments/:id", (request, response) => {
  const payment = ledger.payment(request.params.id);
  return payment ? response.send(payment) : response.status(404).send({ detail: "no such payment" });
});
app.put("/payments/:id", (request, response) => {
  ledger.change(request.params.id, request.body.amount);
  response.sendStatus(204);
});
app.delete("/payments/:id", (request, response) => {
  ledger.remove(request.params.id);
  response.sendStatus(204);
});
app.get("/ledger", (_request, response) => response.send(ledger.charges()));
app.use((error, _request, response, _next) => {
  // The middleware sets the status of a refusal on the answer, and passes an error without one.
  const refusal = response.statusCode >= 400 ? response.statusCode : 500;
  const status = error instanceof Refused ? 400 : error.status ?? refusal;
  response.status(status).send({ detail: error.message });
});

adapter.connect().then(() => {
  const server = app.listen(Number(process.env.PORT), "127.0.0.1");
  // The middleware stores an answer after it was sent: a clean stop leaves it the time.
  process.on("SIGTERM", () => server.close(() => setTimeout(() => process.exit(0), 500)));
});
