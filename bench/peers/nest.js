// The payments service of `cargo xtask bench peers` on NestJS: with @node-idempotency/nestjs on Redis where REDIS_URL is
// set, without any where it is not. Nest's decorators are called by hand: plain JavaScript has no syntax for them.

"use strict";

require("reflect-metadata");
const nest = require("@nestjs/common");
const { NestFactory } = require("@nestjs/core");
const { Idempotent, NodeIdempotencyModule } = require("@node-idempotency/nestjs");

const url = process.env.REDIS_URL;

class Payments {
  effects = 0;

  pay({ order, amount }) {
    this.effects += 1;
    return { id: `pay_${this.effects}`, order, amount };
  }

  count() {
    return { effects: this.effects };
  }
}

function decorate(name, ...decorators) {
  const method = Object.getOwnPropertyDescriptor(Payments.prototype, name);
  decorators.forEach((decorator) => decorator(Payments.prototype, name, method));
}

nest.Body()(Payments.prototype, "pay", 0);
decorate("pay", nest.Post("payments"), ...(url ? [Idempotent()] : []));
decorate("count", nest.Get("effects"));
nest.Controller()(Payments);

class App {}
const protection = () =>
  NodeIdempotencyModule.forRootAsync({
    storage: { adapter: "redis", options: { url } },
    enforceIdempotency: true,
  });
nest.Module({ controllers: [Payments], imports: url ? [protection()] : [] })(App);

NestFactory.create(App, { logger: ["error"] }).then((app) => app.listen(Number(process.env.PORT), "127.0.0.1"));
