// @node-idempotency/nestjs as its documentation shows it, on Redis. Nest's decorators are called by hand: plain
// JavaScript has no syntax for them.

"use strict";

require("reflect-metadata");
const nest = require("@nestjs/common");
const { APP_INTERCEPTOR, NestFactory } = require("@nestjs/core");
const { Idempotent, NodeIdempotencyInterceptor, NodeIdempotencyModule } = require("@node-idempotency/nestjs");
const { Ledger, Refused } = require("../ledger.js");

const ledger = new Ledger();

class Payments {
  pay(body) {
    return this.create("pay", body);
  }

  refund(body) {
    return this.create("ref", body);
  }

  payment(id) {
    const payment = ledger.payment(id);
    if (!payment) throw new nest.NotFoundException();
    return payment;
  }

  change(id, body) {
    ledger.change(id, body.amount);
  }

  remove(id) {
    ledger.remove(id);
  }

  charges() {
    return ledger.charges();
  }

  async create(kind, body) {
    try {
      return await ledger.pay(kind, body);
    } catch (error) {
      throw error instanceof Refused ? new nest.BadRequestException(error.message) : error;
    }
  }
}

function decorate(name, parameters, ...decorators) {
  const method = Object.getOwnPropertyDescriptor(Payments.prototype, name);
  parameters.forEach((parameter, at) => parameter(Payments.prototype, name, at));
  decorators.forEach((decorator) => decorator(Payments.prototype, name, method));
}

decorate("pay", [nest.Body()], nest.Post("payments"), Idempotent());
decorate("refund", [nest.Body()], nest.Post("refunds"), Idempotent());
decorate("payment", [nest.Param("id")], nest.Get("payments/:id"));
decorate("change", [nest.Param("id"), nest.Body()], nest.Put("payments/:id"));
decorate("remove", [nest.Param("id")], nest.Delete("payments/:id"));
decorate("charges", [], nest.Get("ledger"));
nest.Controller()(Payments);

class App {}
nest.Module({
  controllers: [Payments],
  imports: [
    NodeIdempotencyModule.forRootAsync({
      storage: { adapter: "redis", options: { url: process.env.REDIS_URL } },
      enforceIdempotency: true,
      cacheTTLMS: 1000 * Number(process.env.KEEP_SECONDS ?? 86400),
    }),
  ],
})(App);

NestFactory.create(App, { logger: ["error"] }).then((app) => app.listen(Number(process.env.PORT), "127.0.0.1"));
