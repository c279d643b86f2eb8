// Payments that happen once: key, payment and answer are committed together.
//
//     node payments.js postgresql://user@host/database [port]
//
// Needs the package pg, the schema that `semel migrate` makes, and the table of ../schema.sql.

"use strict";

const http = require("node:http");
const { Pool } = require("pg");

const OPERATION = "payments.create";
const ATTEMPTS = 5;
const LOST_RACE = new Set(["40001", "40P01"]);

const pool = new Pool({ connectionString: process.argv[2], max: 8 });
pool.on("error", () => {}); // a connection that idles may go; the pool makes another

/**
 * Runs `work` once for this key, and returns what it answered then: status, headers, body.
 *
 * `work(client)` runs inside the transaction, perhaps several times before one commit counts: it
 * changes rows of this database and calls nobody else.
 */
async function once(tenant, key, content, work) {
  for (let attempt = 0; attempt < ATTEMPTS; attempt++) {
    const client = await pool.connect(); // one connection for the whole transaction
    let broken = false;
    try {
      await client.query("BEGIN");
      const { rows } = await client.query(
        "SELECT * FROM semel.claim($1, $2, $3, $4)",
        [tenant, OPERATION, key, content],
      );
      const claim = rows[0];
      if (claim.decision !== "run") {
        await client.query("ROLLBACK");
        return refused(claim);
      }
      const { status, headers, body, pointer } = await work(client);
      await client.query(
        "SELECT semel.complete($1, $2, $3, $4, $5, $6, $7, $8)",
        // As text: the driver would make an array of PostgreSQL of an array.
        [claim.permit, tenant, OPERATION, status, JSON.stringify(headers), body, ...pointer],
      );
      await client.query("COMMIT");
      return { status, headers, body };
    } catch (error) {
      broken = !(await client.query("ROLLBACK").then(() => true, () => false));
      if (!LOST_RACE.has(error.code)) throw error;
      // Another transaction was first: claim anew, in a new transaction.
    } finally {
      client.release(broken);
    }
  }
  return problem(503, "busy: retry with the same key", [["retry-after", "1"]]);
}

/** Answers a request that must not run. */
function refused(claim) {
  switch (claim.decision) {
    case "replay":
      return {
        status: claim.status,
        headers: [...claim.headers, ["idempotent-replayed", "true"]],
        body: claim.body ?? Buffer.alloc(0),
      };
    case "in-progress": {
      const wait = [["retry-after", String(claim.retry_after)]];
      return problem(409, "in progress: retry with the same key", wait);
    }
    case "mismatch":
      return problem(422, "the key was used for something else");
    default:
      return problem(409, `${claim.decision}: do not use a new key`);
  }
}

function problem(status, title, headers = []) {
  const body = Buffer.from(JSON.stringify({ status, title }));
  return { status, headers: [["content-type", "application/problem+json"], ...headers], body };
}

/** The work itself: it knows nothing of keys. */
async function createPayment(client, tenant, content) {
  const { cents } = JSON.parse(content);
  const { rows } = await client.query(
    "INSERT INTO payment (tenant, cents) VALUES ($1, $2) RETURNING id",
    [tenant, cents],
  );
  const id = Number(rows[0].id);
  return {
    status: 201,
    headers: [["content-type", "application/json"], ["location", `/payments/${id}`]],
    body: Buffer.from(JSON.stringify({ id, cents })),
    pointer: ["payment", String(id)],
  };
}

async function pay(request) {
  const tenant = "acme"; // yours comes from the authenticated caller
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const content = Buffer.concat(chunks);
  const key = request.headers["idempotency-key"];
  if (key === undefined) return problem(400, "idempotency-key is missing");
  try {
    return await once(tenant, key, content, (client) => createPayment(client, tenant, content));
  } catch (error) {
    // SM007: the key has a character that a key cannot have. 22 and 23: that is no payment.
    if (error instanceof SyntaxError || /^(SM007|22...|23...)$/.test(error.code)) {
      return problem(400, "that is no payment, or no key");
    }
    // The commit may have gone through: the same key tells.
    return problem(503, "retry with the same key", [["retry-after", "1"]]);
  }
}

const server = http.createServer(async (request, response) => {
  const { status, headers, body } = await pay(request);
  for (const [name, value] of headers) response.appendHeader(name, value);
  response.setHeader("content-length", body.length);
  response.writeHead(status);
  response.end(body);
});

server.listen(Number(process.argv[3] ?? 8080), "127.0.0.1", () => {
  console.log(`listening on http://127.0.0.1:${server.address().port}`);
});
