"""Chromium, driven by its DevTools protocol. Usage: browser.py SCENARIO URL [NUMBER...]; exits with 0 if all went well.

The environment variable HTTP3_KEY has it speak HTTP/3 alone with the site: the digest of the key that it is to find there, in base64.
The environment variable DOH names a resolver over HTTPS, which is then asked about every name.
A scenario is a function in JavaScript that runs in a page of the site. It throws what went wrong.
"""

import asyncio
import base64
import json
import os
import shutil
import sys
import tempfile
import urllib.parse

import aiohttp

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-extensions",
    # The CA is a minute old.
    "--ignore-certificate-errors",
    "--remote-debugging-port=0",
]



def quic(url):
    """QUIC with that site, or with none. Certificates that are not in order are rejected over QUIC, whatever else is said, but by key."""
    key = os.environ.get("HTTP3_KEY")
    return [f"--origin-to-force-quic-on={urllib.parse.urlsplit(url).netloc}", f"--ignore-certificate-errors-spki-list={key}"] if key else ["--disable-quic"]

def resolver(profile):
    """Where addresses of names come from."""
    if "DOH" not in os.environ:
        # `localhost` may have an IPv6 address, where nobody listens.
        return ["--host-resolver-rules=MAP localhost 127.0.0.1, MAP *.example 127.0.0.1"]
    with open(os.path.join(profile, "Local State"), "w", encoding="utf-8") as file:
        json.dump({"dns_over_https": {"mode": "secure", "templates": os.environ["DOH"]}}, file)
    # It goes on without an HTTPS record that comes later than addresses: by default after milliseconds.
    extra = "UseDnsHttpsSvcbSecureExtraTime"
    return [f"--enable-features=UseDnsHttpsSvcb:{extra}Min/60s/{extra}Max/60s"]


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
      check(document.querySelectorAll("#charts .chart path.line").length === 9, "charts");
      await until("axes", () => document.querySelectorAll("#charts .axis.middle").length >= 4 && document.querySelectorAll("#charts .axis.end").length >= 12);
      await until("the rejection, and its policy", () => rows("errors").some((row) => row.textContent.includes("address_not_allowed")) && rows("policies")[0]?.cells[0].textContent === "nobody");
      const markup = rows("errors").find((row) => row.textContent.includes("onerror"));
      check(markup && !markup.querySelector("img, script") && window.broken === undefined, "markup of a client is text");
      check(!document.body.textContent.includes("s3cret"), "a secret of a query");
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


# Key codes, and what a key types.
KEYS = {"Tab": (9, ""), "Enter": (13, "\r"), "Escape": (27, ""), "ArrowLeft": (37, ""), "Home": (36, ""), "End": (35, ""), "/": (191, "/")}


