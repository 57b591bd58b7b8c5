"use strict";
// All text of the server becomes text nodes: nothing it says can become markup.
const at = (id) => document.getElementById(id);
// What charts show, and how far two points may be apart that are joined, milliseconds.
const SPAN = 600_000;
const GAP = 5_000;
const history = { at: [], requests: [], errors: [], p50: [], p95: [], p99: [], received: [], sent: [], open: [], handshakes: [] };
// The time that all charts show the values of: that of the pointer or the arrow keys, or none for the newest.
let cursor = null;
// A link may bring the token behind `#token=`, which no server is sent; it is not left in the address.
const linked = /^#token=([!-~]+)$/.exec(location.hash)?.[1];
if (linked) {
  sessionStorage.setItem("token", linked);
  window.history.replaceState(null, "", location.pathname);
}
let token = sessionStorage.getItem("token");
let latest = null;
// Views that events do not carry: path and member.
const VIEWS = [["routes", "routes"], ["certificates", "certificates"], ["handshakes", "handshakes"], ["clients", "clients"],
  ["shadow", "shadow"], ["key-servers", "key_servers"], ["errors", "errors"], ["policies", "policies"], ["contracts", "contracts"]];
const fixed = Object.fromEntries(VIEWS.map(([, member]) => [member, []]));
// Rejections and failures that were counted when errors were last asked for.
let failures = 0;
let generation = null;
// Whether the stream of events has brought any since it was last begun.
let isHeard = false;
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
const millis = (value) => (value === null || value === undefined ? "–" : `${number(Math.round(value * 100) / 100)} ms`);
const perSecond = (value) => (value === null ? "–" : number(Math.round(value * 100) / 100));

