"use strict";
// All text of the server becomes text nodes: nothing it says can become markup.
const at = (id) => document.getElementById(id);
const history = { requests: [], p99: [], open: [] };
let token = sessionStorage.getItem("token");
let latest = null;
let fixed = { routes: [], certificates: [] };
let generation = null;
// What a request of this page was told, until the next request or reload.
let told = [];
let reloads = null;

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) { value /= 1000; unit += 1; }
  return `${value.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

function line(values) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 119 28");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const most = Math.max(1, ...values);
  const points = values.map((value, index) => `${120 - values.length + index},${26 - (value / most) * 24}`);
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  drawn.setAttribute("points", points.join(" "));
  svg.append(drawn);
  return svg;
}

function tile(name, value, values, kind) {
  const made = element("div", undefined, "tile");
  made.append(element("span", name), element("strong", value, kind));
  if (values) made.append(line(values));
  return made;
}

// Rows are arrays of cells: text, or [text, class], or an element. The filter looks at their text.
function table(id, head, rows) {
  const wanted = at("filter").value.toLowerCase();
  const body = document.createElement("tbody");
  for (const row of rows) {
    const made = document.createElement("tr");
    for (const cell of row) {
      const [content, kind] = Array.isArray(cell) ? cell : [cell];
      const place = element("td", undefined, kind ?? (typeof content === "number" ? "number" : undefined));
      place.append(content instanceof Node ? content : typeof content === "number" ? number(content) : content ?? "–");
      made.append(place);
    }
    if (made.textContent.toLowerCase().includes(wanted)) body.append(made);
  }
  const names = document.createElement("tr");
  head.forEach((name, index) => {
    const first = rows[0]?.[index];
    const isNumber = typeof first === "number" || (Array.isArray(first) && first[1]?.startsWith("number"));
    names.append(element("th", name, isNumber ? "number" : undefined));
  });
  const top = document.createElement("thead");
  top.append(names);
  if (!body.firstChild) {
    const none = element("td", rows.length ? "nothing fits the filter" : "none", "none");
    none.colSpan = head.length;
    body.append(document.createElement("tr"));
    body.firstChild.append(none);
  }
  // A button that has the focus keeps it: the table waits.
  if (!at(id).contains(document.activeElement)) at(id).replaceChildren(top, body);
}

async function post(name, body) {
  try {
    const sent = await fetch(`api/v1/${name}`, {
      method: "POST",
      headers: { ...headers(), "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const isJson = sent.headers.get("Content-Type")?.startsWith("application/json");
    const said = isJson ? (await sent.json()).problems : [(await sent.text()).trim()];
    told = sent.ok ? [] : said ?? [`the server responds ${sent.status}`];
  } catch (error) {
    told = [error.message];
  }
  problems();
}

// Those of the last reload go with the next one that is taken.
function problems() {
  const { last_rejected: rejected, problems: ofReload } = latest?.status.reloads ?? {};
  const list = [...new Set([...told, ...(rejected ? ofReload : [])])];
  at("problems").replaceChildren(...list.map((text) => element("li", text)));
  at("problems").hidden = list.length === 0;
}

const STATES = { up: "good", on_trial: "warn", drained: "warn", ejected: "bad", unhealthy: "bad" };

function action(upstream, server) {
  if (!latest.status.may_change) return "";
  const drained = server.state === "drained";
  const button = element("button", drained ? "Use again" : "Drain");
  button.type = "button";
  button.addEventListener("click", () => {
    button.blur();
    post("drain", { server: server.server, upstream: upstream.name, drained: !drained });
  });
  return button;
}

function draw() {
  if (!latest) return;
  const { status, rates, listeners, upstreams, rejections } = latest;
  at("state").textContent = status.ready ? "ready" : status.not_ready;
  at("state").className = status.ready ? "good" : "bad";
  at("about").textContent =
    `${status.version} · configuration ${status.generation} · since ${status.started} · ${status.workers} workers`;
  at("reload").hidden = !status.may_change;
  problems();
  const late = status.certificates.next_days_left;
  at("tiles").replaceChildren(
    tile("requests/s", number(rates?.requests), history.requests),
    tile("of these 5xx/s", number(rates?.server_errors), undefined, rates?.server_errors > 0 ? "bad" : undefined),
    tile("p99 latency, ms", number(rates?.latency_ms.p99), history.p99),
    tile("open connections", number(status.connections.open), history.open),
    tile("handshakes/s", number(rates?.handshakes)),
    tile("out/s", bytes(rates?.bytes_sent ?? 0)),
    tile("servers up", `${status.servers.up} / ${status.servers.total}`, undefined,
      status.servers.up < status.servers.total ? "warn" : undefined),
    tile("next certificate ends, days", number(late), undefined, late !== null && late < 14 ? "bad" : undefined),
  );
  table("servers", ["upstream", "server", "state", "weight", "active", "requests", "failed", ""],
    upstreams.flatMap((upstream) => upstream.servers.map((server) => [
      upstream.name, server.server, [server.state.replace("_", " "), STATES[server.state]], server.weight, server.in_flight,
      server.requests, server.failures, action(upstream, server),
    ])));
  table("listeners", ["listener", "kind", "addresses", "open", "requests", "in", "out"],
    listeners.map((one) => [
      one.name, one.tls ? `${one.kind}, TLS` : one.kind, one.addresses.join(" "), one.connections.open, one.requests,
      [bytes(one.bytes.received), "number"], [bytes(one.bytes.sent), "number"],
    ]));
  table("rejections", ["reason", "whose fault", "last minute", "since start", "what it means", "what to do"],
    rejections.map((one) => [one.reason, one.fault, one.last_minute, one.count, one.meaning, one.remedy]));
  table("certificates", ["days left", "until", "key", "keystore", "names"],
    fixed.certificates.map((one) => [
      [number(one.days_left), one.days_left < 14 ? "number bad" : "number"], one.not_after, one.key_type, one.keystore,
      one.names.join(" "),
    ]));
  table("routes", ["route", "hosts", "paths", "methods", "does", "requests", "4xx", "5xx"],
    fixed.routes.map((one) => [
      one.name, one.hosts.join(" ") || "any", one.paths.join(" "), one.methods.join(" ") || "any",
      [one.action, ...one.upstreams].join(" "), one.requests.total, one.requests["4xx"], one.requests["5xx"],
    ]));
}

async function view(name) {
  const got = await fetch(`api/v1/${name}`, { headers: headers() });
  return got.ok ? (await got.json())[name] : [];
}

async function refresh() {
  fixed = { routes: await view("routes"), certificates: await view("certificates") };
  draw();
}

function take(event) {
  latest = event;
  const keep = (list, value) => { list.push(value ?? 0); if (list.length > 120) list.shift(); };
  keep(history.requests, event.rates?.requests);
  keep(history.p99, event.rates?.latency_ms.p99);
  keep(history.open, event.status.connections.open);
  const seen = JSON.stringify(event.status.reloads);
  if (seen !== reloads) {
    reloads = seen;
    told = [];
  }
  if (event.status.generation !== generation) {
    generation = event.status.generation;
    refresh();
  }
  draw();
}

async function listen() {
  const got = await fetch("api/v1/events", { headers: headers() });
  at("login").hidden = got.status !== 401;
  if (got.status === 401) throw new Error("the token is needed");
  if (!got.ok) throw new Error(`the server responds ${got.status}`);
  const reader = got.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { done, value } = await reader.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) take(JSON.parse(event.slice(event.indexOf("data: ") + 6)));
  }
}

async function run() {
  for (;;) {
    try {
      await listen();
    } catch (error) {
      at("state").textContent = error.message;
      at("state").className = "bad";
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
  }
}

at("filter").addEventListener("input", draw);
at("reload").addEventListener("click", () => post("reload", {}));
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value;
  sessionStorage.setItem("token", token);
});
setInterval(refresh, 30000);
run();
