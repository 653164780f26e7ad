// Checks a server as ioredis uses it. Started by scripts/test-clients with the port, and with another for TLS and the
// certificate that is shown there.
"use strict";
const assert = require("node:assert");
const fs = require("node:fs");
const Redis = require("ioredis");

async function check(client) {
    await client.flushall();
    assert.strictEqual(await client.ping(), "PONG");
    assert.strictEqual(await client.set("a", "1", "EX", 100), "OK");
    assert.strictEqual(await client.set("a", "2", "NX"), null);
    assert.strictEqual(await client.get("a"), "1");
    assert.ok((await client.ttl("a")) > 90);
    assert.strictEqual(await client.incrby("a", 41), 42);
    assert.deepStrictEqual(await client.mset({ x: "1", y: "2" }), "OK");
    assert.deepStrictEqual(await client.mget("x", "y", "z"), ["1", "2", null]);
    assert.strictEqual(await client.del("x", "y", "z"), 2);
    const bytes = Buffer.from([0, 13, 10, 255]);
    await client.set("bytes", bytes);
    assert.ok(bytes.equals(await client.getBuffer("bytes")));
    // Commands without a wait in between become one pipeline.
    const counted = await Promise.all(Array.from({ length: 1000 }, () => client.incr("n")));
    assert.deepStrictEqual(counted, Array.from({ length: 1000 }, (_, index) => index + 1));
    const pipeline = client.pipeline();
    for (let number = 0; number < 500; number++) {
        pipeline.set(`k${number}`, number);
    }
    assert.ok((await pipeline.exec()).every(([error, said]) => error === null && said === "OK"));
    const transaction = await client.multi().incr("t").get("t").exec();
    assert.deepStrictEqual(transaction, [[null, 1], [null, "1"]]);
    const found = new Set();
    for await (const keys of client.scanStream({ match: "k*", count: 100 })) {
        keys.forEach((key) => found.add(key));
    }
    assert.strictEqual(found.size, 500);
    assert.strictEqual(await client.getex("a", "PERSIST"), "42");
    assert.strictEqual(await client.getdel("a"), "42");
    assert.strictEqual(await client.append("s", "abc"), 3);
    assert.strictEqual(await client.getrange("s", 1, -1), "bc");
    await assert.rejects(client.call("NOSUCH"), /unknown command/);
    assert.strictEqual(await client.quit(), "OK");
}

async function main([port, tlsPort, certificate]) {
    await check(new Redis(Number(port), "127.0.0.1", { maxRetriesPerRequest: 1 }));
    console.log("ioredis: all as expected");
    if (tlsPort) {
        const tls = { ca: fs.readFileSync(certificate), servername: "localhost" };
        await check(new Redis(Number(tlsPort), "localhost", { maxRetriesPerRequest: 1, family: 4, tls }));
        console.log("ioredis with TLS: all as expected");
    }
}

main(process.argv.slice(2)).catch((error) => {
    console.error(error);
    process.exit(1);
});
