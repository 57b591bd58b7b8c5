"""Chromium, driven by its DevTools protocol. Usage: browser.py SCENARIO URL [NUMBER...]; exits with 0 if all went well.

A scenario is a function in JavaScript that runs in a page of the site. It throws what went wrong.
"""

import asyncio
import json
import os
import shutil
import sys
import tempfile

import aiohttp

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    # The CA is a minute old.
    "--ignore-certificate-errors",
    # `localhost` may have an IPv6 address, where nobody listens.
    "--host-resolver-rules=MAP localhost 127.0.0.1, MAP *.example 127.0.0.1",
    "--remote-debugging-port=0",
]

PRELUDE = """
const check = (fact, what) => { if (!fact) throw new Error(what); };
const image = (target) => new Promise((resolve, reject) => {
  const element = new Image();
  element.onload = () => resolve();
  element.onerror = () => reject(new Error("did not load: " + target));
  element.src = target;
});
const source = (target, count) => new Promise((resolve, reject) => {
  const events = new EventSource(target);
  let seen = 0;
  events.onmessage = () => { seen += 1; };
  events.onerror = () => { events.close(); reject(new Error(`cut after ${seen} of ${count} events`)); };
  events.addEventListener("end", () => {
    events.close();
    seen === count ? resolve() : reject(new Error(`${seen} of ${count} events`));
  });
});
"""

