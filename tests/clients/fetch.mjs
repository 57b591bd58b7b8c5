// Node's fetch and its http module as clients. Usage: node fetch.mjs URL, with NODE_EXTRA_CA_CERTS; exits with 0 if all went well.
import assert from "node:assert/strict";
import https from "node:https";
import { createHash } from "node:crypto";

const base = process.argv[2];
const url = (target) => base + target;

const echo = async (target, options) => {
  const response = await fetch(url(target), options);
  assert.equal(response.status, 200, target);
  return response.json();
};

for (const method of ["GET", "PUT", "PATCH", "DELETE", "OPTIONS"]) {
  assert.equal((await echo("/echo?a=1&b=%20", { method })).method, method);
}
const head = await fetch(url("/file"), { method: "HEAD" });
assert.equal(head.headers.get("content-length"), "1048576");
assert.equal((await echo("/echo", { method: "POST", body: new URLSearchParams({ name: "ä b", c: "d&e" }) })).length, 21);
const json = JSON.stringify({ a: [1, 2] });
assert.equal((await echo("/echo", { method: "POST", body: json })).sha256, createHash("sha256").update(json).digest("hex"));
const form = new FormData();
form.set("photo", new Blob([new Uint8Array(200_000)]), "é.jpg");
assert.ok((await echo("/echo", { method: "POST", body: form })).length > 200_000);

// A body of unknown length.
const pieces = new ReadableStream({
  start(controller) {
    for (let n = 0; n < 300; n++) controller.enqueue(new Uint8Array(10_000));
    controller.close();
  },
});
assert.equal((await echo("/echo", { method: "POST", body: pieces, duplex: "half" })).length, 3_000_000);

assert.equal((await echo("/redirect?code=302")).target, "/echo?redirected");
assert.equal((await echo("/redirect?code=307", { method: "POST", body: "again" })).method, "POST");
assert.equal((await echo("/redirect?code=303", { method: "POST", body: "once" })).method, "GET");
assert.equal(await (await fetch(url("/gzip"))).text(), "unzipped");
const part = await fetch(url("/file"), { headers: { range: "bytes=100-199" } });
assert.equal(part.status, 206);
assert.equal((await part.arrayBuffer()).byteLength, 100);
assert.equal((await fetch(url("/status?code=204"))).status, 204);
assert.equal((await (await fetch(url("/bytes?n=200000&chunked=1"))).arrayBuffer()).byteLength, 200_000);

// A download that is given up leaves the rest alone.
const leave = new AbortController();
const left = await fetch(url("/bytes?n=50000000&ms=5"), { signal: leave.signal });
await left.body.getReader().read();
leave.abort();

// Kept alive by the agent of `node:https`.
const agent = new https.Agent({ keepAlive: true, maxSockets: 1 });
const ports = new Set();
for (let n = 0; n < 200; n++) {
  await new Promise((resolve, reject) => {
    https
      .get(url("/echo"), { agent }, (response) => {
        ports.add(response.socket.localPort);
        response.resume().on("end", resolve).on("error", reject);
      })
      .on("error", reject);
  });
}
assert.equal(ports.size, 1);
agent.destroy();
process.exit(0);
