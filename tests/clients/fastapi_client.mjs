// Node's fetch against the application of fastapi_app.py. Usage: node fastapi_client.mjs URL; exits with 0 if all went well.
import assert from "node:assert/strict";

const base = process.argv[2];
const ask = async (status, target, options) => {
  const response = await fetch(base + target, options);
  const text = await response.text();
  assert.equal(response.status, status, `${target}: ${text}`);
  return text && JSON.parse(text);
};
const json = (item, headers) => ({ method: "POST", body: JSON.stringify(item), headers: { "content-type": "application/json", ...headers } });

const item = { name: "Ä toy", kind: "toy", price: { amount: 12.5, currency: "EUR" }, tags: ["n", "o,p"] };
const stored = await ask(201, "/items", json(item, { api_key: "secret" }));
await ask(403, "/items", json(item, { api_key: "other" }));
await ask(400, "/items", json(item));
await ask(400, "/items", json({ ...item, more: 1 }, { api_key: "secret" }));
const query = new URLSearchParams([["tags", "n"], ["tags", "o,p"], ["since", "2026-01-01T10:00:00Z"]]);
assert.deepEqual(await ask(200, `/items?${query}`), [stored]);
assert.deepEqual(await ask(200, `/items/${stored.id}`), stored);
await ask(200, "/form", { method: "POST", body: new URLSearchParams({ name: "Ä b", age: "3" }) });
const form = new FormData();
form.set("title", "t");
form.set("picture", new Blob([new Uint8Array(100_000)], { type: "image/png" }), "é.png");
assert.deepEqual(await ask(200, "/upload", { method: "POST", body: form }), { t: 100_000 });
await ask(204, `/items/${stored.id}`, { method: "DELETE" });