function bytes(value) {
  if (value === null) return "–";
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

const clock = (time, seconds) => new Date(time).toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit", second: seconds ? "2-digit" : undefined });

// The distance of lines that are good to read: about four up to the largest value.
function distance(most) {
  const size = 10 ** Math.floor(Math.log10(most / 4));
  return size * [1, 2, 5, 10].find((factor) => factor * size * 4 >= most * 0.999);
}

// The place of the point that is next to a time; -1 where there is none.
function nearest(time) {
  let best = -1;
  history.at.forEach((at, index) => {
    if (best < 0 || Math.abs(at - time) < Math.abs(history.at[best] - time)) best = index;
  });
  return best;
}

const HEIGHT = 170;
const MARGIN = { top: 8, right: 10, bottom: 20 };

// Series over the last minutes, each a name, a member of the history and a class. It is one thing to a keyboard: the arrow keys move along the time.
class Chart {
  constructor(title, show, series) {
    Object.assign(this, { title, show, series });
    this.figure = element("figure", undefined, "chart");
    this.moment = element("small");
    const head = element("h2", title);
    head.append(this.moment);
    this.svg = drawn("svg", { tabindex: 0, role: "slider", "aria-label": `${title}, by time`, "aria-orientation": "horizontal", height: HEIGHT });
    this.legend = document.createElement("ul");
    this.figure.append(head, this.svg, this.legend);
    this.svg.addEventListener("pointermove", (event) => point(this.time(event.clientX - this.svg.getBoundingClientRect().left)));
    this.svg.addEventListener("pointerleave", () => point(null));
    this.svg.addEventListener("blur", () => point(null));
    this.svg.addEventListener("keydown", (event) => this.key(event));
  }

  key(event) {
    const last = history.at.length - 1;
    const now = cursor === null ? last : nearest(cursor);
    const step = event.shiftKey ? 10 : 1;
    const wanted = { ArrowLeft: now - step, ArrowDown: now - step, ArrowRight: now + step, ArrowUp: now + step, PageDown: now - 30, PageUp: now + 30, Home: 0, End: last }[event.key];
    if (wanted === undefined && event.key !== "Escape") return;
    event.preventDefault();
    point(event.key === "Escape" || last < 0 ? null : history.at[Math.min(Math.max(wanted, 0), last)]);
  }

  // Draws the whole chart; its parts are few.
  draw() {
    const width = Math.max(160, this.svg.clientWidth || 300);
    const end = history.at[history.at.length - 1] ?? Date.now();
    const begin = end - SPAN;
    const most = Math.max(...this.series.flatMap(([, member]) => history[member].map((value) => value ?? 0)), 0) || 1;
    const step = distance(most);
    const top = Math.ceil(most / step - 1e-6) * step;
    const lines = [...Array(Math.round(top / step) + 1).keys()].map((count) => count * step);
    const left = 12 + 6.6 * Math.max(...lines.map((value) => this.show(value).length));
    const x = (time) => left + ((time - begin) / SPAN) * (width - left - MARGIN.right);
    const y = (value) => HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    this.time = (place) => begin + ((place - left) / (width - left - MARGIN.right)) * SPAN;
    const parts = [];
    for (const value of lines) {
      parts.push(drawn("line", { x1: left, x2: width - MARGIN.right, y1: y(value), y2: y(value), class: "grid" }));
      parts.push(written(left - 6, y(value) + 4, this.show(value), "axis end"));
    }
    const minutes = width < 420 ? 120_000 : 60_000;
    for (let time = Math.ceil(begin / minutes) * minutes; time <= end; time += minutes) {
      parts.push(drawn("line", { x1: x(time), x2: x(time), y1: y(0), y2: y(0) + 4, class: "tick" }));
      if (x(time) > left + 12 && x(time) < width - 20) parts.push(written(x(time), HEIGHT - 4, clock(time), "axis middle"));
    }
    for (const [, member, kind] of this.series) {
      const line = path(member, x, y);
      if (this.series[0][1] === member && line) parts.push(drawn("path", { d: area(member, x, y), class: `area ${kind}` }));
      parts.push(drawn("path", { d: line, class: `line ${kind}` }));
    }
    const at = cursor === null ? history.at.length - 1 : nearest(cursor);
    if (cursor !== null && at >= 0) parts.push(...this.marks(at, x, y, left, width));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
    this.svg.replaceChildren(...parts);
    this.say(at, begin, end);
  }

  // The cursor: a line, a point on each series, and what stands there.
  marks(at, x, y, left, width) {
    const place = x(history.at[at]);
    const known = this.series.filter(([, member]) => history[member][at] !== null);
    const texts = [clock(history.at[at], true), ...known.map(([name, member]) => `${name} ${this.show(history[member][at])}`)];
    const wide = 16 + 6.8 * Math.max(...texts.map((text) => text.length));
    const from = place + wide + 10 > width ? Math.max(left, place - wide - 8) : place + 8;
    const box = drawn("g", { class: "tip" });
    box.append(drawn("rect", { x: from, y: MARGIN.top, width: wide, height: 8 + 16 * texts.length, rx: 5 }));
    texts.forEach((text, line) => box.append(written(from + 8, MARGIN.top + 16 * (line + 1), text, line ? known[line - 1][2] : "when")));
    const points = known.map(([, member, kind]) => drawn("circle", { cx: place, cy: y(history[member][at]), r: 3.5, class: kind }));
    return [drawn("line", { x1: place, x2: place, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom, class: "cursor" }), ...points, box];
  }

  // The same in words: below the chart, and for those who cannot see it.
  say(at, begin, end) {
    const value = (member) => this.show(history[member][at] ?? null);
    this.legend.replaceChildren(...this.series.map(([name, member, kind]) => element("li", `${name} ${value(member)}`, kind)));
    this.moment.textContent = cursor === null || at < 0 ? "" : clock(history.at[at], true);
    const values = this.series.map(([name, member]) => `${name} ${value(member)}`).join(", ");
    const attributes = { "aria-valuemin": 0, "aria-valuemax": SPAN / 1000, "aria-valuenow": Math.round(((history.at[at] ?? end) - begin) / 1000),
      "aria-valuetext": at < 0 ? "nothing yet" : `${clock(history.at[at], true)}: ${values}` };
    for (const [name, text] of Object.entries(attributes)) this.svg.setAttribute(name, text);
  }
}

function written(x, y, text, kind) {
  const made = drawn("text", { x, y, class: kind });
  made.textContent = text;
  return made;
}

// Places of the points that are joined, in runs.
function runs(member, x, y) {
  const all = [];
  let last = -Infinity;
  history[member].forEach((value, index) => {
    const time = history.at[index];
    if (value === null) {
      last = -Infinity;
      return;
    }
    if (time - last > GAP) all.push([]);
    all[all.length - 1].push([x(time).toFixed(1), y(value).toFixed(1)]);
    last = time;
  });
  return all;
}

const path = (member, x, y) => runs(member, x, y).map((run) => `M${run.map((place) => place.join(" ")).join("L")}${run.length === 1 ? "h.1" : ""}`).join("");
const area = (member, x, y) =>
  runs(member, x, y).map((run) => `M${run[0][0]} ${y(0)}L${run.map((place) => place.join(" ")).join("L")}L${run[run.length - 1][0]} ${y(0)}Z`).join("");

function point(time) {
  cursor = time;
  charts.forEach((chart) => chart.draw());
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
  at("reload").hidden = false;
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

const charts = [
  new Chart("Requests per second", perSecond, [["all", "requests", "one"], ["5xx", "errors", "fail"]]),
  new Chart("Latency", millis, [["p50", "p50", "one"], ["p95", "p95", "two"], ["p99", "p99", "three"]]),
  new Chart("Bytes per second", bytes, [["in", "received", "one"], ["out", "sent", "two"]]),
  new Chart("Connections", perSecond, [["open", "open", "one"], ["handshakes/s", "handshakes", "two"]]),
];

function draw() {
  if (!latest) return;
  const { status, rates, listeners, upstreams, rejections } = latest;
  heading(status);
  problems();
  tiles(status, rates);
  charts.forEach((chart) => chart.draw());
  table("servers", ["upstream", "server", "state", "weight", "active", "requests", "failed", ""],
    upstreams.flatMap((upstream) => upstream.servers.map((server) => [
      upstream.name, server.server, [server.state.replace("_", " "), STATES[server.state]], server.weight, server.in_flight,
      server.requests, server.failures, action(upstream, server),
    ])));
  table("listeners", ["listener", "kind", "addresses", "open", "requests", "in", "out"],
    listeners.map((one) => [
      one.name, one.tls ? `${one.kind}, TLS` : one.kind, one.sockets.map((socket) => `${socket.transport} ${socket.address}`).join(", "), one.connections.open, one.requests,
      [bytes(one.bytes.received), "number", one.bytes.received], [bytes(one.bytes.sent), "number", one.bytes.sent],
    ]));
  table("rejections", ["reason", "whose fault", "last minute", "since start", "what it means", "what to do"],
    rejections.map((one) => [
      one.reason, [one.fault, one.fault === "client" ? undefined : "bad"], one.last_minute, one.count, one.meaning, one.remedy,
    ]));
  slow();
}

// What a request was, or that it was none.
const asked = (error) => (error.kind === "request" ? `${error.method ?? ""} ${error.host ?? ""}${error.target ?? ""}` : `${error.kind} ${error.host ?? ""}`).trim();
const counts = (reasons) => reasons.map((one) => `${one.reason} ${number(one.count)}`).join(", ");

// What changes seldom, or takes longer to find out.
function slow() {
  table("errors", ["time", "client", "request", "status", "reason", "whose fault", "server", "what it means"],
    fixed.errors.map((one) => [
      [clock(Date.parse(one.time), true), undefined, one.time], [one.user ?? one.client ?? "–"], [asked(one), "long"], one.status ?? "–",
      one.reason ?? "–", [one.fault.replace("_", " "), one.fault === "client" ? undefined : "bad"], [one.server ?? one.upstream ?? "–", "long"],
      [[one.policy && `policy ${one.policy}`, one.detail, one.meaning].filter(Boolean).join(": ") || "the server itself responded so", "wide"],
    ]));
  table("policies", ["policy", "consists of", "mode", "attached to", "passed", "rejected", "only logged", "slowed down", "why"],
    fixed.policies.map((one) => [
      one.name, [one.kinds.join(", "), one.closed ? "warn" : undefined], one.mode,
      [[...one.listeners, ...one.hosts, ...one.routes].join(" ") || "nothing", "wide"], one.passed,
      [number(one.rejected), one.rejected ? "number warn" : "number", one.rejected], one.logged, one.throttled, counts(one.reasons),
    ]));
  table("contracts", ["contract", "operation", "passed", "blocked", "only logged", "violations"],
    fixed.contracts.map((one) => [
      one.contract, [one.operation || "none of the document", "long"], one.passed,
      [number(one.blocked), one.blocked ? "number warn" : "number", one.blocked], one.logged, counts(one.reasons),
    ]));
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
  for (const [id, member] of [["shadow", "shadow"], ["keyservers", "key_servers"], ["policies", "policies"], ["contracts", "contracts"]]) {
    at(id).closest("section").hidden = fixed[member].length === 0;
  }
}

async function view(path, member) {
  const got = await fetch(`api/v1/${path}`, { headers: headers() });
  return got.ok ? (await got.json())[member] ?? [] : [];
}

async function refresh(wanted = VIEWS) {
  try {
    await Promise.all(wanted.map(async ([path, member]) => {
      fixed[member] = await view(path, member);
    }));
    draw();
  } catch {
    // The stream of events says that the server is gone.
  }
}

// Adds a point to all series.
function note(at, rates, open) {
  const keep = (name, value) => history[name].push(value ?? null);
  keep("at", at);
  keep("requests", rates?.requests);
  keep("errors", rates?.server_errors);
  keep("p50", rates?.latency_ms.p50);
  keep("p95", rates?.latency_ms.p95);
  keep("p99", rates?.latency_ms.p99);
  keep("received", rates?.bytes_received);
  keep("sent", rates?.bytes_sent);
  keep("handshakes", rates?.handshakes);
  keep("open", open);
}

// What was so before the page was opened.
async function recall() {
  const points = await view("history", "history");
  if (history.at.length === 0) for (const { age_ms, rates, open } of points) note(Date.now() - age_ms, rates, open);
}

function take(event) {
  latest = event;
  isHeard = true;
  const { rates, status } = event;
  note(Date.now(), rates, status.connections.open);
  while (history.at[0] < Date.now() - SPAN) Object.values(history).forEach((values) => values.shift());
  const failed = event.rejections.reduce((sum, one) => sum + one.count, 0);
  if (failed !== failures) {
    failures = failed;
    refresh(VIEWS.filter(([, member]) => member === "errors"));
  }
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
  if (history.at.length === 0) await recall();
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
      // The server ends a stream after some time, which is no failure; that the next one does not begin is one.
      if (!isHeard) {
        at("state").textContent = error.message;
        at("state").className = "bad";
      }
    }
    isHeard = false;
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
at("charts").replaceChildren(...charts.map((chart) => chart.figure));
window.addEventListener("resize", draw);
setInterval(refresh, 5000);
run();