async def dashboard(page):
    """The dashboard by keyboard, on a phone, in the dark. The token is known by now."""
    await page.call("Page.reload")
    await page.event("Page.loadEventFired")
    await page.until("document.querySelectorAll('#servers tbody td').length > 1 && document.querySelectorAll('#charts path.line[d*=L]').length > 0")
    focus = "(document.activeElement.id || document.activeElement.getAttribute('aria-label') || document.activeElement.textContent)"
    await page.press("Tab")
    if await page.value(focus) != "Skip to the tables":
        sys.exit(f"the first stop of the keyboard is {await page.value(focus)}")
    await page.press("Enter", "Tab")
    stops = []
    for _ in range(60):
        stops.append(await page.value(focus))
        await page.press("Tab")
    missing = [name for name in ("server", "Upstream servers", "Recent errors", "Certificates") if not any(stop == name for stop in stops)]
    if missing:
        sys.exit(f"the keyboard does not come to {missing}: {stops}")
    # The chart: arrow keys move along the time, and it says what stands there.
    await page.value("document.querySelector('#charts svg').focus()")
    said = "document.querySelector('#charts svg').getAttribute('aria-valuetext')"
    await page.press("Home")
    first = await page.value(said)
    await page.press("End")
    last = await page.value(said)
    await page.press("ArrowLeft")
    before = await page.value(said)
    if len({first, last, before}) < 2 or not all(": all " in text and "5xx" in text for text in (first, last, before)):
        sys.exit(f"the chart says {first!r}, {last!r}, {before!r}")
    if await page.value("document.querySelectorAll('#charts .tip').length") != 4:
        sys.exit("not every chart shows its values at the cursor")
    await page.press("Escape")
    await page.until("document.querySelectorAll('#charts .tip').length === 0")
    # Sorted and filtered by keys alone.
    await page.value("[...document.querySelectorAll('#servers th button')].find((button) => button.textContent === 'requests').focus()")
    await page.press("Enter")
    await page.until("document.querySelector('#servers th[aria-sort=ascending]') !== null")
    await page.value("document.activeElement.blur()")
    await page.press("/", *"nobody")
    await page.until("document.querySelector('#servers tbody').textContent === 'nothing fits the filter'")
    await page.value("document.getElementById('filter').value = ''; document.getElementById('filter').dispatchEvent(new Event('input')); document.activeElement.blur()")
    await page.value("scrollTo(0, 0)")
    await page.look("dashboard-light", 1280, 1000)
    await page.look("dashboard-dark", 1280, 1000, dark=True)
    brightness = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).reduce((sum, one) => sum + Number(one), 0)"
    if await page.value(brightness) > 120:
        sys.exit("the dark theme is bright")
    await page.look("dashboard-phone", 390, 844, dark=True, phone=True)
    wide = await page.value("document.documentElement.scrollWidth")
    if wide > 390:
        sys.exit(f"{wide} pixels wide on a phone of 390")
    if await page.value("getComputedStyle(document.querySelector('#servers tr')).display") != "block":
        sys.exit("rows are no cards on a phone")
    if await page.value("[...document.querySelectorAll('#charts svg')].some((svg) => svg.getBoundingClientRect().right > 390)"):
        sys.exit("a chart is cut on a phone")


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

    async def value(self, expression):
        """What an expression comes to, once its promise is kept."""
        result = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            sys.exit(details.get("exception", {}).get("description", json.dumps(details)))
        return result["result"].get("value")

    async def until(self, expression):
        for _ in range(400):
            if await self.value(expression):
                return
            await asyncio.sleep(0.05)
        sys.exit(f"in vain: {expression}")

    async def press(self, *keys):
        """As a keyboard does: the browser moves the focus, scrolls and types, not a script."""
        for key in keys:
            code, text = KEYS[key] if key in KEYS else (ord(key.upper()), key)
            event = {"key": key, "windowsVirtualKeyCode": code, **({"text": text} if text else {})}
            await self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **event)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key, windowsVirtualKeyCode=code)

    async def look(self, name, width, height, dark=False, phone=False):
        """A picture of the page on such a screen. SCREENSHOTS names a folder where it is kept; it must not be blank."""
        await self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.until(f"matchMedia('(prefers-color-scheme: {scheme['value']})').matches && innerWidth === {width}")
        # Two events, so that everything is drawn for this size.
        await asyncio.sleep(2.5)
        picture = base64.b64decode((await self.call("Page.captureScreenshot", format="png"))["data"])
        with open(os.path.join(os.environ.get("SCREENSHOTS") or os.getcwd(), f"{name}.png"), "wb") as file:
            file.write(picture)
        if len(picture) < 20_000:
            sys.exit(f"{name}: a picture of {len(picture)} bytes is blank")

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
    words = [*FLAGS, *quic(url), *resolver(profile), f"--user-data-dir={profile}", "about:blank"]
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
        await page.value(expression)
        if scenario == "dashboard":
            await dashboard(page)


if __name__ == "__main__":
    asyncio.run(main())