SCENARIOS = {
    # COUNT: a page with that many pictures.
    "assets": """async (count) => {
      await Promise.all([...Array(count).keys()].map((n) => image(`/tile?asset=${n}`)));
    }""",
    # COUNT ROUNDS: a map that is moved: that many tiles are asked for and given up, as many others are wanted; with an event stream beside.
    "tiles": """async (count, rounds) => {
      const beside = source(`/events?n=${rounds * 20}&ms=100`, rounds * 20);
      beside.catch(() => {});
      for (let round = 0; round < rounds; round++) {
        const moved = new AbortController();
        for (let n = 0; n < count; n++) {
          fetch(`/tile?old=${round}-${n}&ms=60000`, { signal: moved.signal }).catch(() => {});
        }
        await new Promise((resolve) => setTimeout(resolve, 200));
        moved.abort();
        const wanted = [...Array(count).keys()].map((n) => image(`/tile?new=${round}-${n}&ms=20`));
        const got = await Promise.allSettled(wanted);
        const lost = got.filter((one) => one.status === "rejected").length;
        check(lost === 0, `round ${round}: ${lost} of ${count} tiles lost`);
      }
      await beside;
    }""",
    # COUNT PAUSE_MS
    "events": "(count, pause) => source(`/events?n=${count}&ms=${pause}`, count)",
    # MESSAGES PAUSE_MS
    "socket": """async (messages, pause) => {
      const socket = new WebSocket(location.origin.replace("https", "wss") + "/socket");
      let ended = false;
      socket.onclose = () => { ended = true; };
      await new Promise((resolve, reject) => { socket.onopen = resolve; socket.onerror = () => reject(new Error("no WebSocket")); });
      for (let n = 0; n < messages; n++) {
        const sent = `message ${n} ` + "x".repeat(n % 1000 * 50);
        const got = await new Promise((resolve, reject) => {
          socket.onmessage = (event) => resolve(event.data);
          socket.onclose = () => reject(new Error(`closed after ${n} messages`));
          socket.send(sent);
        });
        check(got === sent, `message ${n} came back otherwise`);
        await new Promise((resolve) => setTimeout(resolve, pause));
      }
      check(!ended, "closed");
      socket.close();
    }""",
    # MEGABYTES
    "download": """async (megabytes) => {
      const wanted = megabytes * 1000000;
      const reader = (await fetch(`/bytes?n=${wanted}`)).body.getReader();
      let got = 0;
      for (let part = await reader.read(); !part.done; part = await reader.read()) got += part.value.length;
      check(got === wanted, `${got} of ${wanted} bytes`);
    }""",
    # MEGABYTES
    "upload": """async (megabytes) => {
      const file = chosen.files[0];
      check(file.size === megabytes * 1000000, `the file has ${file.size} bytes`);
      const form = new FormData();
      form.set("file", file, "large.bin");
      const response = await fetch("/echo", { method: "POST", body: form });
      check(response.status === 200, `status ${response.status}`);
      const echo = await response.json();
      check(echo.length > file.size, `${echo.length} of ${file.size} bytes`);
    }""",
    "urls": """async () => {
      const odd = ["a|b", "[1]", "{id}", "a^b", "`a`", "a b", "ä", "\\u{1F600}", "a'b", '"a"', "a\\\\b", "(a)", "a,b;c=d", "~a", "@a", "a:b", "100%25", "%2B+"];
      const failed = [];
      for (const text of odd) {
        const inPath = text.includes("\\\\") ? "x" : text;
        for (const target of [`/echo/${inPath}`, `/echo/?q=${text}`, `/echo/?${text}`, `/echo/?a[]=${text}&b[c]=1`]) {
          const got = await fetch(target).then((response) => response.ok ? response.json() : response.status, String);
          const sent = new URL(target, location);
          // Percent-encoding more than the browser did is fine; another meaning is not.
          const meaning = (target) => { try { return decodeURIComponent(target); } catch { return target; } };
          if (meaning(got.target) !== meaning(sent.pathname + sent.search)) failed.push(`${target}: ${got.target ?? got}`);
        }
      }
      const long = "/echo/?" + "q".repeat(6000);
      const got = await fetch(long).then((response) => response.ok ? response.json() : response.status, String);
      if (got.target !== long) failed.push(`6,000 characters of query: ${got.target ?? got}`);
      check(failed.length === 0, failed.join("; "));
    }""",
    "cookies": """async () => {
      await fetch("/cookies");
      const length = await (await fetch("/cookies")).text();
      check(length === "8000", `${length} bytes of cookies`);
      await Promise.all([...Array(100).keys()].map((n) => image(`/tile?with-cookies=${n}`)));
    }""",
    # TOKEN: the dashboard of the admin side, as an operator uses it.
    "dashboard": """async (token) => {
      const at = (id) => document.getElementById(id);
      const until = async (what, fact) => {
        for (let tries = 0; tries < 400; tries++) {
          if (fact()) return;
          await new Promise((resolve) => setTimeout(resolve, 50));
        }
        throw new Error("in vain: " + what);
      };
      const violations = [];
      document.addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
      await until("asks for the token", () => !at("login").hidden);
      at("token").value = token;
      at("login").requestSubmit();
      await until("ready", () => at("state").textContent === "ready" && at("login").hidden);
      const rows = (id) => [...document.querySelectorAll(`#${id} tbody tr`)];
      await until("the tables", () => ["servers", "listeners", "certificates", "routes"].every((id) => rows(id)[0]?.cells.length > 1));
      check(document.querySelectorAll("#charts .chart polyline").length === 9, "charts");
      await until("handshakes and clients", () => ["handshakes", "clients"].every((id) => rows(id)[0]?.cells.length > 1));
      const column = (id, name) => [...document.querySelectorAll(`#${id} th button`)].find((button) => button.textContent === name);
      const sortedBy = () => column("servers", "server").closest("th").getAttribute("aria-sort");
      column("servers", "server").focus();
      document.activeElement.click();
      check(sortedBy() === "ascending", "sorted");
      document.activeElement.click();
      check(sortedBy() === "descending" && document.activeElement === column("servers", "server"), "sorted the other way, and the focus stays");
      document.body.focus();
      document.activeElement.blur();
      document.dispatchEvent(new KeyboardEvent("keydown", { key: "/", bubbles: true, cancelable: true }));
      check(document.activeElement === at("filter"), "the slash leads to the filter");
      const state = () => rows("servers")[0].cells[2]?.textContent;
      const click = () => rows("servers")[0].querySelector("button").click();
      check(state() === "up", state());
      click();
      await until("drained", () => state() === "drained");
      check(rows("servers")[0].querySelector("button").textContent === "Use again", "the button");
      click();
      await until("up again", () => state() === "up");
      at("filter").value = "no such thing";
      at("filter").dispatchEvent(new Event("input"));
      check(["servers", "routes"].every((id) => rows(id).length === 1 && rows(id)[0].textContent === "nothing fits the filter"), "filtered");
      at("filter").value = "";
      at("filter").dispatchEvent(new Event("input"));
      check(state() === "up", "not filtered");
      at("reload").click();
      await until("reloaded", () => at("about").textContent.includes("configuration 2"));
      check(violations.length === 0, "the page breaks its own policy: " + violations);
      const script = document.createElement("script");
      try { script.textContent = "window.broken = true"; document.body.append(script); } catch { }
      try { document.body.append(Object.assign(new Image(), { src: "https://example.com/x.png" })); } catch { }
      await until("the policy", () => violations.length > 0);
      check(window.broken === undefined, "an inline script ran");
      check(document.documentElement.scrollWidth <= innerWidth, "wider than the window");
    }""",
    # Forms, fetch with keepalive, a page that is left while it loads, and hints ahead of the answer.
    "page": """async () => {
      const frame = document.createElement("iframe");
      frame.name = "there";
      document.body.appendChild(frame);
      const loaded = () => new Promise((resolve) => { frame.onload = resolve; });
      frame.src = "/tile?ms=60000";
      await new Promise((resolve) => setTimeout(resolve, 300));
      frame.src = "/early";
      await loaded();
      check(frame.contentDocument.body.textContent === "after the hints", frame.contentDocument.body.textContent);
      const form = document.body.appendChild(document.createElement("form"));
      Object.assign(form, { method: "post", action: "/echo", target: "there" });
      form.innerHTML = '<input name="street" value="Große Straße 1"><input name="city" value="Köln">';
      const answered = loaded();
      form.submit();
      await answered;
      check(JSON.parse(frame.contentDocument.body.textContent).method === "POST", "the form");
      const beacon = await fetch("/echo", { method: "POST", body: "bye", keepalive: true });
      check((await beacon.json()).length === 3, "keepalive");
      const part = await fetch("/file", { headers: { Range: "bytes=1000-1999" } });
      check(part.status === 206 && (await part.arrayBuffer()).byteLength === 1000, "a range");
    }""",
    # API CREDENTIALS: a page that the API lets in, with credentials and a field that makes the browser ask first.
    "cors_allowed": """async (api, right) => {
      const headers = { "Content-Type": "application/json", Authorization: right };
      const put = (more, body = '{"name":"a"}') => fetch(api, { method: "PUT", credentials: "include", headers: { ...headers, ...more }, body });
      const done = await put({});
      check(done.status === 200 && (await done.text()) === "[]", `PUT: ${done.status}`);
      check(done.headers.get("X-Total") === "3" && done.headers.get("X-Inner") === null, "exposed fields");
      // Rejections can be read, too: that credentials are missing, and what the contract says.
      const strangers = await fetch(api, { credentials: "include" });
      check(strangers.status === 401, `without credentials: ${strangers.status}`);
      const broken = await put({}, "{}");
      check(broken.status === 400 && (await broken.json()).status === 400, `a body that breaks the contract: ${broken.status}`);
      for (const [what, options] of [["DELETE", { method: "DELETE" }], ["a field", { headers: { "X-Other": "1" } }]]) {
        const refused = await fetch(api, options).then((response) => response.status, (error) => error.name);
        check(refused === "TypeError", `${what}: ${refused}`);
      }
    }""",
    # API CREDENTIALS: a page that the API does not let in.
    "cors_foreign": """async (api, right) => {
      const failed = async (options) => fetch(api, options).then((response) => response.status, (error) => error.name);
      const headers = { Authorization: right };
      check((await failed({ headers })) === "TypeError", "with credentials of its own");
      check((await failed({ credentials: "include" })) === "TypeError", "with the visitor's");
      check((await failed({ method: "PUT", headers, body: '{"name":"a"}' })) === "TypeError", "PUT");
      // What needs no preflight is sent, without a token, and cannot be read.
      const opaque = await fetch(api, { mode: "no-cors" });
      check(opaque.type === "opaque" && opaque.status === 0, `no-cors: ${opaque.type}`);
    }""",
    # Signed in by the user and password of the URL that the page came from.
    "signed_in": """async () => {
      const response = await fetch(location.origin + "/more");
      check(response.status === 200, `status ${response.status}`);
    }""",
    # SHA256: of a text that came compressed.
    "compressed": """async (wanted) => {
      const response = await fetch("/text");
      check(response.headers.get("Content-Encoding") !== null, "as it was");
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await response.arrayBuffer()));
      check([...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("") === wanted, "another text");
    }""",
}


