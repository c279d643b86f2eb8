// What goes wrong through node-postgres must be loud: node misuse.js URL

"use strict";

const assert = require("node:assert");
const { Client, Pool } = require("pg");

const CLAIM = "SELECT permit FROM semel.claim('acme', 'payments.create', $1, 'pay 10')";
const COMPLETE = "SELECT semel.complete($1, 'acme', 'payments.create', 201)";
const PAY = "INSERT INTO payment (tenant, cents) VALUES ('misuse', 1000)";

const claim = async (client, key) => (await client.query(CLAIM, [key])).rows[0].permit;

const misuses = {
  SM004: [
    async function noComplete(client) {
      await client.query("BEGIN");
      await claim(client, "no-complete");
      await client.query(PAY);
      await client.query("COMMIT");
    },
    async function noBegin(client) {
      const permit = await claim(client, "no-begin");
      await client.query(PAY);
      await client.query(COMPLETE, [permit]);
    },
    async function onePoolQueryAfterAnother() {
      const pool = new Pool({ connectionString: process.argv[2], max: 2 });
      try {
        const permit = await claim(pool, "pool");
        await pool.query(PAY);
        await pool.query(COMPLETE, [permit]);
      } finally {
        await pool.end();
      }
    },
    async function completeInASavepointThatIsRolledBack(client) {
      await client.query("BEGIN");
      const permit = await claim(client, "savepoint");
      await client.query(PAY);
      await client.query("SAVEPOINT s");
      await client.query(COMPLETE, [permit]);
      await client.query("ROLLBACK TO s");
      await client.query("COMMIT");
    },
  ],
  SM005: [
    async function permitOfATransactionBefore(client) {
      await client.query("BEGIN");
      const permit = await claim(client, "before");
      await client.query("ROLLBACK");
      await client.query("BEGIN");
      await client.query(PAY);
      await client.query(COMPLETE, [permit]);
    },
  ],
  SM006: [
    async function claimInASavepoint(client) {
      await client.query("BEGIN");
      await client.query(PAY);
      await client.query("SAVEPOINT s");
      await claim(client, "in-savepoint");
    },
  ],
  SM007: [
    async function headersAsAnArrayOfTheDriver(client) {
      await client.query("BEGIN");
      const permit = await claim(client, "headers");
      await client.query(PAY);
      await client.query(
        "SELECT semel.complete($1, 'acme', 'payments.create', 201, $2)",
        [permit, {}],
      );
    },
  ],
};

async function main() {
  for (const [code, list] of Object.entries(misuses)) {
    for (const misuse of list) {
      const client = new Client({ connectionString: process.argv[2] });
      await client.connect();
      await assert.rejects(misuse(client), (error) => {
        assert.strictEqual(error.code, code, `${misuse.name}: ${error.message}`);
        return true;
      });
      await client.end();
      const reader = new Client({ connectionString: process.argv[2] });
      await reader.connect();
      const { rows } = await reader.query("SELECT FROM payment WHERE tenant = 'misuse'");
      assert.strictEqual(rows.length, 0, misuse.name);
      await reader.end();
    }
  }
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
