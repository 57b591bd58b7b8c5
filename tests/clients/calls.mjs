// Calls of an API by axios or Node's fetch. Usage: node calls.mjs axios|fetch URL MODULES < CALLS; exits with 0 if each went as the list says (calls_of.py).
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const [library, base, modules] = process.argv.slice(2);
const axios = library === "axios" ? createRequire(`${modules}/`)("axios") : null;

// What each library makes of the same data by itself.
async function byFetch(method, url, { query, headers, json, form, file }) {
  const target = query ? `${url}?${new URLSearchParams(query)}` : url;
  let body = json === undefined ? undefined : JSON.stringify(json);
  if (form) body = new URLSearchParams(form);
  if (file) body = multipart(form, file);
  const type = json === undefined ? {} : { "content-type": "application/json" };
  const response = await fetch(target, { method, body, headers: { ...type, ...headers } });
  return { status: response.status, type: response.headers.get("content-type") ?? "", text: await response.text() };
}

async function byAxios(method, url, { query, headers, json, form, file }) {
  const params = {};
  for (const [name, value] of query ?? []) {
    params[name] = name in params ? [params[name], value].flat() : value;
  }
  let data = json;
  if (form) data = new URLSearchParams(form);
  if (file) data = multipart(form, file);
  // Without `indexes: null` axios writes arrays as `tags[]=a`, which is another parameter than `tags`.
  const response = await axios.request({
    method, url, params, data, headers, paramsSerializer: { indexes: null }, validateStatus: () => true, responseType: "text", transformResponse: (text) => text, proxy: false,
  });
  return { status: response.status, type: response.headers["content-type"] ?? "", text: response.data };
}

function multipart(form, file) {
  const body = new FormData();
  for (const [name, value] of form ?? []) body.set(name, value);
  body.set(file.field, new Blob([Buffer.alloc(file.bytes, "\x89PNG", "latin1")], { type: file.type }), file.name);
  return body;
}

const kept = {};
const different = [];
for (const call of JSON.parse(readFileSync(0, "utf8"))) {
  const url = base + call.path.replace(/{(\w+)}/g, (_, name) => kept[name]);
  const { status, type, text } = await (axios ? byAxios : byFetch)(call.method, url, call);
  const code = type.includes("application/problem+json") ? JSON.parse(text).code ?? "" : "";
  if (status !== call.status || code !== (call.code ?? "")) different.push(`${JSON.stringify(call)}: ${status} ${text.slice(0, 300)}`);
  else if (call.keep) kept[call.keep] = JSON.parse(text)[call.keep];
  else if (call.found !== undefined && JSON.parse(text).length !== call.found) different.push(`${JSON.stringify(call)}: ${text.slice(0, 300)}`);
}
if (different.length) {
  console.error(different.join("\n"));
  process.exit(1);
}