class Page:
    def __init__(self, socket):
        self.socket = socket
        self.number = 0

    async def call(self, method, **parameters):
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": parameters})
        while True:
            answer = await self.socket.receive_json()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]

    async def choose_file(self, size):
        """As a user does; what a page makes by itself has to fit into memory."""
        path = tempfile.mktemp(dir=os.getcwd())
        with open(path, "wb") as file:
            file.truncate(size)
        words = "window.chosen = document.body.appendChild(Object.assign(document.createElement('input'), { type: 'file' }))"
        element = (await self.call("Runtime.evaluate", expression=words))["result"]["objectId"]
        await self.call("DOM.setFileInputFiles", files=[path], objectId=element)

    async def event(self, method):
        while (await self.socket.receive_json()).get("method") != method:
            pass


async def main():
    scenario, url, numbers = sys.argv[1], sys.argv[2], ",".join(sys.argv[3:])
    profile = tempfile.mkdtemp(prefix="browser-", dir=os.getcwd())
    words = [*FLAGS, f"--user-data-dir={profile}", "about:blank"]
    with open(os.path.join(profile, "log"), "wb") as log:
        browser = await asyncio.create_subprocess_exec("setpriv", "--pdeathsig", "KILL", "chromium", *words, stdout=log, stderr=log)
    try:
        async with aiohttp.ClientSession() as session:
            await drive(session, await debugging_port(profile, browser), scenario, url, numbers)
    finally:
        if browser.returncode is None:
            browser.terminate()
            await browser.wait()
        shutil.rmtree(profile, ignore_errors=True)


