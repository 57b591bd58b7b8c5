"use strict";
// All text of the server becomes text nodes: nothing it says can become markup.
const at = (id) => document.getElementById(id);
const POINTS = 120;
const history = { requests: [], errors: [], p50: [], p95: [], p99: [], received: [], sent: [], open: [], handshakes: [] };
let token = sessionStorage.getItem("token");
let latest = null;
let fixed = { routes: [], certificates: [], handshakes: [], clients: [], shadow: [], key_servers: [] };
let generation = null;
// What a request of this page was told, until the next request or reload.
let told = [];
let reloads = null;
// Columns that tables are sorted by: index and direction, by table.
const order = {};

const headers = () => (token ? { Authorization: `Bearer ${token}` } : {});

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

const number = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en"));
const millis = (value) => (value === null || value === undefined ? "–" : `${number(value)} ms`);

function bytes(value) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit + 1 < units.length) { value /= 1000; unit += 1; }
  return `${value.toFixed(unit ? 1 : 0)} ${units[unit]}`;
}

function drawn(name, attributes) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function tile(name, value, kind) {
  const made = element("div", undefined, "tile");
  made.append(element("span", name), element("strong", value, kind));
  return made;
}

// Series of the last two minutes: name, values, class. The scale is that of the largest value.
function chart(title, show, series) {
  const made = element("figure", undefined, "chart");
  made.setAttribute("role", "img");
  const most = Math.max(1e-9, ...series.flatMap(([, values]) => values));
  const head = element("h2", title);
  head.append(element("small", `up to ${show(most > 1e-9 ? most : 0)}`));
  const svg = drawn("svg", { viewBox: `0 0 ${POINTS - 1} 100`, preserveAspectRatio: "none", "aria-hidden": "true" });
  for (const y of [2, 34, 66, 98]) svg.append(drawn("line", { x1: 0, x2: POINTS - 1, y1: y, y2: y, class: "grid" }));
  const legend = document.createElement("ul");
  for (const [name, values, kind] of series) {
    const points = values.map((value, index) => `${POINTS - values.length + index},${98 - (value / most) * 96}`);
    svg.append(drawn("polyline", { points: points.join(" "), class: kind }));
    legend.append(element("li", `${name} ${show(values[values.length - 1] ?? 0)}`, kind));
  }
  made.setAttribute("aria-label", `${title}: ${[...legend.children].map((one) => one.textContent).join(", ")}`);
  made.append(head, svg, legend);
  made.classList.add("chart");
  return made;
}

const shown = (cell) => (cell instanceof Node ? cell.textContent : typeof cell === "number" ? number(cell) : cell ?? "–");

// What a cell is sorted by: a number where there is one.
const key = (cell) => (Array.isArray(cell) ? cell[2] ?? cell[0] : cell instanceof Node ? cell.textContent : cell);

function sorted(id, rows) {
  const by = order[id];
  if (!by) return rows;
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a ?? "").localeCompare(String(b ?? "")));
  return [...rows].sort((one, other) => by.way * compare(key(one[by.column]), key(other[by.column])));
}

// Rows are arrays of cells: text, number, element, or [text, class, what it is sorted by]. The filter looks at their text.
function table(id, head, rows) {
  const wanted = at("filter").value.toLowerCase();
  const body = document.createElement("tbody");
  for (const row of sorted(id, rows)) {
    const made = document.createElement("tr");
    row.forEach((cell, index) => {
      const [content, kind] = Array.isArray(cell) ? cell : [cell];
      const place = element("td", undefined, kind ?? (typeof content === "number" ? "number" : undefined));
      if (head[index]) place.dataset.name = head[index];
      place.append(content instanceof Node ? content : shown(content));
      made.append(place);
    });
    if (made.textContent.toLowerCase().includes(wanted)) body.append(made);
  }
  if (!body.firstChild) {
    const none = element("td", rows.length ? "nothing fits the filter" : "none", "none");
    none.colSpan = head.length;
    body.append(document.createElement("tr"));
    body.firstChild.append(none);
  }
  // A button that has the focus keeps it: the table waits.
  const place = at(id);
  if (place.querySelector("tbody")?.contains(document.activeElement)) return;
  if (place.tHead?.rows[0]?.cells.length !== head.length) place.replaceChildren(columns(id, head, rows), body);
  else place.tBodies[0].replaceWith(body);
  for (const [index, cell] of [...place.tHead.rows[0].cells].entries()) {
    const by = order[id];
    const way = by?.column === index ? (by.way > 0 ? "ascending" : "descending") : "none";
    cell.setAttribute("aria-sort", way);
    const first = rows[0]?.[index];
    cell.className = typeof first === "number" || (Array.isArray(first) && first[1]?.startsWith("number")) ? "number" : "";
  }
}