async def debugging_port(profile, browser):
    for _ in range(600):
        try:
            with open(os.path.join(profile, "DevToolsActivePort"), encoding="utf-8") as file:
                return int(file.readline())
        except (OSError, ValueError):
            await asyncio.sleep(0.1)
        if browser.returncode is not None:
            break
    with open(os.path.join(profile, "log"), encoding="utf-8", errors="replace") as log:
        sys.exit(f"chromium did not start: {log.read()[-1000:]}")


async def drive(session, port, scenario, url, numbers):
    async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
        targets = await response.json(content_type=None)
    address = next(target["webSocketDebuggerUrl"] for target in targets if target["type"] == "page")
    async with session.ws_connect(address, max_msg_size=0) as socket:
        page = Page(socket)
        await page.call("Page.enable")
        path = "/dashboard" if scenario == "dashboard" else "/echo?typed=a b|c"
        answer = await page.call("Page.navigate", url=url + path)
        if "errorText" in answer:
            sys.exit(f"the page did not load: {answer['errorText']}")
        await page.event("Page.loadEventFired")
        if scenario == "upload":
            await page.choose_file(int(numbers) * 1_000_000)
        expression = f"(async () => {{ {PRELUDE} await ({SCENARIOS[scenario]})({numbers}); }})()"
        result = await page.call("Runtime.evaluate", expression=expression, awaitPromise=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            sys.exit(details.get("exception", {}).get("description", json.dumps(details)))


if __name__ == "__main__":
    asyncio.run(main())