function columns(id, head) {
  const names = document.createElement("tr");
  head.forEach((name, column) => {
    const cell = element("th");
    cell.scope = "col";
    if (name) {
      const button = element("button", name);
      button.type = "button";
      button.addEventListener("click", () => {
        const by = order[id];
        order[id] = { column, way: by?.column === column ? -by.way : 1 };
        draw();
      });
      cell.append(button);
    }
    names.append(cell);
  });
  const top = document.createElement("thead");
  top.append(names);
  return top;
}

async function post(name, body) {
  try {
    const sent = await fetch(`api/v1/${name}`, {
      method: "POST",
      headers: body ? { ...headers(), "Content-Type": "application/json" } : headers(),
      body: body && JSON.stringify(body),
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
  button.setAttribute("aria-label", `${button.textContent} ${server.server} of ${upstream.name}`);
  button.addEventListener("click", () => {
    button.blur();
    post("drain", { server: server.server, upstream: upstream.name, drained: !drained });
  });
  return button;
}

function heading(status) {
  at("state").textContent = status.ready ? "ready" : status.not_ready;
  at("state").className = status.ready ? "good" : "bad";
  at("about").textContent =
    `${status.version} · configuration ${status.generation} · since ${status.started} · ${status.workers} workers`;
  const { last, taken, rejected, last_rejected: isRejected } = status.reloads;
  at("lastreload").textContent =
    isRejected ? "the last reload was rejected" : last ? `reloaded ${last} (${taken} taken, ${rejected} rejected)` : "";
  at("lastreload").className = isRejected ? "bad" : "";
  at("reload").hidden = !status.may_change;
}

function tiles(status, rates) {
  const late = status.certificates.next_days_left;
  const { full, resumed } = status.handshakes;
  at("tiles").replaceChildren(
    tile("requests/s", number(rates?.requests)),
    tile("of these 5xx/s", number(rates?.server_errors), rates?.server_errors > 0 ? "bad" : undefined),
    tile("latency p99", millis(rates?.latency_ms.p99)),
    tile("open connections", number(status.connections.open)),
    tile("handshakes/s", number(rates?.handshakes)),
    tile("handshakes resumed", full + resumed ? `${Math.round((100 * resumed) / (full + resumed))} %` : "–"),
    tile("servers up", `${status.servers.up} / ${status.servers.total}`, status.servers.up < status.servers.total ? "warn" : undefined),
    tile("next certificate ends", late === null ? "–" : `${number(late)} days`, late !== null && late < 14 ? "bad" : undefined),
  );
}

function charts() {
  const perSecond = (value) => number(Math.round(value * 10) / 10);
  at("charts").replaceChildren(
    chart("Requests per second", perSecond, [["all", history.requests, "one"], ["5xx", history.errors, "fail"]]),
    chart("Latency", millis, [["p50", history.p50, "one"], ["p95", history.p95, "two"], ["p99", history.p99, "three"]]),
    chart("Bytes per second", bytes, [["in", history.received, "one"], ["out", history.sent, "two"]]),
    chart("Connections", perSecond, [["open", history.open, "one"], ["handshakes/s", history.handshakes, "two"]]),
  );
}

function draw() {
  if (!latest) return;
  const { status, rates, listeners, upstreams, rejections } = latest;
  heading(status);
  problems();
  tiles(status, rates);
  charts();
  table("servers", ["upstream", "server", "state", "weight", "active", "requests", "failed", ""],
    upstreams.flatMap((upstream) => upstream.servers.map((server) => [
      upstream.name, server.server, [server.state.replace("_", " "), STATES[server.state]], server.weight, server.in_flight,
      server.requests, server.failures, action(upstream, server),
    ])));
  table("listeners", ["listener", "kind", "addresses", "open", "requests", "in", "out"],
    listeners.map((one) => [
      one.name, one.tls ? `${one.kind}, TLS` : one.kind, one.addresses.join(" "), one.connections.open, one.requests,
      [bytes(one.bytes.received), "number", one.bytes.received], [bytes(one.bytes.sent), "number", one.bytes.sent],
    ]));
  table("rejections", ["reason", "whose fault", "last minute", "since start", "what it means", "what to do"],
    rejections.map((one) => [
      one.reason, [one.fault, one.fault === "client" ? undefined : "bad"], one.last_minute, one.count, one.meaning, one.remedy,
    ]));
  slow();
}

// What changes seldom, or takes longer to find out.
function slow() {
  table("certificates", ["days left", "until", "key", "keystore", "names"],
    fixed.certificates.map((one) => [
      [number(one.days_left), one.days_left < 14 ? "number bad" : "number", one.days_left], one.not_after, one.key_type,
      one.keystore, one.names.join(" "),
    ]));
  table("routes", ["route", "hosts", "paths", "methods", "does", "requests", "4xx", "5xx"],
    fixed.routes.map((one) => [
      one.name, one.hosts.join(" ") || "any", one.paths.join(" "), one.methods.join(" ") || "any",
      [[one.action, ...one.upstreams].join(" ")], one.requests.total, one.requests["4xx"], one.requests["5xx"],
    ]));
  table("handshakes", ["version", "key", "cipher", "resumed", "count"],
    fixed.handshakes.map((one) => [one.version, one.key_type, one.cipher, one.resumed ? "yes" : "no", one.count]));
  table("clients", ["client", "requests", "connections", "in", "out"],
    fixed.clients.slice(0, 50).map((one) => [
      one.address, one.requests, one.connections,
      [bytes(one.bytes_received), "number", one.bytes_received], [bytes(one.bytes_sent), "number", one.bytes_sent],
    ]));
  table("shadow", ["contract", "what", "operation", "name", "count", "last seen"],
    fixed.shadow.map((one) => [one.contract, one.kind, one.operation, one.name ?? "", one.count, new Date(one.last_seen * 1000).toISOString().slice(0, 19)]));
  table("keyservers", ["group", "server", "state", "connections", "operations", "failed"],
    fixed.key_servers.map((one) => [
      one.group, one.server, [one.up ? "up" : "down", one.up ? "good" : "bad"], one.connections, one.operations, one.failures,
    ]));
  for (const id of ["shadow", "keyservers"]) {
    at(id).closest("section").hidden = fixed[id === "shadow" ? "shadow" : "key_servers"].length === 0;
  }
}

async function view(path, member) {
  const got = await fetch(`api/v1/${path}`, { headers: headers() });
  return got.ok ? (await got.json())[member] ?? [] : [];
}

async function refresh() {
  const names = [["routes", "routes"], ["certificates", "certificates"], ["handshakes", "handshakes"], ["clients", "clients"],
    ["shadow", "shadow"], ["key-servers", "key_servers"]];
  try {
    const views = await Promise.all(names.map(([path, member]) => view(path, member)));
    fixed = Object.fromEntries(names.map(([, member], index) => [member, views[index]]));
    draw();
  } catch {
    // The stream of events says that the server is gone.
  }
}

function take(event) {
  latest = event;
  const keep = (name, value) => {
    history[name].push(value ?? 0);
    if (history[name].length > POINTS) history[name].shift();
  };
  const { rates, status } = event;
  keep("requests", rates?.requests);
  keep("errors", rates?.server_errors);
  keep("p50", rates?.latency_ms.p50);
  keep("p95", rates?.latency_ms.p95);
  keep("p99", rates?.latency_ms.p99);
  keep("received", rates?.bytes_received);
  keep("sent", rates?.bytes_sent);
  keep("handshakes", rates?.handshakes);
  keep("open", status.connections.open);
  const seen = JSON.stringify(status.reloads);
  if (seen !== reloads) {
    reloads = seen;
    told = [];
  }
  if (status.generation !== generation) {
    generation = status.generation;
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
at("reload").addEventListener("click", () => post("reload"));
at("login").addEventListener("submit", (event) => {
  event.preventDefault();
  token = at("token").value;
  sessionStorage.setItem("token", token);
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !/^(INPUT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "")) {
    event.preventDefault();
    at("filter").focus();
  }
});
setInterval(refresh, 5000);
run();
